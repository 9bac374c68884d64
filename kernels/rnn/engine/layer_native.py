"""See layer.py. Compiled, with SIMD: every thread runs its own sequences.

For details see docs/decisions/0008-compiled-rnn.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import team
from lodcli.kernels.rnn.cells.cell import CellWeights, State
from lodcli.kernels.rnn.engine.layer import LayerGradients, LayerRun
from lodcli.kernels.rnn.engine.native import tuning
from lodcli.kernels.rnn.engine.native.arrays import aligned, borrowed, give_back
from lodcli.kernels.rnn.engine.native.barrier import new_barrier
from lodcli.kernels.rnn.engine.native.collecting import Collector
from lodcli.kernels.rnn.engine.native.layout import SHAPES
from lodcli.kernels.rnn.engine.native.packing import layout, packed
from lodcli.kernels.rnn.engine.native.schedule import (
    Schedule,
    group_size,
    schedule,
    slices,
    threads_worth,
)
from lodcli.kernels.rnn.engine.native.structures import (
    Cell,
    ForwardRun,
    ForwardSpace,
    Matrix,
    Sequences,
    Team,
    words,
)
from lodcli.kernels.rnn.engine.plan import StepPlan
from lodcli.kernels.rnn.engine.products import Products, products_for

# Rows with projected inputs in a buffer at a time; a small number: see tuning.py.
_SLOTS, _FEW_SLOTS = 512, 64
_last_rows = load.kernel("kernels.rnn.engine.native.forward_numba", "last")
_ALONE = Team(0, 1, np.zeros(0, np.int64))


class _Kept(NamedTuple):
    """Values saved by a forward pass for the backward pass."""

    begin: State
    outputs: Array
    cells: Array
    gates: Array


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
    """See layer.py. The tape keeps the outputs themselves, made read-only, and the gates."""
    products = products_for(data.dtype)
    cell, matrix = packed(weights, products.panels)
    shape = SHAPES[type(cell)]
    size, dtype, rows = weights.hidden_size, data.dtype, len(data)
    has_cell = len(begin) == 2
    by_row = has_cell and (cells or keep)
    outputs = aligned(rows * size, dtype).reshape(rows, size)
    cell_size = weights.state_sizes[-1]
    by_rows = aligned(rows * cell_size if by_row else 0, dtype).reshape(-1, cell_size)
    state_c = begin[1].copy() if has_cell else np.empty((0, size), dtype)
    gates = aligned(rows * shape.kept * size if keep else 0, dtype)
    run = ForwardRun(
        np.ascontiguousarray(data), np.ascontiguousarray(begin[0]), not begin[0].any(), state_c,
        outputs, by_row, by_rows, keep and shape.kept > 0, gates,
    )  # fmt: skip
    threads = threads_worth(threads, float(rows) * weights.operations)
    _run(products, weights.KIND, cell, matrix, plan, run, reverse, threads)
    through: State = (outputs, by_rows) if by_row else (outputs,)
    last = tuple(
        [_last(part, first, plan, reverse) for part, first in zip(through, begin, strict=False)]
    )
    if has_cell and not by_row:
        last = (*last, state_c)
    if keep:
        for array in through:
            array.flags.writeable = False
    kept = _Kept(begin, outputs, by_rows, gates) if keep else None
    return LayerRun(through if cells else through[:1], last, kept)


def layer_backward(
    data: Array,
    plan: StepPlan,
    weights: CellWeights,
    kept: _Kept,
    by_row: tuple[Array | None, ...],
    by_sequence: tuple[Array | None, ...],
    *,
    reverse: bool,
    with_input: bool,
    threads: int,
) -> LayerGradients:
    """See layer.py."""
    work = 2.0 * len(data) * weights.operations
    collector = Collector(
        products_for(data.dtype), data, plan, weights, kept, by_row, by_sequence,
        with_input=with_input,
    )  # fmt: skip
    with team(threads_worth(threads, work)) as helpers:
        members = range(helpers.size)
        plans = schedule(plan, reverse, helpers.size, group_size(collector.row_bytes))
        barrier = new_barrier(helpers.size if plans.together else 1)
        rooms = [collector.room() for _ in members]
        spaces = [space for _, space in rooms]
        for chunk in collector.chunks():
            helpers.run(
                collector.recur,
                [
                    [
                        collector.recur_arguments(group, chunk, spaces[n], place)
                        for group in plans.groups_of(n)
                    ]
                    for n, place in enumerate(_places(plans, barrier))
                ],
                barrier,
            )
            helpers.run(
                collector.collect,
                [[collector.collect_arguments(chunk, spaces[n], n, helpers.size)] for n in members],
                barrier,
            )
    for key, space in rooms:
        give_back(key, space, space.from_at.nbytes + space.to_at.nbytes)
    return collector.gradients()


def _run(
    products: Products,
    kind: str,
    cell: Cell,
    matrix: Matrix,
    plan: StepPlan,
    run: ForwardRun,
    reverse: bool,
    threads: int,
) -> None:
    """Run the forward pass."""
    kernel = products.forward[kind][run.data.dtype.char]
    first_words = (*words(cell), *words(matrix))
    row_bytes = cell.hidden * run.outputs.itemsize
    row_work = 2.0 * SHAPES[type(cell)].gates * cell.hidden * (matrix.depth + cell.hidden)
    few = cell.panels.nbytes + matrix.panels.nbytes <= tuning.most_beside_rows_bytes()
    slots = _FEW_SLOTS if few else _SLOTS
    with team(threads) as helpers:
        plans = schedule(plan, reverse, helpers.size, group_size(row_bytes, few=few))
        barrier = new_barrier(helpers.size if plans.together else 1)
        rooms = [
            _room(products, cell, matrix, plans.groups_of(n), run, slots)
            for n in range(helpers.size)
        ]
        spaces = [space for _, space in rooms]
        if plans.together:
            spaces = [space._replace(inputs=spaces[0].inputs) for space in spaces]
        calls = [
            [
                (*first_words, *group, *run, *space, first, end, *place)
                for group in plans.groups_of(n)
                for first, end in slices(group, row_work)
            ]
            for n, (space, place) in enumerate(zip(spaces, _places(plans, barrier), strict=True))
        ]
        helpers.run(kernel, calls, barrier)
    for key, space in rooms:
        give_back(key, space, space.inputs.nbytes)


def _last(through: Array, begin: Array, plan: StepPlan, reverse: bool) -> Array:
    """Return each sequence's state after its last step, or its initial state if it has no steps."""
    found = begin.copy()
    if through.size:
        _last_rows[through.dtype.char].call(
            0, 1, through, plan.order, plan.lengths, plan.starts, found, plan.step_sizes.item(0),
            through.shape[1], reverse,
        )  # fmt: skip
    return found


def _places(plans: Schedule, barrier: Array) -> list[Team]:
    """Return for each thread its place among the threads that share sequences."""
    if not plans.together:
        return [_ALONE] * plans.threads
    return [Team(n, plans.threads, barrier) for n in range(plans.threads)]


def _room(
    products: Products,
    cell: Cell,
    matrix: Matrix,
    groups: list[Sequences],
    run: ForwardRun,
    slots: int,
) -> tuple[tuple[Any, ...], ForwardSpace]:
    """Return the scratch memory of one thread, and the key to return it under."""
    widest = groups[0].total if groups else 0  # no later one is larger
    count = 1 << (widest - 1).bit_length() if widest else 0
    panel = layout().panel_width(run.data.itemsize)
    width = -(-matrix.columns // panel) * panel if matrix.depth else 1
    slots = max(slots, count) if matrix.depth and groups else 0
    tile = products.tile_sums(cell)
    rounded = products.rounded(cell, matrix, max(slots, count))
    key = ("forward", type(cell), run.data.dtype, count, slots, width, tile, rounded)
    return key, borrowed(
        key, lambda: _new_space(cell, run.data.dtype, count, slots, width, tile, rounded)
    )


def _new_space(
    cell: Cell, dtype: np.dtype[Any], count: int, slots: int, width: int, tile: int, rounded: int
) -> ForwardSpace:
    """Return scratch memory for `count` sequences and the projected inputs of `slots` rows."""
    lanes = layout().lanes(dtype.itemsize)
    return ForwardSpace(
        aligned(slots * width, dtype), slots, width,
        np.empty(slots, np.int64), np.empty(slots, np.int64), aligned(tile * lanes, dtype),
        np.arange(tile) * SHAPES[type(cell)].vectors * lanes, aligned(rounded, dtype),
        *np.empty((6, count), np.int64),
    )  # fmt: skip
