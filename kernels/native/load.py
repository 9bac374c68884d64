"""Loads compiled kernels by name from the package's library or the cache. Imports no numba.

_rows = kernel("kernels.ops.softmax.softmax_numba", "rows")

_rows[x.dtype.char].call(0, pieces, x, offsets, out, ...)
"""

from __future__ import annotations

import importlib
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.native import calls, settings
from lodcli.kernels.native.calls import Kernel, address
from lodcli.kernels.native.linking.library import Library, LibraryError

__all__ = ["Kernels", "NativeUnavailableError", "address", "is_shipped", "kernel"]

#: The modules and names of all kernels that wrappers, as far as they are imported, ask for.
asked: set[tuple[str, str]] = set()
_FOLDER = Path(__file__).parent / "lib"
_lock = threading.RLock()


class NativeUnavailableError(UnsupportedError):
    """There is no compiled kernel for this: NumPy computes it."""


class Kernels(dict[str, Kernel]):
    """The builds of one kernel, by the characters of its dtypes: kernels["f"].

    Args:
        module: that declares it, less "lodcli.".
        name: of the kernel.

    Raises:
        NativeUnavailableError: when one is looked up that is not there and cannot be compiled.
    """

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name
        asked.add((module, name))

    def __missing__(self, key: str) -> Kernel:
        types = tuple(np.dtype(each).name for each in key)
        self[key] = found = _find(self.module, self.name, types)
        return found


def kernel(module: str, name: str) -> Kernels:
    """Return a kernel's builds; nothing is loaded before one is looked up."""
    return Kernels(module, name)


@cache
def is_shipped() -> bool:
    """Return whether the kernels came with the package, and are usable: nothing is compiled.

    None of them checks indices: with NUMBA_BOUNDSCHECK=1, kernels are compiled as in a checkout.
    """
    return _shipped() is not None


def open_shipped() -> None:
    """Open the package's library, if there is one: its kernels are found later without a file."""
    if is_shipped():
        _bridge()


def _find(module: str, name: str, types: tuple[str, ...]) -> Kernel:
    with _lock:
        library = _library(module, name, types)
        entry = library.find(module, name, types)
        assert entry is not None
        return Kernel(name, entry, checked=library.checked, bridge=_bridge())


def _library(module: str, name: str, types: tuple[str, ...]) -> Library:
    """Return the library that holds a kernel."""
    try:
        level = settings.level()
    except settings.LevelError as error:
        raise NativeUnavailableError(f"no compiled kernels: {error}") from None
    shipped = _shipped()
    if shipped is not None and shipped.find(module, name, types):
        return shipped
    if shipped is None and _stamp() is not None and not settings.checked():
        raise NativeUnavailableError("no compiled kernels: the package's library is not usable")
    # Only now: nothing of it is needed where the package's library has all.
    from lodcli.kernels.native import cache as local

    try:
        return local.part(level, module, name, types)
    except LibraryError as error:
        _tell(str(error))
        raise NativeUnavailableError(str(error)) from None


@cache
def _stamp() -> Any:
    """Return what a build left beside the libraries; None in a checkout, which has none."""
    try:
        return importlib.import_module("lodcli.kernels.native.lib.built")
    except ModuleNotFoundError:
        return None


@cache
def _shipped() -> Library | None:
    """Return the package's library for this processor; None, reported once, if it is unusable."""
    stamp = _stamp()
    if stamp is None or settings.checked():
        return None
    try:
        level = settings.level()
    except settings.LevelError:
        return None
    fitting = [each for each in settings.levels_up_to(level) if each.name in stamp.LEVELS]
    if not fitting:
        _tell(f"this package holds no kernels for {level.name}")
        return None
    best = fitting[-1]
    try:
        return Library(
            _FOLDER / f"{best.name}.so", level=best.name, build=stamp.BUILD, checked=False
        )
    except LibraryError as error:
        _tell(str(error))
        return None


@cache
def _bridge() -> calls.Bridge | None:
    """Return the addresses of what makes kernels builtin functions, where that is possible."""
    if settings.checked() or not calls.can_bridge():
        return None
    module = "kernels.native.python_numba"
    call, keep = (
        _library(module, name, ()).find(module, name, ()) for name in ("from_python", "keep")
    )
    return calls.Bridge(call.address, keep.address) if call and keep else None


@cache
def _tell(problem: str) -> None:
    """Print on standard error, once, why NumPy computes instead of compiled kernels."""
    print(f"lod: {problem}; NumPy is used, which is slower", file=sys.stderr)
