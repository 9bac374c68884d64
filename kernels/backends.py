"""Which implementation of a kernel runs: found by file and function name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.tensor import is_on_device

Backend = Literal["auto", "numpy", "numba", "cupy"]
F = TypeVar("F", bound=Callable[..., Any])

# Below this many bytes of rows NumPy is done before a compiled kernel has been loaded.
COMPILED_BYTES = 1 << 20


def on(backend: Backend, reference: F, *, size_bytes: int = 0) -> F:
    """Return the twin of a NumPy kernel on another backend, or the kernel itself.

    Args:
        backend: "numpy"; "numba" or "cupy", whose twin must exist; "auto": cupy for arrays
            on a GPU, else numba where there is a twin and `size_bytes` repays loading it,
            else numpy.
        reference: a function of lodcli.kernels.ops.FILE; its twin is the function of the
            same name in lodcli.kernels.on_BACKEND.FILE.
        size_bytes: bytes of rows at hand, for "auto".

    Raises:
        UnsupportedError: there is no such twin, its package is not installed, or the
            arrays it is called with lie where the backend does not compute.
    """
    if backend == "cupy" or "cupy" in sys.modules:
        return _by_place(backend, reference, size_bytes)
    return _on_host(backend, reference, size_bytes)


def _on_host(backend: Backend, reference: F, size_bytes: int) -> F:
    if backend == "numpy" or (backend == "auto" and size_bytes < COMPILED_BYTES):
        return reference
    if backend == "auto":
        return _twin("numba", *_named(reference)) or reference
    return _found(backend, reference)


def _by_place(backend: Backend, reference: F, size_bytes: int) -> F:
    """Return what decides when it is called: nothing is ever moved between devices."""

    def call(*args: Any, **more: Any) -> Any:
        there = any(map(is_on_device, (*args, *more.values())))
        if not there and backend == "cupy":
            raise UnsupportedError(
                "backend cupy computes on arrays that lie on a GPU, these lie in main memory; "
                "move them with cupy.asarray"
            )
        if there and backend not in ("auto", "cupy"):
            raise UnsupportedError(
                f"backend {backend} computes in main memory, the array lies on a GPU; "
                "move it with cupy.asnumpy"
            )
        kernel = _found("cupy", reference) if there else _on_host(backend, reference, size_bytes)
        return kernel(*args, **more)

    return call  # type: ignore[return-value]


def _found(backend: Backend, reference: F) -> F:
    """Return the twin. Raises UnsupportedError if there is none."""
    twin = _twin(backend, *_named(reference))
    if twin is None:
        remedy = (
            "move the rows to main memory with cupy.asnumpy"
            if backend == "cupy"
            else "use --backend numpy"
        )
        raise UnsupportedError(f"no {backend} kernel for {'.'.join(_named(reference))}; {remedy}")
    return twin  # type: ignore[no-any-return]


def _named(reference: Callable[..., Any]) -> tuple[str, str]:
    return reference.__module__.rsplit(".", 1)[-1], reference.__name__


@cache
def _twin(backend: str, file: str, function: str) -> Any:
    if backend not in ("numba", "cupy"):
        raise UnsupportedError(f"no backend {backend!r}; there are: numpy, numba, cupy")
    if importlib.util.find_spec(backend) is None:
        return None
    name = f"lodcli.kernels.on_{backend}.{file}"
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    return getattr(importlib.import_module(name), function, None) if found else None
