"""One layer in one direction, backward: a chunk of steps at a time, from the last to the first.

Two passes over a chunk. In `recur` every thread takes its own sequences from the last step to
the first and leaves the slopes of every row in the chunk. In `collect` every thread adds up
its own part of the weights' gradients over all rows of the chunk, always in the same order:
no sum depends on how many threads there are. Only one chunk of slopes exists at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lodcli.kernels.rnn.cells.cells_numba import shape_of, step_backward
from lodcli.kernels.rnn.engine.numba.barrier import meet
from lodcli.kernels.rnn.engine.numba.products import (
    DEPTH,
    add_products_of_columns,
    multiply_rows,
    panels_of,
    part_of,
)
from lodcli.kernels.rnn.engine.numba.tiles import VECTORS
from lodcli.kernels.runtime.jit_numba import njit
from lodcli.kernels.simd.lanes import bare, lanes_in, load, store


class BackwardRun(NamedTuple):
    """What the way back reads and hands on; all arrays flat.

    Attributes:
        begin_h, begin_c: (S, H), before the first steps.
        outputs, cells, kept: see ForwardRun.
        with_grad_h, grad_h, with_grad_c, grad_c: (N, H), the gradients by row, if there are.
        carry_h: (S, H), the gradient of the last hidden state; in the end of the first.
        carry_other: (S, H), the gradient of the last cell state, in the end of the first; of
            a GRU the rest of the hidden state's, zeros first.
    """

    begin_h: Any
    begin_c: Any
    outputs: Any
    cells: Any
    kept: Any
    with_grad_h: bool
    grad_h: Any
    with_grad_c: bool
    grad_c: Any
    carry_h: Any
    carry_other: Any


class Chunk(NamedTuple):
    """Some steps, and a slot for every row that they run.

    Attributes:
        step_from, step_to: which steps.
        bases: (steps,) the first slot of each; a sequence's slot is its rank further on.
        filled: how many slots there are.
        slopes: (slots, stride), flat; see step_backward.
        rows: (slots,) which row is in which slot.
        before: (slots,) the row before it; -1 - n for the initial state of sequence n.
    """

    step_from: int
    step_to: int
    bases: Any
    filled: int
    slopes: Any
    stride: int
    rows: Any
    before: Any


class BackwardSpace(NamedTuple):
    """Room for one thread to work in.

    Attributes:
        sums: for the sums of a tile, its rows at `sums_at`.
        panel: (DEPTH, panel width).
        from_at, to_at: positions, one for every sequence, slot, and column of slopes.
    """

    sums: Any
    sums_at: Any
    panel: Any
    from_at: Any
    to_at: Any


class Gradients(NamedTuple):
    """Where the gradients go; all flat.

    Attributes:
        data, of_input: (N, D), and its gradient.
        weight_ih, input_room: (gates * H, input_room), rows wide enough for whole panels.
        weight_hh, hidden_room: likewise, in the order of the slopes.
        bias: (SLOPES * H,), the sums of all slopes.
    """

    data: Any
    of_input: Any
    weight_ih: Any
    input_room: int
    weight_hh: Any
    hidden_room: int
    bias: Any


@njit(cache=True, nogil=True)
def recur(cell, matrix, sequences, run, chunk, space, team):  # type: ignore[no-untyped-def]
    """Run the steps of a chunk backward; whether they were run to the end.

    Args:
        cell: one of cells.py.
        matrix: weight_hh, its rows in the order of the slopes.
        sequences, team: as for forward.
        run, chunk, space: see there.
    """
    return _recur(
        bare(cell), bare(matrix), bare(sequences), bare(run), bare(chunk), bare(space), bare(team)
    )


@njit(nogil=True)
def _recur(cell, matrix, sequences, run, chunk, space, team):  # type: ignore[no-untyped-def]
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
        multiply_rows(
            matrix, chunk.slopes, space.from_at, 0, alive, panel_from, panel_to,
            run.carry_h, space.to_at, cell.hidden, space.sums, space.sums_at,
        )  # fmt: skip
    return True


@njit(nogil=True)
def _run_back(cell, sequences, run, chunk, step, base, n, unit_from, unit_to):  # type: ignore[no-untyped-def]
    """Run the step of one sequence backward, but for the product with weight_hh."""
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


@njit(cache=True, nogil=True)
def collect(  # type: ignore[no-untyped-def]
    size, gates, blocks, matrix, run, chunk, gradients, space, member, members
):
    """Add one member's part of the gradients of a chunk.

    Args:
        size, gates, blocks: H, and how many blocks of it weight_hh and the slopes have.
        matrix: weight_ih; of depth 0 where the data are projected already.
        run, chunk, gradients, space: see there.
    """
    _collect(
        size, gates * size, blocks * size, bare(matrix), bare(run), bare(chunk), bare(gradients),
        bare(space), member, members,
    )  # fmt: skip


@njit(nogil=True)
def _collect(  # type: ignore[no-untyped-def]
    size, columns, slopes, matrix, run, chunk, gradients, space, member, members
):
    # A GRU has one block of slopes that only weight_hh sees: it comes first.
    skipped = slopes - columns
    first, end = part_of(chunk.filled, member, members)
    if matrix.depth:
        for slot in range(first, end):
            space.from_at[slot] = slot * chunk.stride + skipped
            space.to_at[slot] = chunk.rows[slot] * matrix.columns
        multiply_rows(
            matrix, chunk.slopes, space.from_at, first, end,
            0, panels_of(matrix.columns, chunk.slopes),
            gradients.of_input, space.to_at, matrix.columns, space.sums, space.sums_at,
        )  # fmt: skip
    else:
        for slot in range(first, end):
            at, to = slot * chunk.stride + skipped, chunk.rows[slot] * columns
            for n in range(columns):
                gradients.of_input[to + n] = chunk.slopes[at + n]
    column_from, column_to = part_of(columns, member, members)
    for first in range(0, chunk.filled, DEPTH):
        depth = min(DEPTH, chunk.filled - first)
        at = first * chunk.stride
        if matrix.depth:
            for p in range(panels_of(matrix.columns, chunk.slopes)):
                _take_inputs(gradients.data, matrix.columns, chunk, first, depth, p, space.panel)
                add_products_of_columns(
                    matrix, chunk.slopes, at + skipped, chunk.stride, column_from, column_to,
                    depth, space.panel, p, gradients.weight_ih, gradients.input_room,
                    space.from_at, space.to_at,
                )  # fmt: skip
        for p in range(panels_of(size, chunk.slopes)):
            _take_states(run, size, chunk, first, depth, p, space.panel)
            add_products_of_columns(
                matrix, chunk.slopes, at, chunk.stride, column_from, column_to,
                depth, space.panel, p, gradients.weight_hh, gradients.hidden_room,
                space.from_at, space.to_at,
            )  # fmt: skip
        low, high = part_of(slopes, member, members)
        _add_slopes(chunk, at, depth, low, high, gradients.bias)


@njit(nogil=True)
def _take_inputs(data, columns, chunk, first, depth, p, panel):  # type: ignore[no-untyped-def]
    """Copy one panel's columns of the rows in `depth` slots."""
    for k in range(depth):
        at = chunk.rows[first + k] * columns
        _take(data, at, columns, k, p, panel)


@njit(nogil=True)
def _take_states(run, size, chunk, first, depth, p, panel):  # type: ignore[no-untyped-def]
    """Copy one panel's columns of the hidden states before the rows in `depth` slots."""
    for k in range(depth):
        before = chunk.before[first + k]
        if before >= 0:
            _take(run.outputs, before * size, size, k, p, panel)
        else:
            _take(run.begin_h, (-1 - before) * size, size, k, p, panel)


@njit(nogil=True)
def _take(source, at, columns, k, p, panel):  # type: ignore[no-untyped-def]
    """Copy one panel's columns of a row to panel[k], zeros past the last column."""
    lanes = lanes_in(source)
    for n in range(VECTORS):
        column = (p * VECTORS + n) * lanes
        vector = load(source, at + column, columns - column)
        store(vector, panel, (k * VECTORS + n) * lanes, lanes)


@njit(nogil=True)
def _add_slopes(chunk, at, depth, column_from, column_to, bias):  # type: ignore[no-untyped-def]
    """Add up columns of slopes over `depth` slots."""
    for column in range(column_from, column_to, lanes_in(chunk.slopes)):
        count = column_to - column
        total = load(chunk.slopes, at + column, count)
        for k in range(1, depth):
            total = total + load(chunk.slopes, at + k * chunk.stride + column, count)
        store(load(bias, column, count) + total, bias, column, count)
