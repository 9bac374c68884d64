"""Chooses how a layer is run: see costs.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import cupy
import numpy as np

from lodcli.kernels.cuda.device_limits import DeviceLimits
from lodcli.kernels.cuda.launch import C_TYPES, limits
from lodcli.kernels.cuda.tensor_cores import TENSOR_CORES, precision_of
from lodcli.kernels.errors import LaunchRefusedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.rnn.engine.cupy.calibration import costs_here
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.costs import Costs, Layer, Way, best_way
from lodcli.kernels.rnn.engine.cupy.steps import Steps
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.runtime.precision import Precision

REMEMBERED = 256  # cached decisions

_together: ContextVar[bool] = ContextVar("lod_together", default=True)
_observer: ContextVar[Callable[[Way], None] | None] = ContextVar("lod_way_observer", default=None)
# Devices that refused a cooperative launch.
_refusing: set[int] = set()

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def step_by_step() -> Iterator[None]:
    """Within this block no layer runs in one launch: for measurements."""
    token = _together.set(False)
    try:
        yield
    finally:
        _together.reset(token)


@contextmanager
def observed() -> Iterator[list[Way]]:
    """Return a list that collects how every layer within this block is run."""
    found: list[Way] = []
    token = _observer.set(found.append)
    try:
        yield found
    finally:
        _observer.reset(token)


def again_by_steps(run: Callable[P, R]) -> Callable[P, R]:
    """Return a function that runs a layer, and falls back to single steps if one launch is
    refused."""

    @wraps(run)
    def tried(*args: P.args, **more: P.kwargs) -> R:
        try:
            return run(*args, **more)
        except LaunchRefusedError:
            _refusing.add(cupy.cuda.runtime.getDevice())
            return run(*args, **more)

    return tried


def way_of(steps: Steps[Any], plan: StepPlan, data: Array, *, backward: bool) -> Way:
    """Return how a layer is run, forward or backward."""
    device = limits()
    if not _together.get() or cupy.cuda.runtime.getDevice() in _refusing:
        device = device._replace(together=False)
    layer = _layer(steps, data, backward=backward)
    way = _decided(layer, plan.step_sizes.tobytes(), device, costs_here(layer.kind))
    observer = _observer.get()
    # Rows of two bytes that are widened are decided on again.
    if observer is not None and (way.narrow or not is_half(data.dtype)):
        observer(way)
    return way


def precision_of_rows(dtype: np.dtype[Any]) -> Precision:
    """Return the rounding of products of a dtype; rows of two bytes are rounded to that dtype."""
    if not is_half(dtype):
        return precision_of(dtype)
    name: Precision = dtype.name  # type: ignore[assignment]
    return name if limits().capability >= TENSOR_CORES else "float32"


def _layer(steps: Steps[Any], data: Array, *, backward: bool) -> Layer:
    weights = steps.weights
    size, gates = weights.hidden_size, weights.GATES
    depth, width = (gates * size, 1) if backward else (size, gates)
    alone = isinstance(steps, CellSteps) and not steps.projects
    half, flops = is_half(data.dtype), weights.weight_hh.size
    itemsize = max(4, data.dtype.itemsize)
    kind = "float64" if itemsize == 8 else precision_of_rows(data.dtype)
    stored = C_TYPES[data.dtype.name] if half and kind == data.dtype.name else None
    held = 0 if backward else gates + weights.state_sizes[-1] // size
    layer = Layer(None, size, gates, depth, width, itemsize, kind, flops, held)
    if alone:
        assert isinstance(steps, CellSteps)
        return replace(layer, cell=steps.cell(), stored=stored if weights.is_plain else None)
    # A second product and a second launch.
    return replace(layer, launches=4, flops=flops + size * weights.output_size * steps.projects)


@lru_cache(REMEMBERED)
def _decided(layer: Layer, sizes: bytes, device: DeviceLimits, costs: Costs) -> Way:
    return best_way(layer, np.frombuffer(sizes, np.int64), device, costs)
