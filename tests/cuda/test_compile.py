"""Every .cu file compiles for every GPU that is supported; hot kernels use memory well.

That is: nothing of theirs lies in local memory, and rows are read and written in wide requests.
NVRTC needs no GPU; its compiler reports registers and local memory of a kernel, and NVIDIA's
disassembler shows its instructions.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.cuda.hot import HEADERS, HOT, REQUESTS, SOURCES
from tests.sampling import THOROUGH

nvrtc: Any = pytest.importorskip(
    "cuda.bindings.nvrtc", reason="needs the packages cuda-bindings and nvidia-cuda-nvrtc"
)

# The sources distinguish architectures from 80 on and older ones: by default one of each.
ARCHITECTURES = (75, 80, 90, 100, 120) if THOROUGH else (75, 90)
# As in lodcli.kernels.cuda.compiling, which needs cupy; and figures of each kernel.
OPTIONS = (
    *(b"-std=c++17", b"-lineinfo", b"--device-as-default-execution-space"),
    b"--ptxas-options=-v",
)


@cache
def _compiled(
    file: str, kernels: tuple[str, ...], architecture: int
) -> tuple[str, bytes, dict[str, str]]:
    """Return the compiler's messages, the machine code and the name of each kernel there.

    Fails with the compiler's errors.
    """
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
    code = bytes(_done(nvrtc.nvrtcGetCUBINSize(program)))
    assert code
    nvrtc.nvrtcGetCUBIN(program, code)
    names = {
        one: _done(nvrtc.nvrtcGetLoweredName(program, one.encode())).decode() for one in kernels
    }
    nvrtc.nvrtcDestroyProgram(program)
    return said, code, names


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
def test_it_compiles_and_uses_no_local_memory(file: str, architecture: int) -> None:
    said, _, _ = _compiled(file, HOT[file], architecture)
    assert "warning" not in said, said
    local = re.findall(r"(\d+) bytes (?:stack frame|spill stores|spill loads)", said)
    assert len(local) == 3 * len(HOT[file])
    assert set(local) == {"0"}, said


def _disassembler() -> Path:
    try:
        files = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        pytest.skip("needs the package nvidia-cuda-nvdisasm")
    (found,) = (file for file in files if file.name == "nvdisasm")
    return Path(os.fspath(found.locate()))


@cache
def _instructions(file: str, architecture: int) -> dict[str, str]:
    """Return the instructions of each hot kernel, as NVIDIA's disassembler shows them."""
    disassembler = _disassembler()
    _, code, names = _compiled(file, HOT[file], architecture)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
        Path(cubin.name).write_bytes(code)
        said = subprocess.run(
            [disassembler, "-c", cubin.name], capture_output=True, text=True, check=True
        ).stdout
    found = dict(part.split(",", 1) for part in re.split(r"\.section\s+\.text\.", said)[1:])
    return {kernel: found[names[kernel]] for kernel in HOT[file]}


def disassembled(*architectures: int) -> pytest.MarkDecorator:
    """Run a test of instructions for 90, which is compiled already; for all in a thorough run."""
    return pytest.mark.parametrize("architecture", architectures if THOROUGH else (90,))


# Kernels whose threads have several neighbouring values, or words of 16 bytes. Attention and RNNs
# have separate tests.
_SEVERAL = re.compile(r", [248]>|uint4\b")
_OWN_TESTS = ("attention", "rnn")


def test_every_kernel_of_several_values_a_thread_has_its_requests_listed() -> None:
    for file, kernels in HOT.items():
        if not file.startswith(_OWN_TESTS):
            several = {kernel for kernel in kernels if _SEVERAL.search(kernel)}
            assert several <= REQUESTS.get(file, {}).keys(), file


# An instruction that reads or writes global memory; without a size, 32 bits.
_REQUEST = re.compile(r"\b(LDG|STG)\.E(?:\.(64|128|[US]8|[US]16))?\b")


@pytest.mark.slow
@disassembled(80, 90, 120)
@pytest.mark.parametrize("file", REQUESTS)
def test_rows_are_read_and_written_in_wide_requests(file: str, architecture: int) -> None:
    instructions = _instructions(file, architecture)
    for kernel, expected in REQUESTS[file].items():
        found: dict[str, set[int]] = {"LDG": set(), "STG": set()}
        for what, size in _REQUEST.findall(instructions[kernel]):
            found[what].add(int(size.lstrip("US") or 32))
        assert (found["LDG"], found["STG"]) == expected, kernel


@pytest.mark.slow
@disassembled(80, 90)
def test_attention_copies_16_bytes_at_a_time_and_loads_matrices(architecture: int) -> None:
    for kernel, code in _instructions("attention", architecture).items():
        if "_joined" in kernel or "Tiles<" not in kernel:
            continue
        copies = re.findall(r"\bLDGSTS\.E\.\S*", code)
        assert copies, kernel
        assert all(".128" in one for one in copies), kernel
        rounded = "Rounded" in kernel
        assert bool(re.search(r"\bLDSM\.16\.M88\.4\b", code)) == rounded, kernel
        assert bool(re.search(r"\bHMMA\.", code)) == rounded, kernel
        # Weights are rounded two at a time.
        assert ("F2FP.BF16" in code) == ("BF16" in kernel), kernel
        # What is brought lies in shared memory: 16 bytes a load, but for columns of tf32.
        if not rounded:
            assert set(re.findall(r"\bLDS(\S*) R\d", code)) == {".128"}, kernel


@pytest.mark.slow
@disassembled(80, 90, 120)
def test_a_step_copies_its_operand_and_inputs_past_registers(architecture: int) -> None:
    for kernel, code in _instructions("rnn_persistent", architecture).items():
        # What is passed on by 16 bytes past the first level of the cache; inputs value by value.
        copies = set(re.findall(r"\bLDGSTS\.E(\S*)", code))
        value = ".64" if "double" in kernel else ""
        expected = {".BYPASS.128"} | ({value} if "forward" in kernel else set())
        assert {re.sub(r"\.LTC\w+|\.DESC", "", one) for one in copies} == expected, kernel
        rounded = "Rounded" in kernel
        assert bool(re.search(r"\bLDSM\.16\.M88\.4\b", code)) == rounded, kernel
        assert bool(re.search(r"\bHMMA\.", code)) == rounded, kernel


@pytest.mark.slow
@disassembled(80, 90)
def test_an_rnn_of_rows_of_two_bytes_reads_and_writes_two_bytes(architecture: int) -> None:
    for kernel, instructions in _instructions("rnn_persistent", architecture).items():
        if not kernel.endswith("float16>"):
            continue
        code = re.sub(r"\.DESC|\.CONSTANT", "", instructions)
        # Forward nothing has four bytes; back the gradients of states that each step adds to.
        sums = 0 if "forward" in kernel else 2 if "LSTM" in kernel else 1
        assert len(re.findall(r"\bLDG?\.E\s", code)) == sums, kernel
        gates = 4 if "LSTM" in kernel else 3
        assert len(re.findall(r"\bLDG?\.E\.U16\b", code)) >= gates, kernel
        assert len(re.findall(r"\bSTG?\.E\.U16\b", code)) >= gates, kernel
        assert bool(re.search(r"\bSTG?\.E\s", code)) == bool(sums), kernel


@pytest.mark.slow
@disassembled(90, 120)
def test_blocks_of_a_cluster_pass_nothing_on_in_memory(architecture: int) -> None:
    for kernel, code in _instructions("rnn_cluster", architecture).items():
        # Inputs come value by value; there is nothing to bring by 16 bytes.
        assert "BYPASS" not in code, kernel
        alone = "<1, " in kernel
        # At the start of a slice and where blocks meet; forward its first states are passed on.
        meetings = 0 if alone else 2 + ("forward" in kernel)
        for what in (r"\bUCGABAR_ARV\b", r"\bUCGABAR_WAIT\b", r"\bMEMBAR\."):
            assert len(re.findall(what, code)) == meetings, kernel


@pytest.mark.slow
@disassembled(80, 90)
def test_blocks_that_meet_wait_for_their_stores_once(architecture: int) -> None:
    for kernel, instructions in _instructions("rnn_persistent", architecture).items():
        # Forward blocks meet at the start of a slice as well.
        meetings = 1 + ("forward" in kernel)
        assert len(re.findall(r"\bMEMBAR\.", instructions)) == meetings, kernel


def test_an_error_is_found() -> None:
    with pytest.raises(AssertionError, match="no_such_kernel"):
        _compiled("pool", ("no_such_kernel<float>",), 90)
