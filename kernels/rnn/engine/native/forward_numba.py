"""Forward pass of one layer in one direction, for a share of the sequences.

A thread runs its own sequences without synchronization; or, if there are fewer sequences than
threads, all threads run the same sequences and each computes its own units.

The previous state of a row is the previous row in `outputs`: nothing is sorted, packed or padded.
Only the projected inputs of a few steps are buffered, so that they stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.rnn.engine.native.barrier_numba import meet
from lodcli.kernels.rnn.engine.native.cells_numba import shape_of, step_forward
from lodcli.kernels.rnn.engine.native.layout import BLOCK_TILES
from lodcli.kernels.rnn.engine.native.products_numba import (
    alternating_panel,
    multiply_blocks,
    multiply_rows,
    panels_of,
    part_of,
    share_of,
)
from lodcli.kernels.rnn.engine.native.structures import (
    KINDS,
    Cell,
    ForwardRun,
    ForwardSpace,
    Matrix,
    Sequences,
    Team,
)
from lodcli.kernels.rnn.engine.native.tiles_numba import multiply, multiply_one
from lodcli.kernels.simd.lanes_numba import LAYOUT, fetch, lanes_in


@function()
def alive_at(sequences, step, before):  # type: ignore[no-untyped-def]
    """Return how many sequences have a row at `step`, given that count for an earlier step."""
    while before > 0 and sequences.lengths[before - 1] <= step:
        before -= 1
    return before


def runner(project: Any, run_step: Any) -> Any:
    """Return a function that runs some steps, and returns whether it was not interrupted.

    Args:
        project: computes the projected inputs of some steps.
        run_step: computes one step of all active sequences.
    """

    @function()
    def steps(cell, matrix, sequences, run, space, step_from, step_to, team):  # type: ignore[no-untyped-def]
        alive = sequences.total
        step = step_from
        while step < step_to:
            alive = alive_at(sequences, step, alive)
            ahead = 1
            if matrix.depth:
                ahead = min(max(1, space.slots // alive), step_to - step)
                project(matrix, sequences, run, space, step, ahead, alive, team)
                if not meet(team.barrier, team.member, team.members):
                    return False
            slot = 0
            for now in range(step, step + ahead):
                alive = alive_at(sequences, now, alive)
                run_step(cell, matrix, sequences, run, space, now, slot, alive, team)
                slot += alive
                if not meet(team.barrier, team.member, team.members):
                    return False
            step += ahead
        return True

    return steps


@function()
def _project(matrix, sequences, run, space, step, ahead, alive, team):  # type: ignore[no-untyped-def]
    """Project the inputs of `ahead` steps: this member's share of them."""
    filled = find_inputs(matrix, sequences, space, step, ahead, alive)
    first, end = part_of(filled, team.member, team.members)
    multiply_rows(
        matrix, run.data, space.rows, first, end, 0, panels_of(matrix.columns, run.data),
        space.inputs, space.places, space.width, space.sums, space.sums_at, 0,
    )  # fmt: skip


@function()
def find_inputs(matrix, sequences, space, step, ahead, alive):  # type: ignore[no-untyped-def]
    """Write the positions of the inputs of `ahead` steps and of their projections; return their
    number."""
    filled = 0
    for now in range(step, step + ahead):
        alive = alive_at(sequences, now, alive)
        for n in range(alive):
            row = sequences.firsts[n] + sequences.onward * now
            space.rows[filled] = row * matrix.depth
            space.places[filled] = filled * space.width
            filled += 1
    return filled


@function()
def _run_step(cell, matrix, sequences, run, space, step, slot, alive, team):  # type: ignore[no-untyped-def]
    """Run one step of all active sequences, for the panels of this member of the team.

    Args:
        slot: of the projected input of the first sequence.
    """
    find_states(cell, matrix, sequences, run, space, step, slot, alive)
    shape, size = shape_of(cell), cell.hidden
    depth = 0 if step == 0 and run.no_begin_h else size
    width = shape.vectors * lanes_in(run.data)
    units = width // shape.gates
    panels = (size + units - 1) // units
    panel_from, panel_to = part_of(panels, team.member, team.members)
    old_h = run.outputs if step else run.begin_h
    panel = size * width
    most = shape.tile_rows * (BLOCK_TILES if cell.blocked else 1)
    # With one active sequence, its row is multiplied by several panels at once.
    most_panels = shape.tile_panels if alive == 1 else 1
    if alive == 1:
        x = space.inputs if matrix.depth else run.data
        unit_from, unit_to = panel_from * units, min(panel_to * units, size)
        _fetch_row(old_h, space.old_h_at[0], depth)
        for gate in range(shape.gates):
            _fetch_row(x, space.x_at[0] + gate * size + unit_from, unit_to - unit_from)
    number = panel_from
    while number < panel_to:
        count = share_of(panel_to - number, most_panels)
        p = alternating_panel(number, count, panel_from, panel_to, step)
        after = alternating_panel(min(number + 1, panel_to - 1), 1, panel_from, panel_to, step)
        first = 0
        while first < alive:
            rows = share_of(alive - first, most)
            if alive == 1:
                multiply_one(
                    cell.shape, count, old_h, space.old_h_at, 0, cell.panels, p * panel,
                    panel, depth, cell.start, p * width, space.sums, space.sums_at, 0, 0,
                )  # fmt: skip
            elif cell.blocked:
                multiply_blocks(
                    cell, shape.tile_rows, old_h, space.old_h_at, first, first + rows, depth,
                    p * panel, after * panel, panel, cell.start, p * width,
                    space.sums, space.sums_at, 0, 0,
                )  # fmt: skip
            else:
                multiply(
                    cell.shape, rows, old_h, space.old_h_at, first, 1, cell.panels, p * panel,
                    depth, cell.start, p * width, space.sums, space.sums_at, 0, 0,
                )  # fmt: skip
            # Rows of one panel, or panels of one row.
            for n in range(rows * count):
                row, place = (first, p + n) if alive == 1 else (first + n, p)
                run_units(cell, matrix, run, space, step, row, place * units, n * width)
            first += rows
        number += count


@function()
def find_states(cell, matrix, sequences, run, space, step, slot, alive):  # type: ignore[no-untyped-def]
    """Write the positions of the states of all active sequences before and after a step."""
    shape, size = shape_of(cell), cell.hidden
    for n in range(alive):
        row = sequences.firsts[n] + sequences.onward * step
        number = sequences.numbers[n]
        before = row - sequences.onward if step else number
        space.x_at[n] = (slot + n) * space.width if matrix.depth else row * shape.gates * size
        space.old_h_at[n], space.h_at[n] = before * size, row * size
        space.old_c_at[n] = before * size if run.by_row else number * size
        space.c_at[n] = row * size if run.by_row else number * size
        space.kept_at[n] = row * shape.kept * size


@function()
def _fetch_row(source, at, count):  # type: ignore[no-untyped-def]
    """Prefetch a row from another processor's cache: hardware would fetch it line by line."""
    for k in range(0, count, lanes_in(source)):
        fetch(source, at + k)


@function()
def run_units(cell, matrix, run, space, step, n, unit, at):  # type: ignore[no-untyped-def]
    """Compute the new state of sequence n from the sums of a panel at `at`."""
    old_c = run.cells if step and run.by_row else run.state_c
    step_forward(
        cell, unit, space.sums, at, space.inputs if matrix.depth else run.data, space.x_at[n],
        run.outputs if step else run.begin_h, space.old_h_at[n], old_c, space.old_c_at[n],
        run.keep, run.kept, space.kept_at[n],
        run.outputs, space.h_at[n], run.cells if run.by_row else run.state_c, space.c_at[n],
    )  # fmt: skip


_run = runner(_project, _run_step)
_LAYOUT = LAYOUT.vector_bytes * 256 + LAYOUT.registers


@kernel(types=FLOATS)
def last(
    through: Pointer[T], order: Pointer[np.int64], lengths: Pointer[np.int64],
    starts: Pointer[np.int64], states: Pointer[T], alive: int, width: int, backwards: bool,
) -> int:  # fmt: skip
    """Write the state after the last step of each sequence that has one.

    Args:
        through: (N, width), the state after every row.
        order, lengths, starts: (alive,): see StepPlan.
        states: (S, width).
        backwards: whether sequences run from last row to first.
    """
    for n in range(alive):
        row = starts[n] if backwards else starts[n] + lengths[n] - 1
        to, found = states + order[n] * width, through + row * width
        for k in range(width):
            to[k] = found[k]
    return 0


@kernel()
def layout() -> int:
    """Return 256 times the size of a vector register in bytes, plus the number of registers."""
    return _LAYOUT


def _declare(name: str, kind: type[Cell]) -> None:
    def forward(  # type: ignore[no-untyped-def]
        cell, matrix: Matrix, sequences: Sequences, run: ForwardRun, space: ForwardSpace,
        step_from: int, step_to: int, team: Team,
    ) -> int:  # fmt: skip
        """Run steps step_from .. step_to; return 1 if not interrupted.

        Args:
            cell: one of structures.py.
            matrix: weight_ih.T; of depth 0 if the data are already projected.
            step_from, step_to: 0 .. the longest length.
        """
        return 1 if _run(cell, matrix, sequences, run, space, step_from, step_to, team) else 0

    forward.__annotations__["cell"] = kind
    kernel(name=name, types=FLOATS)(forward)


for _name, _kind in KINDS.items():
    _declare(_name, _kind)
