"""Every .cu file compiles for every GPU that is supported, and the hot kernels spill nothing.

NVRTC needs no GPU; its compiler tells how many registers a kernel takes.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cuda.hot import HEADERS, HOT, SOURCES

nvrtc: Any = pytest.importorskip(
    "cuda.bindings.nvrtc", reason="needs the packages cuda-bindings and nvidia-cuda-nvrtc"
)

ARCHITECTURES = (75, 80, 90, 100, 120)
# Ours, and those that cupy adds.
OPTIONS = (
    *(b"-std=c++17", b"-lineinfo", b"--ptxas-options=-v"),
    *(b"-ftz=true", b"--device-as-default-execution-space"),
)


def _compiled(file: str, kernels: tuple[str, ...], architecture: int) -> str:
    """Return what the compiler says of these kernels; fails with its errors."""
    headers = {path.name.encode(): path.read_bytes() for path in HEADERS}
    source = SOURCES[file].read_bytes()
    program = _done(
        nvrtc.nvrtcCreateProgram(
            source, f"{file}.cu".encode(), len(headers), [*headers.values()], [*headers]
        )
    )
    for kernel in kernels:
        _done(nvrtc.nvrtcAddNameExpression(program, kernel.encode()))
    options = [*OPTIONS, f"-arch=sm_{architecture}".encode()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    log = bytes(_done(nvrtc.nvrtcGetProgramLogSize(program)))
    nvrtc.nvrtcGetProgramLog(program, log)
    said = log.decode().rstrip("\0")
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, said
    assert _done(nvrtc.nvrtcGetCUBINSize(program)) > 0
    nvrtc.nvrtcDestroyProgram(program)
    return said


def _done(answer: tuple[Any, ...]) -> Any:
    status, *rest = answer
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, status
    return rest[0] if rest else None


def test_every_file_has_its_hot_kernels_listed() -> None:
    assert sorted(HOT) == sorted(SOURCES)


def test_every_kernel_states_its_launch_bounds() -> None:
    for path in SOURCES.values():
        source = path.read_text("utf-8")
        assert source.count("__global__") == source.count("__launch_bounds__") > 0, path.name


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("file", HOT)
def test_it_compiles_and_spills_nothing(file: str, architecture: int) -> None:
    said = _compiled(file, HOT[file], architecture)
    assert "warning" not in said, said
    spills = re.findall(r"(\d+) bytes spill (?:stores|loads)", said)
    assert len(spills) == 2 * len(HOT[file])
    assert set(spills) == {"0"}, said


def test_an_error_is_found() -> None:
    with pytest.raises(AssertionError, match="no_such_kernel"):
        _compiled("pool", ("no_such_kernel<float>",), 90)
