"""Runs the tests of ops and RNNs on GPU kernels: rows are moved there and back.

    LOD_TEST_BACKENDS=cupy python -m pytest -p tests.cuda.moving tests/kernels/ops

Of the RNNs, every layer runs there, whatever backend a test asks for.

With tests/cuda/host before all else on PYTHONPATH, cupy is the one that runs on the CPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import cupy
import numpy as np
import pytest

from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.engine import layer
from lodcli.kernels.runtime import dispatch as backends
from lodcli.kernels.runtime.index_arguments import INDEX_ARGUMENTS

LAYER = {layer.layer_forward, layer.layer_backward}


def pytest_configure(config: pytest.Config) -> None:
    """Wrap every twin so that it moves its rows."""
    chosen = backends._by_place

    def by_place(backend: str, reference: Callable[..., Any], size_bytes: int) -> Any:
        if reference in LAYER:
            return moved_unless_there(backends._found("cupy", reference))
        there = backends._twin("cupy", reference) is not None
        if backend == "cupy" and not there and of_an_index(reference):
            backend = "auto"
        if backend != "cupy":
            return chosen(backend, reference, size_bytes)  # type: ignore[arg-type]
        return moved(backends._found("cupy", reference))

    backends._by_place = by_place


def of_an_index(reference: Callable[..., Any]) -> bool:
    """Return whether a function takes no rows: an index is in main memory, and needs no twin."""
    parameters = inspect.signature(reference).parameters.values()
    return not any("Array" in str(each.annotation) for each in parameters)


def moved(twin: Callable[..., Any]) -> Callable[..., Any]:
    """Return a twin that takes and returns NumPy arrays. An index stays in main memory."""
    signature = inspect.signature(twin)

    def call(*args: Any, **more: Any) -> Any:
        bound = signature.bind(*args, **more)
        out = bound.arguments.get("out")
        for name, value in bound.arguments.items():
            if name not in INDEX_ARGUMENTS:
                bound.arguments[name] = _there(value)
        return _back(twin(*bound.args, **bound.kwargs), out)

    return call


def moved_unless_there(twin: Callable[..., Any]) -> Callable[..., Any]:
    """Return a twin of a layer's function for arrays in either memory."""
    there = moved(twin)

    def call(data: Any, *args: Any, **more: Any) -> Any:
        return (twin if isinstance(data, cupy.ndarray) else there)(data, *args, **more)

    return call


def _there(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.ndim:
        return cupy.asarray(value)
    if isinstance(value, CellWeights):
        return value.moved(cupy.asarray)
    return type(value)(map(_there, value)) if isinstance(value, list | tuple) else value


def _back(value: Any, out: Any) -> Any:
    if isinstance(value, list):
        return [_back(part, None) for part in value]
    if isinstance(value, CellWeights):
        return value.moved(cupy.asnumpy)
    if isinstance(value, layer.LayerRun):
        return value._replace(through=_back(value.through, None), last=_back(value.last, None))
    if isinstance(value, layer.LayerGradients):
        return type(value)(*(_back(part, None) for part in value))
    if isinstance(value, tuple):
        outs = out if isinstance(out, tuple) else [None] * len(value)
        return tuple(_back(part, to) for part, to in zip(value, outs, strict=True))
    if not isinstance(value, cupy.ndarray):
        return value
    host = value.get()
    if out is None:
        return host
    out[...] = host
    return out
