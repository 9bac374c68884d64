"""Which implementation of a kernel runs: found by file and function name."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeVar

from lodcli.kernels.errors import UnsupportedError

Backend = Literal["auto", "numpy", "numba", "cupy"]
F = TypeVar("F", bound=Callable[..., Any])

# Below this many bytes of rows NumPy is done before a compiled kernel has been loaded.
COMPILED_BYTES = 1 << 20


def on(backend: Backend, reference: F, *, size_bytes: int = 0) -> F:
    """Return the twin of a NumPy kernel on another backend, or the kernel itself.

    Args:
        backend: "numpy"; "numba" or "cupy", whose twin must exist; "auto": numba where
            there is a twin and `size_bytes` repays loading it, else numpy.
        reference: a function of lodcli.kernels.ops.FILE; its twin is the function of the
            same name in lodcli.kernels.on_BACKEND.FILE.
        size_bytes: bytes of rows at hand, for "auto".

    Raises:
        UnsupportedError: there is no such twin, or its package is not installed.
    """
    if backend == "numpy" or (backend == "auto" and size_bytes < COMPILED_BYTES):
        return reference
    chosen = "numba" if backend == "auto" else backend
    twin = _twin(chosen, reference.__module__.rsplit(".", 1)[-1], reference.__name__)
    if twin is None:
        if backend == "auto":
            return reference
        name = f"{reference.__module__.rsplit('.', 1)[-1]}.{reference.__name__}"
        raise UnsupportedError(f"no {chosen} kernel for {name}; use --backend numpy")
    return twin  # type: ignore[no-any-return]


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
