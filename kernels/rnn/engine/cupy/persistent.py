"""All steps of a layer in one launch, with the recurrent weights in shared memory.

See rnn_persistent.cu for who does what. Here it is decided whether a layer fits, and how many
units a block keeps: from a rough count of a multiprocessor's clocks, of which no part has been
measured. It decides between ways that give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    DeviceLimits,
    LaunchRefusedError,
    blocks,
    limits,
    run_together,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.dot import precision_of
from lodcli.kernels.rnn.engine.cupy.product import large_steps
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward
from lodcli.kernels.rnn.engine.cupy.steps import Steps
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.runtime.precision import Precision

THREADS, HIGH, DEEP, SUMS = 256, 32, 64, 16  # as in rnn_operand.cuh
COLUMNS = 128  # of a block's product, at most
COUNT_BYTES = 128  # a line for the meetings of each group
UNITS = (4, 8, 16, 32, 64, 128)
ROWS = (8, 16, 32)

# A multiprocessor's clocks, estimated. The first are of a product: multiplications a clock, as
# far as loops reach them.
_RATES = {"float32": 75.0, "float64": 35.0, "tf32": 400.0, "bfloat16": 800.0, "float16": 800.0}
_TRAVEL = 700.0  # to the second-level cache and back
_BROUGHT = 64.0  # bytes from there in a clock
_GATES = 400.0  # what units do once their product is there
_MEETING, _ARRIVAL = 1500.0, 8.0  # of blocks, and for each of them
_GRAPH_LAUNCH = 2500.0  # from one kernel of a graph to the next
_LAUNCH = 9000.0  # from one kernel to the next, from Python
_STEPWISE_RATE = 45.0  # rnn_product.cu, a clock and multiprocessor
_CUBLAS_RATE = 100.0

_PRODUCTS = {"tf32": "Rounded<TF32>", "bfloat16": "Rounded<BF16>", "float16": "Rounded<FP16>"}

_allowed: ContextVar[bool] = ContextVar("lod_persistent", default=True)
# Devices that have refused to run all blocks of a launch at once.
_refusing: set[int] = set()

P = ParamSpec("P")
R = TypeVar("R")


def again_by_steps(run: Callable[P, R]) -> Callable[P, R]:
    """Return what runs a layer, and runs it again step by step where one launch is refused."""

    @wraps(run)
    def tried(*args: P.args, **more: P.kwargs) -> R:
        try:
            return run(*args, **more)
        except LaunchRefusedError:
            _refusing.add(cupy.cuda.runtime.getDevice())
            return run(*args, **more)

    return tried


@contextmanager
def step_by_step() -> Iterator[None]:
    """Within this block no layer is one launch: for measuring what that is worth."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


@dataclass(frozen=True)
class Fit:
    """How steps are dealt out.

    Attributes:
        types: of C++, of the cell and of what multiplies.
        units: of the hidden state that a block keeps the weights of.
        tall: how many sequences a group runs at a time.
        groups: of blocks, each with all units.
        shared_bytes: of a block.
        clocks: how long it takes, estimated.
    """

    types: str
    units: int
    tall: int
    groups: int
    shared_bytes: int
    clocks: float


class Way(NamedTuple):
    """How a layer is run, or gone back through.

    Attributes:
        large: so many steps at its beginning are launched one by one, and cuBLAS multiplies.
        fit: of the others, if they are one launch.
    """

    large: int
    fit: Fit | None


@dataclass(frozen=True)
class Layer:
    """What decides how a layer is run.

    Attributes:
        cell: its C++ type.
        size, gates: H and G.
        depth: of a step's product: H forward, G*H back.
        width: columns for each unit: G forward, 1 back.
        value_bytes: 4 or 8.
        precision: of its products.
    """

    cell: str
    size: int
    gates: int
    depth: int
    width: int
    value_bytes: int
    precision: Precision


def way_forward(steps: Steps[Any], plan: StepPlan, data: Array) -> Way:
    """Return how a layer is run forward."""
    return _way(steps, plan, data, backward=False)


def way_backward(steps: Steps[Any], plan: StepPlan, data: Array) -> Way:
    """Return how a layer is gone back through."""
    return _way(steps, plan, data, backward=True)


def _way(steps: Steps[Any], plan: StepPlan, data: Array, *, backward: bool) -> Way:
    weights, sizes = steps.weights, plan.step_sizes
    large = large_steps(sizes, weights.weight_hh)
    precision = precision_of(data.dtype)
    alone = not _allowed.get() or cupy.cuda.runtime.getDevice() in _refusing
    if not isinstance(steps, CellSteps) or steps.projects or alone:
        return Way(large, None)
    size, gates = weights.hidden_size, weights.GATES
    depth, width = (gates * size, 1) if backward else (size, gates)
    layer = Layer(steps.cell(), size, gates, depth, width, data.dtype.itemsize, precision)
    return best_way(layer, plan.lengths, sizes, large, limits())


def best_way(
    layer: Layer, lengths: Offsets, sizes: Offsets, large: int, device: DeviceLimits
) -> Way:
    """Return the fastest way for steps of these sizes, of which cuBLAS may run the large ones."""
    first = _by_cublas(layer, sizes[:large], device)
    ways = [(first + _stepwise(layer, sizes[large:], device), Way(large, None))]
    fit = best_fit(layer, lengths, device)
    if fit:
        ways.append((fit.clocks, Way(0, fit)))
    if 0 < large < len(sizes):
        rest = best_fit(layer, lengths[: sizes[large]] - large, device)
        ways += [(first + rest.clocks, Way(large, rest))] if rest else []
    return min(ways, key=lambda pair: pair[0])[1]


def best_fit(layer: Layer, lengths: Offsets, device: DeviceLimits) -> Fit | None:
    """Return the fastest of all ways that fit a device; None if none does.

    Args:
        lengths: of the sequences, longest first; those of no step do not count.
    """
    if not device.together:
        return None
    kind = "float64" if layer.value_bytes == 8 else layer.precision
    product = _PRODUCTS.get(kind, "Exact<double>" if kind == "float64" else "Exact<float>")
    sequences, found = int(np.count_nonzero(lengths)), []
    for tall in ROWS:
        lasting = lengths[:sequences:tall]  # of each slice, its longest sequence
        whole, longest = float(lasting.sum()), float(lasting[0])
        for units in UNITS:
            columns, apart = units * layer.width, blocks(layer.size, units)
            shared = shared_bytes(layer, columns)
            if columns > COLUMNS or apart > device.multiprocessors or shared > device.shared_bytes:
                continue
            groups = min(len(lasting), device.multiprocessors // apart)
            step = _TRAVEL + _GATES + _MEETING + _ARRIVAL * apart
            step += min(tall, sequences) * layer.depth * columns / _RATES[kind]
            step += min(tall, sequences) * layer.depth * layer.value_bytes / _BROUGHT
            clocks = step * max(longest, whole / groups)
            types = f"{layer.cell}, {product}"
            found.append(Fit(types, units, tall, groups, shared, clocks))
        if tall >= sequences:
            break
    return min(found, key=lambda fit: fit.clocks, default=None)


def shared_bytes(layer: Layer, columns: int) -> int:
    """Return the shared memory of a block: see rnn_exact.cuh and rnn_rounded.cuh."""
    if layer.precision == "float32":
        values = layer.depth * columns + 2 * DEEP * (HIGH + 4) + THREADS * SUMS
        return values * layer.value_bytes
    each = 1 if layer.precision == "tf32" else 2
    words, wide = blocks(layer.depth, 8 * each) * 8, blocks(columns, 8) * 8
    stride = wide + (40 - wide % 32) % 32
    return 4 * (words * stride + 2 * HIGH * (DEEP // each + 4) + THREADS * SUMS)


def _stepwise(layer: Layer, sizes: Offsets, device: DeviceLimits) -> float:
    """Return how many clocks steps take as a graph of launches, estimated."""
    launches = len(sizes) * 2 * (_GRAPH_LAUNCH + _TRAVEL)
    return launches + _work(layer, sizes, device) / _STEPWISE_RATE


def _by_cublas(layer: Layer, sizes: Offsets, device: DeviceLimits) -> float:
    """Return how many clocks steps take that Python launches one by one, estimated."""
    return max(len(sizes) * 2 * _LAUNCH, _work(layer, sizes, device) / _CUBLAS_RATE)


def _work(layer: Layer, sizes: Offsets, device: DeviceLimits) -> float:
    """Return the multiplications of the steps, for each multiprocessor."""
    return float(sizes.sum()) * layer.gates * layer.size * layer.size / device.multiprocessors


def run_forward(space: Forward, way: Way) -> None:
    """Run the steps forward that are one launch."""
    _run("persistent_forward", space, way)


def run_backward(space: Backward, way: Way) -> None:
    """Go back through the steps that are one launch; the last product is in `flow`."""
    _run("persistent_backward", space, way)


def _run(kernel: str, space: Forward | Backward, way: Way) -> None:
    fit, place, weights = way.fit, space.place, space.weights
    assert fit is not None
    run_together(
        "rnn_persistent",
        f"{kernel}<{fit.types}>",
        (blocks(weights.hidden_size, fit.units), fit.groups),
        (THREADS,),
        fit.shared_bytes,
        cupy.asarray(space.table.words())[place:],
        weights.weight_hh,
        cupy.zeros(fit.groups * COUNT_BYTES // 4, np.uint32),
        fit.units,
        fit.tall,
        int(space.order.plan.step_sizes[way.large]),
        way.large,
    )
