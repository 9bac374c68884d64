"""Compiles kernels of .cu files with NVRTC, and caches their machine code on disk.

CuPy's RawModule is not used for sources, because it compiles with -ftz=true: float32 numbers below
1.2e-38 would be flushed to 0, unlike in NumPy.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import cupy

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.native.cache import write
from lodcli.kernels.native.settings import cache_folder

_KERNELS = Path(__file__).parents[1]
# Each .cu file by its name without the extension, and the headers.
SOURCES = {path.stem: path for path in _KERNELS.rglob("*.cu")}
HEADERS = sorted(_KERNELS.rglob("*.cuh"))
# Line numbers, for profilers, take no time. Every supported NVRTC compiles C++17.
OPTIONS = ("-std=c++17", "-lineinfo", "--device-as-default-execution-space")


def function(file: str, kernel: str, *, together: bool = False) -> Any:
    """Return a kernel for the current device: from the cache on disk, or compiled and cached there.

    Args:
        file: the .cu file, without its extension.
        kernel: its name with its template arguments: "fill<float>".
        together: whether its launches are cooperative: all blocks run at once.

    Raises:
        UnsupportedError: NVRTC cannot compile it; the message has NVRTC's output.
    """
    target = _target(cupy.cuda.Device().compute_capability)
    digest = hashlib.sha256(
        "\0".join(
            [repr(cupy.cuda.nvrtc.getVersion()), target, *OPTIONS, _texts(file), kernel]
        ).encode()
    ).hexdigest()
    folder = cache_folder()
    with contextlib.suppress(OSError):
        if folder is not None:
            return _loaded(folder, digest, together)
    code, name = _compiled(file, kernel, target)
    with contextlib.suppress(OSError):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            _keep(folder, digest, code, name)
            return _loaded(folder, digest, together)
    with tempfile.TemporaryDirectory(prefix="lod-kernels-") as private:
        _keep(Path(private), digest, code, name)
        return _loaded(Path(private), digest, together)


def _target(capability: str) -> str:
    """Return the option for the target: machine code, or PTX for a GPU newer than NVRTC."""
    known = cupy.cuda.nvrtc.getSupportedArchs()
    newest = max(known)
    return f"-arch=sm_{capability}" if int(capability) in known else f"-arch=compute_{newest}"


@cache
def _texts(file: str) -> str:
    return "\0".join(path.read_text("utf-8") for path in (SOURCES[file], *HEADERS))


def _compiled(file: str, kernel: str, target: str) -> tuple[bytes, str]:
    """Return the machine code or PTX of a kernel, and the mangled name of the kernel."""
    nvrtc = cupy.cuda.nvrtc
    program = nvrtc.createProgram(
        SOURCES[file].read_text("utf-8"),
        f"{file}.cu",
        [path.read_bytes() for path in HEADERS],
        [path.name.encode() for path in HEADERS],
    )
    try:
        nvrtc.addNameExpression(program, kernel)
        try:
            nvrtc.compileProgram(program, [*OPTIONS, target])
        except nvrtc.NVRTCError:
            raise UnsupportedError(
                f"NVRTC {nvrtc.getVersion()} cannot compile {kernel} of {file}.cu with {target}: "
                f"{nvrtc.getProgramLog(program)}"
            ) from None
        read = nvrtc.getCUBIN if target.startswith("-arch=sm_") else nvrtc.getPTX
        return bytes(read(program)), nvrtc.getLoweredName(program, kernel)
    finally:
        nvrtc.destroyProgram(program)


def _keep(folder: Path, digest: str, code: bytes, name: str) -> None:
    # The name is written last, so a file that has one is complete.
    write(folder, folder / f"cuda.{digest}.code", code)
    write(folder, folder / f"cuda.{digest}.name", name.encode())


def _loaded(folder: Path, digest: str, together: bool) -> Any:
    name = (folder / f"cuda.{digest}.name").read_text("utf-8")
    code = folder / f"cuda.{digest}.code"
    if not code.exists():
        raise FileNotFoundError(code)
    module = cupy.RawModule(path=str(code), enable_cooperative_groups=together)
    return module.get_function(name)
