"""From CUDA C++ to a shared library for the CPU, by g++ and host_cuda.h."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

HOST = Path(__file__).parents[1]
# HOST_CUDA_LINES=1: sanitizers report lines; compiling takes a third longer.
LINES = "-g1" if os.environ.get("HOST_CUDA_LINES") == "1" else "-g0"
FLAGS = ["-std=c++17", "-O1", LINES, "-fPIC", "-fno-strict-aliasing", "-w"]
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Calls of host_races.h before every access; without the library that such calls are of as a rule.
RACES = ["-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"]
# Takes a third of the time of the default linker.
LINKER = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


def version() -> tuple[int, int]:
    """Return a substitute for the compiler's version, which changes with flags and headers."""
    headers = "".join(path.read_text() for path in sorted(HOST.glob("*.h")))
    of = "\0".join([headers, *_flags(), *_change()])
    return 0, int(hashlib.sha256(of.encode()).hexdigest()[:8], 16)


def compiled(source: str, headers: Mapping[str, bytes]) -> bytes:
    """Return the library of a source and its headers."""
    old, new = _change()
    texts = {name: text.decode().replace(old, new).encode() for name, text in headers.items()}
    return _library(source.replace(old, new), texts, _flags()).read_bytes()


def _change() -> tuple[str, str]:
    """Return the replaced text of the sources, for an injected fault; by default none."""
    old, new = json.loads(os.environ.get("HOST_CUDA_CHANGE", '["\\n", "\\n"]'))
    return old, new


def load(path: str) -> ctypes.CDLL:
    """Load a compiled library, and the runtime before it."""
    _load_runtime()
    return ctypes.CDLL(path)


def _flags() -> list[str]:
    asked = os.environ.get("HOST_CUDA_SANITIZE", "")
    return [*FLAGS, *{"": [], "1": SANITIZE, "races": RACES}[asked]]


def _folder() -> Path:
    folder = Path(os.environ.get("HOST_CUDA_CACHE", Path(tempfile.gettempdir()) / "host-cuda"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _library(source: str, headers: Mapping[str, bytes], flags: Sequence[str]) -> Path:
    folder = _folder()
    texts = [source, *(text.decode() for text in headers.values()), *flags]
    key = hashlib.sha256("\0".join([*texts, str(version())]).encode()).hexdigest()[:24]
    library = folder / f"{key}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            file, part, made = (Path(scratch, f"kernel.{end}") for end in ("cpp", "o", "so"))
            file.write_text(source)
            for name, text in headers.items():
                Path(scratch, name).write_bytes(text)
            includes = [f"-I{path}" for path in (_prepared(flags, folder), HOST)]
            _run([*flags, *includes, "-c", str(file), "-o", str(part)])
            linked = [flag for flag in flags if flag not in RACES]
            _run([*linked, *LINKER, "-shared", str(part), "-o", str(made)])
            made.rename(library)
    return library


def _run(arguments: Sequence[str]) -> None:
    # Without the preloaded sanitizer: g++ would be several times slower.
    plain = {name: text for name, text in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run(
        ["g++", *arguments], env=plain, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"g++ failed:\n{done.stderr[:8000]}")


@cache
def _load_runtime() -> None:
    """Load the runtime of kernels, so that their libraries find it."""
    source = (HOST / "host_cuda.cpp").read_text("utf-8")
    flags = [*(flag for flag in _flags() if flag not in RACES), "-O2"]
    ctypes.CDLL(str(_library(source, {}, flags)), ctypes.RTLD_GLOBAL)


def _prepared(flags: Sequence[str], folder: Path) -> Path:
    """Return a folder with host_cuda.h precompiled, which halves the time of every kernel."""
    header = HOST / "host_cuda.h"
    key = hashlib.sha256("\0".join([header.read_text(), str(header), *flags]).encode())
    prepared = folder / f"header-{key.hexdigest()[:24]}"
    made = prepared / "host_cuda.h.gch"
    if not made.exists():
        prepared.mkdir(exist_ok=True)
        scratch = prepared / f"{os.getpid()}.tmp"
        _run([*flags, "-x", "c++-header", str(header), "-o", str(scratch)])
        scratch.rename(made)
    return prepared
