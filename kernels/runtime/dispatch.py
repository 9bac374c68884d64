"""Dispatch of a kernel to a backend, by file and function name."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

import numpy as np

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.native import load
from lodcli.kernels.options import option, to_main_memory
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.forwarding import forwarding
from lodcli.kernels.runtime.index_arguments import INDEX_ARGUMENTS
from lodcli.kernels.suggestions import or_near

Backend = Literal["auto", "numpy", "numba", "cupy"]
F = TypeVar("F", bound=Callable[..., Any])

# From this many bytes of rows on, a compiled kernel saves more time than loading it takes:
# docs/decisions/0022-thresholds.md.
COMPILED_BYTES = 1 << 20


_told: Callable[[str, str], None] | None = None


def when_dispatched(callback: Callable[[str, str], None] | None) -> None:
    """Set the callback invoked with kernel and backend at each dispatch; None removes it."""
    global _told
    _told = callback


def on(backend: Backend, reference: F, *, size_bytes: int = 0) -> F:
    """Return the twin of a NumPy kernel on another backend, or the kernel itself.

    Args:
        backend: "numpy"; "numba" or "cupy", whose twin must exist; "auto": cupy for arrays
            on a GPU, else numba where there is a twin and `size_bytes` is large enough to
            repay loading it, else numpy.
        reference: a function of a module; its twin is the function of the same name in the
            module beside it whose name ends in _BACKEND.
        size_bytes: bytes of the rows, for "auto".

    Raises:
        UnsupportedError: there is no such twin, its package is not installed, or the
            arrays are on a device that the backend does not support.
    """
    if backend == "cupy" or "cupy" in sys.modules:
        return _by_place(backend, reference, size_bytes)
    if backend == "auto" and _told is None and load.is_shipped():  # fast path of most calls
        return _compiled(reference) or _jitted(reference, size_bytes)
    return _on_host(backend, reference, size_bytes)


def _on_host(backend: Backend, reference: F, size_bytes: int) -> F:
    found = _host_twin(backend, reference, size_bytes)
    if _told is not None:
        _told(_named(reference), "numpy" if found is reference else "numba")
    return found


def _host_twin(backend: Backend, reference: F, size_bytes: int) -> F:
    if backend == "numpy":
        return reference
    if backend == "auto":
        if size_bytes < COMPILED_BYTES and not load.is_shipped():
            return reference
        return _compiled(reference) or _jitted(reference, size_bytes)
    return _found(backend, reference)


@cache
def _compiled(reference: F) -> F | None:
    """Return the twin that calls compiled kernels, with the reference as fallback.

    None if there is no such twin.
    """
    twin = _beside(reference, "native")
    if twin is None:
        return None

    def instead(*args: Any, **more: Any) -> Any:
        if _told is not None:
            _told(_named(reference), "numpy")
        return reference(*args, **more)

    call: F = _guarded(twin, instead)
    return call


_GUARDED = """
    try:
        return twin({passed})
    except NativeUnavailableError:
        return instead({passed})
"""


def _guarded(twin: F, instead: F) -> F:
    """Return a function that calls a twin, or `instead` if its compiled kernel is unavailable."""
    unavailable = load.NativeUnavailableError
    call: F = forwarding(
        twin, _GUARDED, twin=twin, instead=instead, NativeUnavailableError=unavailable
    )
    return call


def _jitted(reference: F, size_bytes: int) -> F:
    if size_bytes < COMPILED_BYTES:
        return reference
    return _twin("numba", reference) or reference


def _beside(reference: Callable[..., Any], suffix: str) -> Any:
    """Return the function of the same name in the module with this suffix; None if missing."""
    name = f"{reference.__module__}_{suffix}"
    if importlib.util.find_spec(name) is None:
        return None
    return getattr(importlib.import_module(name), reference.__name__, None)


def _by_place(backend: Backend, reference: F, size_bytes: int) -> F:
    """Return a dispatcher that picks the backend by the device of the arrays; none is moved."""

    def call(*args: Any, **more: Any) -> Any:
        given = dict(zip(_parameters(reference), args, strict=False)) | more
        rows = {name: value for name, value in given.items() if name not in INDEX_ARGUMENTS}
        there = any(map(_on_device, rows.values()))
        if not there and backend == "cupy":
            raise UnsupportedError(
                "backend cupy computes on arrays on a GPU, these are in main memory; "
                "move them with LoDTensor.to_device or cupy.asarray"
            )
        if there and backend not in ("auto", "cupy"):
            raise UnsupportedError(
                f"backend {backend} computes in main memory, the array is on a GPU; "
                "move it with cupy.asnumpy"
            )
        if not there:
            return _on_host(backend, reference, size_bytes)(*args, **more)
        for name, value in rows.items():
            if _in_main_memory(value):
                raise UnsupportedError(
                    f"{_named(reference)}: {name} is in main memory, other arrays are on "
                    "a GPU; move it with cupy.asarray"
                )
        if _told is not None:
            _told(_named(reference), "cupy")
        return _found("cupy", reference)(*args, **more)

    return call  # type: ignore[return-value]


@cache
def _parameters(reference: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(reference).parameters)


def _on_device(value: Any) -> bool:
    return any(map(is_on_device, value)) if isinstance(value, list | tuple) else is_on_device(value)


def _in_main_memory(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_in_main_memory, value))
    return isinstance(value, np.ndarray)


def _found(backend: Backend, reference: F) -> F:
    """Return the twin. Raises UnsupportedError if there is none."""
    twin = _twin(backend, reference)
    if twin is None:
        remedy = (
            to_main_memory("the rows") if backend == "cupy" else f"use {option('backend', 'numpy')}"
        )
        raise UnsupportedError(f"no {backend} kernel for {_named(reference)}; {remedy}")
    return twin  # type: ignore[no-any-return]


def _named(reference: Callable[..., Any]) -> str:
    return f"{reference.__module__.rpartition('.')[2]}.{reference.__name__}"


@cache
def _twin(backend: str, reference: Callable[..., Any]) -> Any:
    if backend not in ("numba", "cupy"):
        raise UnsupportedError(
            f"no backend {backend!r}; there are: numpy, numba, cupy"
            + or_near(backend, ("numpy", "numba", "cupy"))
        )
    if backend == "numba" and (found := _beside(reference, "native")):
        return found
    return None if importlib.util.find_spec(backend) is None else _beside(reference, backend)
