"""Backward pass of one layer in one direction, in chunks of steps.

Two passes over a chunk. In `recur` every thread processes its own sequences from the last step to
the first and stores the slopes (gradients of the pre-activations) of every row in the chunk. In
`collect` every thread accumulates its own part of the weights' gradients over all rows of the
chunk, always in the same order: no sum depends on the number of threads. Only one chunk of slopes
exists at a time.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.declare import FLOATS, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.rnn.engine.native.barrier_numba import meet
from lodcli.kernels.rnn.engine.native.cells_numba import shape_of, step_backward
from lodcli.kernels.rnn.engine.native.layout import DEPTH, VECTORS
from lodcli.kernels.rnn.engine.native.products_numba import (
    add_products_of_columns,
    multiply_rows,
    panels_of,
    part_of,
    share_of,
)
from lodcli.kernels.rnn.engine.native.structures import (
    KINDS,
    BackwardRun,
    BackwardSpace,
    Cell,
    Chunk,
    Gradients,
    Matrix,
    Sequences,
    Team,
)
from lodcli.kernels.simd.lanes_numba import lanes_in, load, store

# Columns of slopes multiplied by all panels before the next columns: they stay in the cache.
_COLUMNS = 512


def runner(multiply: Any) -> Any:
    """Return a function that runs the steps of a chunk, and returns whether it was not interrupted.

    Args:
        multiply: multiplies rows by a matrix, like `_multiply`.
    """

    @function()
    def steps(cell, matrix, sequences, run, chunk, space, team):  # type: ignore[no-untyped-def]
        lanes = lanes_in(run.outputs)
        panels = panels_of(cell.hidden, run.outputs)
        panel_from, panel_to = part_of(panels, team.member, team.members)
        unit_from = panel_from * VECTORS * lanes
        unit_to = min(panel_to * VECTORS * lanes, cell.hidden)
        alive = 0
        for step in range(chunk.step_to - 1, chunk.step_from - 1, -1):
            while alive < sequences.total and sequences.lengths[alive] > step:
                alive += 1
            base = chunk.bases[step - chunk.step_from]
            for n in range(alive):
                _run_back(cell, sequences, run, chunk, step, base, n, unit_from, unit_to)
                space.from_at[n] = (base + sequences.ranks[n]) * chunk.stride
                space.to_at[n] = sequences.numbers[n] * cell.hidden
            if not meet(team.barrier, team.member, team.members):
                return False
            multiply(
                matrix, chunk.slopes, space.from_at, 0, alive, panel_from, panel_to,
                run.carry_h, space.to_at, cell.hidden, space, step,
            )  # fmt: skip
        return True

    return steps


@function()
def _multiply(  # type: ignore[no-untyped-def]
    matrix, a, a_at, row_from, row_to, panel_from, panel_to, out, out_at, room, space, parity
):
    multiply_rows(
        matrix, a, a_at, row_from, row_to, panel_from, panel_to, out, out_at, room,
        space.sums, space.sums_at, parity,
    )  # fmt: skip


_recur = runner(_multiply)


def input_gradients(multiply: Any) -> Any:
    """Return a function that computes one member's share of the input gradients of a chunk.

    Args:
        multiply: see runner.
    """

    @function()
    def of_inputs(matrix, chunk, gradients, space, columns, skipped, member, members):  # type: ignore[no-untyped-def]
        if not gradients.with_input:
            return
        first, end = part_of(chunk.filled, member, members)
        if matrix.depth:
            for slot in range(first, end):
                space.from_at[slot] = slot * chunk.stride + skipped
                space.to_at[slot] = chunk.rows[slot] * matrix.columns
            multiply(
                matrix, chunk.slopes, space.from_at, first, end,
                0, panels_of(matrix.columns, chunk.slopes),
                gradients.of_input, space.to_at, matrix.columns, space, 0,
            )  # fmt: skip
        else:
            for slot in range(first, end):
                at, to = slot * chunk.stride + skipped, chunk.rows[slot] * columns
                for n in range(columns):
                    gradients.of_input[to + n] = chunk.slopes[at + n]

    return of_inputs


_of_inputs = input_gradients(_multiply)


@function()
def _run_back(cell, sequences, run, chunk, step, base, n, unit_from, unit_to):  # type: ignore[no-untyped-def]
    """Run the backward step of one sequence, without the product with weight_hh."""
    kept = shape_of(cell).kept
    size = cell.hidden
    row = sequences.firsts[n] + sequences.onward * step
    number = sequences.numbers[n]
    slot = base + sequences.ranks[n]
    old = row - sequences.onward if step else number
    chunk.rows[slot] = row
    chunk.before[slot] = old if step else -1 - number
    old_h = run.outputs if step else run.begin_h
    old_c = run.cells if step else run.begin_c
    for unit in range(unit_from, unit_to, lanes_in(run.outputs)):
        step_backward(
            cell, unit, run, row * size, old_h, old_c, old * size, row * kept * size,
            chunk.slopes, slot * chunk.stride, number * size,
        )  # fmt: skip


@kernel(types=FLOATS)
def collect(
    columns: int, slopes: int, size: int, matrix: Matrix, run: BackwardRun, chunk: Chunk,
    gradients: Gradients, space: BackwardSpace, member: int, members: int,
) -> int:  # fmt: skip
    """Add one member's part of the weight gradients of a chunk.

    Args:
        columns, slopes, size: number of columns of weight_hh, slopes per row, and H.
        matrix: weight_ih; of depth 0 if the data are already projected.
    """
    # A GRU has a block of slopes that only weight_hh uses: it comes first.
    skipped = slopes - columns
    _of_inputs(matrix, chunk, gradients, space, columns, skipped, member, members)
    column_from, column_to = part_of(columns, member, members)
    for first in range(0, chunk.filled, DEPTH):
        depth = min(DEPTH, chunk.filled - first)
        column = column_from
        while column < column_to:
            count = share_of(column_to - column, _COLUMNS)
            _add_columns(
                size, skipped, matrix, run, chunk, gradients, space, first, depth,
                column, column + count,
            )  # fmt: skip
            column += count
        low, high = part_of(slopes, member, members)
        add_slopes(chunk, first * chunk.stride, depth, low, high, slopes, gradients.bias)
    return 0


@function()
def _add_columns(  # type: ignore[no-untyped-def]
    size, skipped, matrix, run, chunk, gradients, space, first, depth, column_from, column_to
):
    """Add the products of some columns of slopes in `depth` slots with all inputs and states."""
    at = first * chunk.stride
    if matrix.depth:
        for p in range(panels_of(matrix.columns, chunk.slopes)):
            _take_inputs(gradients.data, matrix.columns, chunk, first, depth, p, space.panel)
            add_products_of_columns(
                matrix, chunk.slopes, at + skipped, chunk.stride, column_from, column_to,
                depth, space.panel, p, matrix.columns, gradients.weight_ih,
                gradients.input_room, space.from_at, space.to_at,
            )  # fmt: skip
    for p in range(panels_of(size, chunk.slopes)):
        _take_states(run, size, chunk, first, depth, p, space.panel)
        add_products_of_columns(
            matrix, chunk.slopes, at, chunk.stride, column_from, column_to,
            depth, space.panel, p, size, gradients.weight_hh, gradients.hidden_room,
            space.from_at, space.to_at,
        )  # fmt: skip


@function()
def _take_inputs(data, columns, chunk, first, depth, p, panel):  # type: ignore[no-untyped-def]
    """Copy one panel's columns of the input rows in `depth` slots."""
    for k in range(depth):
        at = chunk.rows[first + k] * columns
        _take(data, at, columns, k, p, panel)


@function()
def _take_states(run, size, chunk, first, depth, p, panel):  # type: ignore[no-untyped-def]
    """Copy one panel's columns of the previous hidden states of the rows in `depth` slots."""
    for k in range(depth):
        before = chunk.before[first + k]
        if before >= 0:
            _take(run.outputs, before * size, size, k, p, panel)
        else:
            _take(run.begin_h, (-1 - before) * size, size, k, p, panel)


@function()
def _take(source, at, columns, k, p, panel):  # type: ignore[no-untyped-def]
    """Copy one panel's columns of a row to panel[k], zero-padded."""
    lanes = lanes_in(source)
    for n in range(VECTORS):
        column = (p * VECTORS + n) * lanes
        vector = load(source, at + column, columns - column)
        store(vector, panel, (k * VECTORS + n) * lanes, lanes)


@function()
def add_slopes(chunk, at, depth, column_from, column_to, columns, bias):  # type: ignore[no-untyped-def]
    """Add columns of slopes over `depth` slots, with Kahan summation across calls."""
    for column in range(column_from, column_to, lanes_in(chunk.slopes)):
        count = column_to - column
        total = load(chunk.slopes, at + column, count)
        for k in range(1, depth):
            total = total + load(chunk.slopes, at + k * chunk.stride + column, count)
        before = load(bias, column, count)
        total = total - load(bias, columns + column, count)
        after = before + total
        store(after, bias, column, count)
        store((after - before) - total, bias, columns + column, count)


def _declare(name: str, kind: type[Cell]) -> None:
    def recur(  # type: ignore[no-untyped-def]
        cell, matrix: Matrix, sequences: Sequences, run: BackwardRun, chunk: Chunk,
        space: BackwardSpace, team: Team,
    ) -> int:  # fmt: skip
        """Run the steps of a chunk backward; return 1 if not interrupted.

        Args:
            cell: one of structures.py.
            matrix: weight_hh, its rows in the order of the slopes.
        """
        return 1 if _recur(cell, matrix, sequences, run, chunk, space, team) else 0

    recur.__annotations__["cell"] = kind
    kernel(name=name, types=FLOATS)(recur)


for _name, _kind in KINDS.items():
    _declare(_name, _kind)
