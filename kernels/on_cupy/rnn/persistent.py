"""All steps of a layer in one launch, with the recurrent weights kept on the chip.

See rnn_persistent.cu for who does what. Here it is decided whether a layer fits, and how many
units a block keeps: from a rough count of a multiprocessor's clocks, of which no part has been
measured. It decides between ways that give the same result.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.checks import Array
from lodcli.kernels.on_cupy.launch import DeviceLimits, blocks, limits, run_together
from lodcli.kernels.on_cupy.rnn.cell_steps import CellSteps
from lodcli.kernels.on_cupy.rnn.dot import precision_of
from lodcli.kernels.on_cupy.rnn.product import is_large
from lodcli.kernels.on_cupy.rnn.spaces import Backward, Forward
from lodcli.kernels.on_cupy.rnn.steps import Steps
from lodcli.kernels.precision import Precision
from lodcli.kernels.rnn.plan import StepPlan

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
    """How a layer is dealt out.

    Attributes:
        types: of C++, of the cell and of what multiplies.
        units: of the hidden state that a block keeps the weights of.
        tall: how many sequences a group runs at a time.
        slices: of so many sequences, all in all.
        groups: of blocks, each with all units.
        shared_bytes: of a block.
        clocks: how long it takes, estimated.
    """

    types: str
    units: int
    tall: int
    slices: int
    groups: int
    shared_bytes: int
    clocks: float


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


def fit_forward(steps: Steps[Any], plan: StepPlan, data: Array) -> Fit | None:
    """Return how a layer is run forward in one launch; None: step by step."""
    return _fit(steps, plan, data, backward=False)


def fit_backward(steps: Steps[Any], plan: StepPlan, data: Array) -> Fit | None:
    """Return how a layer is gone back through in one launch; None: step by step."""
    return _fit(steps, plan, data, backward=True)


def _fit(steps: Steps[Any], plan: StepPlan, data: Array, *, backward: bool) -> Fit | None:
    weights = steps.weights
    if not isinstance(steps, CellSteps) or steps.projects or not _allowed.get():
        return None
    size, gates = weights.hidden_size, weights.GATES
    precision = precision_of(data.dtype)
    depth, width = (gates * size, 1) if backward else (size, gates)
    layer = Layer(steps.cell(), size, gates, depth, width, data.dtype.itemsize, precision)
    best = best_fit(layer, plan, limits())
    large = is_large(int(plan.step_sizes[0]), weights.weight_hh)
    if best is None or best.clocks > _stepwise(layer, plan, limits(), large=large):
        return None
    return best


def best_fit(layer: Layer, plan: StepPlan, device: DeviceLimits) -> Fit | None:
    """Return the fastest of all ways that fit a device; None if none does."""
    if not device.together:
        return None
    kind = "float64" if layer.value_bytes == 8 else layer.precision
    product = _PRODUCTS.get(kind, "Exact<double>" if kind == "float64" else "Exact<float>")
    sequences, found = int(plan.step_sizes[0]), []
    for tall in ROWS:
        lasting = plan.lengths[:sequences:tall]  # of each slice, its longest sequence
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
            found.append(
                Fit(f"{layer.cell}, {product}", units, tall, len(lasting), groups, shared, clocks)
            )
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


def _stepwise(layer: Layer, plan: StepPlan, device: DeviceLimits, *, large: bool) -> float:
    """Return how many clocks all steps take if each is launched by itself, estimated."""
    steps, rows = len(plan.step_sizes), float(plan.step_sizes.sum())
    work = rows * layer.gates * layer.size * layer.size / device.multiprocessors
    if large:
        return max(steps * 2 * _LAUNCH, work / _CUBLAS_RATE)
    return steps * 2 * (_GRAPH_LAUNCH + _TRAVEL) + work / _STEPWISE_RATE


def run_forward(space: Forward, fit: Fit) -> None:
    """Run a layer forward."""
    _run("persistent_forward", space, fit)


def run_backward(space: Backward, fit: Fit) -> None:
    """Go back through a layer; the last product is in `flow`."""
    _run("persistent_backward", space, fit)


def _run(kernel: str, space: Forward | Backward, fit: Fit) -> None:
    place, weights = space.place, space.weights
    meetings = cupy.zeros(fit.groups * COUNT_BYTES // 4, np.uint32)
    run_together(
        "rnn_persistent",
        f"{kernel}<{fit.types}>",
        (blocks(weights.hidden_size, fit.units), fit.groups),
        (THREADS,),
        fit.shared_bytes,
        cupy.asarray(space.table.words())[place:],
        weights.weight_hh,
        meetings,
        fit.units,
        fit.tall,
        int(space.order.plan.step_sizes[0]),
    )
