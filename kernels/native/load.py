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
from lodcli.kernels.platform.processes import held_during_forks

__all__ = ["Kernels", "NativeUnavailableError", "address", "is_shipped", "kernel"]

#: Modules and names of the kernels that all wrappers imported so far use.
asked: set[tuple[str, str]] = set()
_FOLDER = Path(__file__).parent / "lib"
_lock = held_during_forks(threading.RLock())


class NativeUnavailableError(UnsupportedError):
    """No compiled kernel is available; NumPy is used instead."""


class Kernels(dict[str, Kernel]):
    """The builds of one kernel, by the characters of its dtypes: kernels["f"].

    Args:
        module: the module that declares it, without "lodcli.".
        name: name of the kernel.

    Raises:
        NativeUnavailableError: on lookup of a build that is missing and cannot be compiled.
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
    """Return whether the package has usable compiled kernels, so that none are compiled here.

    They do not check indices: with NUMBA_BOUNDSCHECK=1, kernels are compiled as in a checkout.
    """
    return _shipped() is not None


def open_shipped() -> None:
    """Open the package's library, if there is one; later lookups of its kernels open no file."""
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
    # Imported late: not needed if the package's library has all kernels.
    from lodcli.kernels.native import cache as local

    try:
        return local.part(level, module, name, types)
    except LibraryError as error:
        _tell(str(error))
        raise NativeUnavailableError(str(error)) from None


@cache
def _stamp() -> Any:
    """Return the module that describes the package's libraries; None in a checkout."""
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
    """Return the functions that call kernels as builtin functions; None if not possible."""
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
