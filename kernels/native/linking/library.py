"""A file of compiled kernels: a shared object followed by an index of its kernels.

    shared object | index, JSON | its size, 8 | SHA-256 of all before, 32 | "lodkern" and version

The dynamic linker reads only the shared object, by its headers. The checksum is verified before
the file is opened, because the dynamic linker would crash on a damaged one.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lodcli.kernels.errors import LodError

FORMAT = b"lodkern\x01"
#: Status of a kernel that raised an exception; only in builds with bounds checks.
RAISED = 1 << 62
_TAIL_BYTES = 8 + 32 + len(FORMAT)


class LibraryError(LodError):
    """A library cannot be used; the message says which and why."""


@dataclass(frozen=True)
class Entry:
    """A kernel's entry in the index.

    Attributes:
        address: address of its code, relative to the library's base.
        arguments: the kind of each argument word, followed by a pointer's element: "pfloat32".
    """

    address: int
    arguments: tuple[str, ...]


def compose(
    image: bytes,
    *,
    level: str,
    build: str,
    checked: bool,
    imports: dict[str, int],
    kernels: Iterable[tuple[str, str, tuple[str, ...], Entry]],
) -> bytes:
    """Return the bytes of a library.

    Args:
        level: name of the processor level.
        build: build id, with the digest of the sources and compiler versions.
        checked: whether indices are checked; see NUMBA_BOUNDSCHECK.
        imports: see link.Linked.
        kernels: module, name, types and entry of each.
    """
    held: dict[str, Any] = {}
    for module, name, types, entry in kernels:
        held.setdefault(module, {})[" ".join((name, *types))] = [
            entry.address,
            " ".join(entry.arguments),
        ]
    index = {
        "level": level, "build": build, "checked": checked, "imports": imports, "kernels": held,
    }  # fmt: skip
    text = json.dumps(index, separators=(",", ":")).encode()
    body = image + text + len(text).to_bytes(8, "little")
    return body + _sha256(body) + FORMAT


class Library:
    """An open library.

    Args:
        path: of the file.
        level, build, checked: what it must be for; see `compose`.

    Raises:
        LibraryError: it is missing, damaged, of another version, or not what was asked for.
    """

    def __init__(self, path: Path, *, level: str, build: str, checked: bool) -> None:
        index = _index(path)
        wanted = {"level": level, "build": build, "checked": checked}
        for name, value in wanted.items():
            if index.get(name) != value:
                raise LibraryError(f"{path}: {name}: expected {value!r}, found {index.get(name)!r}")
        self._kernels: dict[str, dict[str, list[Any]]] = index["kernels"]
        self._base = _opened(path, self._kernels, index["imports"])
        self.checked = checked

    def find(self, module: str, name: str, types: tuple[str, ...]) -> Entry | None:
        """Return a kernel with its address in memory, or None if the library lacks it."""
        try:
            address, arguments = self._kernels[module][" ".join((name, *types))]
        except KeyError:
            return None
        return Entry(self._base + address, tuple(arguments.split()))


def _sha256(body: bytes | memoryview) -> bytes:
    import hashlib  # loads OpenSSL: not for commands that run no kernel

    return hashlib.sha256(body).digest()


def _index(path: Path) -> dict[str, Any]:
    """Return the index of a library file; verifies the checksum."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise LibraryError(f"{path}: no such file") from None
    except OSError as error:
        raise LibraryError(f"{path}: {error.strerror or error}") from None
    if len(data) < _TAIL_BYTES or data[-8:-1] != FORMAT[:-1]:
        raise LibraryError(f"{path}: not a library of kernels, or cut short")
    if data[-1:] != FORMAT[-1:]:
        raise LibraryError(f"{path}: expected version {FORMAT[-1]} of such files, found {data[-1]}")
    body = memoryview(data)[: -32 - len(FORMAT)]
    if _sha256(body) != data[-32 - len(FORMAT) : -len(FORMAT)]:
        raise LibraryError(f"{path}: damaged: its checksum does not match")
    size = int.from_bytes(body[-8:], "little")
    index: dict[str, Any] = json.loads(bytes(body[-8 - size : -8]))
    return index


def _opened(path: Path, kernels: dict[str, Any], imports: dict[str, int]) -> int:
    """Load a library and fill in its external functions; return its base address."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryError(str(error)) from None
    module = next(iter(kernels))
    kernel = next(iter(kernels[module]))
    symbol = ".".join(["lod", module, *kernel.split()])
    first = ctypes.cast(library[symbol], ctypes.c_void_p).value or 0
    base: int = first - kernels[module][kernel][0]
    for name, place in imports.items():
        ctypes.c_uint64.from_address(base + place).value = _address_of(name, path)
    return base


def _address_of(name: str, path: Path) -> int:
    """Return the address of a function of the C library."""
    # Functions already loaded in this process come first, as for JIT-compiled code.
    for source in (None, "libm.so.6", "libc.so.6"):
        try:
            function = getattr(ctypes.CDLL(source), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise LibraryError(f"{path}: the C library has no {name}")
