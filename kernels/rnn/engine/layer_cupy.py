"""See layer.py. All steps in one launch, or one product and one or two launches per step; rows are
not moved.

For details see docs/decisions/0021-rnn-on-a-gpu.md.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import is_half, working_dtype
from lodcli.kernels.rnn.cells.cell import CellWeights, State
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.engine import halves
from lodcli.kernels.rnn.engine.cupy import persistent
from lodcli.kernels.rnn.engine.cupy.costs import Way
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.graphs import play
from lodcli.kernels.rnn.engine.cupy.spaces import (
    Backward,
    Forward,
    Kept,
    Order,
    order_of,
    value_type,
)
from lodcli.kernels.rnn.engine.cupy.steps import Steps, column_sums
from lodcli.kernels.rnn.engine.cupy.table import Launch, Table
from lodcli.kernels.rnn.engine.cupy.ways import (
    again_by_steps,
    precision_of_rows,
    way_of,
)
from lodcli.kernels.rnn.engine.layer import LayerGradients, LayerRun
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.runtime.precision import current_precision, float32_products


@again_by_steps
def layer_forward(
    data: Array,
    plan: StepPlan,
    weights: CellWeights,
    begin: State,
    *,
    reverse: bool,
    keep: bool,
    cells: bool,
    threads: int,
) -> LayerRun:
    """See layer.py. The tape keeps the outputs and cells themselves, and the gates."""
    weights = _contiguous(weights)
    steps: Steps[Any] = CELLS[weights.KIND].steps_cupy()(weights, value_type(data))
    rows, sequences = len(data), len(plan.order)
    if not rows:
        through = tuple(cupy.empty((0, part.shape[1]), data.dtype) for part in begin)
        kept = Kept(begin, through[0], through[-1], None, None)
        last = tuple(part.copy() for part in begin)
        return LayerRun(through if cells else through[:1], last, kept if keep else None)
    way = way_of(steps, plan, data, backward=False)
    if is_half(data.dtype) and not way.narrow:
        again = partial(layer_forward, reverse=reverse, keep=keep, cells=cells, threads=threads)
        with float32_products(precision_of_rows(data.dtype)):
            return halves.layer_forward(data, plan, weights, begin, run=again)
    size, width = weights.hidden_size, weights.output_size
    order = order_of(plan, reverse)
    first = tuple(part[order.sequences] for part in begin)
    has_cell = len(begin) == 2
    # The initial states are needed in the backward pass, and may be shared, while the running
    # states are updated in place.
    states = tuple(part.copy() for part in first) if keep or way.fit else first
    projected = _projected(data, weights)
    gates = None
    if keep and steps.KEPT:
        # Overwrites the projected inputs, which are not needed any more; but never the caller's.
        gates = projected if weights.weight_ih is not None else cupy.empty_like(projected)

    room = partial(_room, data.dtype)
    opens = steps.OPENED or steps.projects
    space = Forward(
        table=Table(),
        order=order,
        weights=weights,
        projected=projected,
        recurrent=room(sequences, steps.RECURRENT * size, _has_steps(way)),
        hidden=states[0],
        cell=states[1] if has_cell else None,
        opened=room(sequences, size, opens),
        candidate=room(sequences, size, steps.CANDIDATE),
        outputs=cupy.empty((rows, width), data.dtype),
        cells=room(rows, weights.state_sizes[-1], has_cell and (cells or keep)),
        gates=gates,
        inner=room(rows, size, keep and (steps.INNER or steps.projects)),
        begin=first[0],
    )
    if _has_steps(way):
        _forward_by_steps(space, steps, way)
    if way.fit:
        persistent.run_steps(space, way)
    kept = Kept(first, space.outputs, space.cells, gates, space.inner)
    made = (space.outputs,) if space.cells is None or not cells else (space.outputs, space.cells)
    last = tuple(order.in_batch_order(part) for part in states)
    return LayerRun(made, last, kept if keep else None)


def _room(dtype: np.dtype[Any], count: int, columns: int, wanted: bool = True) -> Array | None:
    return cupy.empty((count, columns), dtype) if wanted else None


def _has_steps(way: Way) -> bool:
    """Return whether any step has separate launches."""
    return way.large > 0 or way.fit is None


def _forward_by_steps(space: Forward, steps: Steps[Any], way: Way) -> None:
    step, sizes = steps.forward(space), space.order.plan.step_sizes.tolist()

    def launches(numbers: range) -> Iterator[Launch]:
        for number in numbers:
            yield from step(number, sizes[number], number < way.large)

    words = space.table.words()
    play(words, range(way.large), launches, key=_cublas_key(space, steps, way), refusable=True)
    if way.fit is None:
        rest = range(way.large, len(sizes))
        play(words, rest, launches, key=_key(space, steps, way))


@again_by_steps
def layer_backward(
    data: Array,
    plan: StepPlan,
    weights: CellWeights,
    kept: Kept,
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    *,
    reverse: bool,
    with_input: bool,
    threads: int,
) -> LayerGradients:
    """See layer.py."""
    if not len(data):
        nothing = zip(by_sequence, kept.begin, strict=True)
        ends = tuple(cupy.zeros_like(b) if part is None else part.copy() for part, b in nothing)
        empty = cupy.zeros_like(data) if with_input else None
        return LayerGradients(empty, weights.zeros_like(), ends)
    weights = _contiguous(weights)
    steps: Steps[Any] = CELLS[weights.KIND].steps_cupy()(weights, value_type(data))
    way = way_of(steps, plan, data, backward=True)
    # A forward pass in float32 produced float32 arrays.
    if is_half(data.dtype) and not (way.narrow and kept.outputs.dtype == data.dtype):
        again = partial(layer_backward, reverse=reverse, with_input=with_input, threads=threads)
        given = data, plan, weights, kept.wide(), by_row, by_sequence
        with float32_products(precision_of_rows(data.dtype)):
            return halves.layer_backward(*given, run=again)
    order = order_of(plan, reverse)
    by_steps = _has_steps(way)
    space = _way_back(data, weights, steps, order, kept, by_row, by_sequence, by_steps)
    if way.fit:
        persistent.run_steps(space, way)
    if by_steps:
        _backward_by_steps(space, steps, way)
    first, alive = space.carried, int(plan.step_sizes[0])
    cupy.add(first[:alive], space.flow[:alive], out=first[:alive])
    ends = tuple(
        part.astype(data.dtype, copy=False)
        for part in (first, space.carried_cell)
        if part is not None
    )
    has_bias = weights.bias_ih is not None or weights.bias_hh is not None
    sums = column_sums(space.gradients) if has_bias else None
    gradients = steps.recurrent_gradients(space, sums)
    grad_input = space.gradients if with_input else None
    if weights.weight_ih is not None:
        gradients["weight_ih"] = dot(space.gradients.T, data)
        if with_input:
            grad_input = dot(space.gradients, weights.weight_ih)
    if sums is not None:
        gradients["bias_ih"] = sums
    present = {name: gradients[name] for name in weights.arrays()}
    return LayerGradients(
        grad_input,
        weights.with_arrays(present),
        tuple(order.in_batch_order(part) for part in ends),
    )


def _backward_by_steps(space: Backward, steps: Steps[Any], way: Way) -> None:
    step, sizes = steps.backward(space), [*space.order.plan.step_sizes.tolist(), 0]

    def launches(numbers: range) -> Iterator[Launch]:
        for number in numbers:
            yield from step(number, sizes[number], sizes[number + 1], number < way.large)

    words = space.table.words()
    if way.fit is None:
        rest = range(len(sizes) - 2, way.large - 1, -1)
        play(words, rest, launches, key=_key(space, steps, way))
    large = range(way.large - 1, -1, -1)
    play(words, large, launches, key=_cublas_key(space, steps, way), refusable=True)


def _way_back(
    data: Array,
    weights: CellWeights,
    steps: Steps[Any],
    order: Order,
    kept: Kept,
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    by_steps: bool,
) -> Backward:
    """Return the arrays of the backward pass, including the gradients of the last states."""
    rows, sequences = len(data), len(order.plan.order)
    size, width = weights.hidden_size, weights.output_size
    given = [None if part is None else cupy.ascontiguousarray(part) for part in by_row]
    # Accumulated from step to step.
    sums = working_dtype(data.dtype)
    carried = [
        cupy.zeros(begin.shape, sums)
        if part is None
        else part[order.sequences].astype(sums, copy=False)
        for part, begin in zip(by_sequence, kept.begin, strict=True)
    ]

    room = partial(_room, data.dtype)
    return Backward(
        table=Table(),
        order=order,
        weights=weights,
        kept=kept,
        by_row=given[0],
        by_row_cell=given[1] if len(given) == 2 else None,
        flow=cupy.empty((sequences, width), sums),
        carried=carried[0],
        carried_cell=carried[1] if len(carried) == 2 else None,
        opened=room(sequences, size, steps.OPENED or steps.projects),
        total=room(sequences, width, steps.projects),
        totals=room(rows, width, steps.projects),
        gradients=cupy.empty((rows, weights.GATES * size), data.dtype),
        packed=room(sequences, steps.RECURRENT * size, by_steps),
        packed_candidate=room(sequences, size, steps.CANDIDATE),
        reset=room(rows, size, steps.INNER),
    )


def _cublas_key(space: Forward | Backward, steps: Steps[Any], way: Way) -> Hashable | None:
    """Return the key of steps of cuBLAS: its calls contain addresses."""
    if not (way.large and way.captured):
        return None
    return (_key(space, steps, way), "cublas", space.table.baked())


def _key(space: Forward | Backward, steps: Steps[Any], way: Way) -> Hashable:
    """Return the key that identifies a sequence of launches."""
    weights, plan, direction = steps.weights, space.order.plan, type(space).__name__
    shape = (weights.hidden_size, weights.output_size, steps.projects, len(plan.order), way.large)
    cell = (weights.KIND, steps.value, steps.options(), current_precision())
    return (direction, cell, shape, plan.step_sizes.tobytes())


def _projected(data: Array, weights: CellWeights) -> Array:
    """Return the inputs of all gates, (N, G*H), without a bias."""
    if weights.weight_ih is None:
        whole: Array = cupy.ascontiguousarray(data)
        return whole
    return dot(data, weights.weight_ih.T)


def _contiguous(weights: CellWeights) -> CellWeights:
    """Return the weights as kernels read them."""
    return weights.with_arrays(
        {name: cupy.ascontiguousarray(array) for name, array in weights.arrays().items()}
    )
