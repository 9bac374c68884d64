"""Forward pass with AMX products; see forward_numba.py of engine/native.

Factors are rounded to bfloat16 first: the inputs of a few steps at a time, and in each step the
previous states. The sums of a row do not depend on its tile.
"""

from __future__ import annotations

from lodcli.kernels.native.declare import kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.native.target import level
from lodcli.kernels.rnn.engine.amx import layout
from lodcli.kernels.rnn.engine.amx.layout import BLOCK_ROWS, TILE_ROWS, TILE_WORDS
from lodcli.kernels.rnn.engine.amx.rounding_numba import round_row
from lodcli.kernels.rnn.engine.amx.tiles_numba import configure, multiply, release
from lodcli.kernels.rnn.engine.native.cells_numba import shape_of
from lodcli.kernels.rnn.engine.native.forward_numba import (
    find_inputs,
    find_states,
    run_units,
    runner,
)
from lodcli.kernels.rnn.engine.native.layout import VECTORS
from lodcli.kernels.rnn.engine.native.products_numba import alternating_panel, panels_of, part_of
from lodcli.kernels.rnn.engine.native.structures import (
    KINDS,
    Cell,
    ForwardRun,
    ForwardSpace,
    Matrix,
    Sequences,
    Team,
)
from lodcli.kernels.simd.lanes_numba import lanes_in

_depth_tiles, _row_words = function()(layout.depth_tiles), function()(layout.row_words)


@function()
def _project(matrix, sequences, run, space, step, ahead, alive, team):  # type: ignore[no-untyped-def]
    """Project the inputs of `ahead` steps: this member's share of them."""
    filled = find_inputs(matrix, sequences, space, step, ahead, alive)
    begin, end = part_of(filled, team.member, team.members)
    steps = _depth_tiles(matrix.depth)
    row = _row_words(steps)
    for n in range(begin, end):
        to = (n - begin) * row
        round_row(run.data, space.rows[n], matrix.depth, space.rounded, to, row)
    width = VECTORS * lanes_in(run.data)
    for p in range(panels_of(matrix.columns, run.data)):
        for first in range(begin, end, BLOCK_ROWS):
            rows = min(BLOCK_ROWS, end - first)
            # Other rows of a tile belong to another member.
            whole = rows % TILE_ROWS == 0
            to = space.places[first] + p * width
            multiply(
                matrix.shape, rows, steps, space.rounded, (first - begin) * row, row,
                matrix.panels, p * steps * VECTORS * TILE_WORDS, matrix.zeros, 0,
                space.inputs if whole else space.sums, to if whole else 0,
                space.width if whole else width,
            )  # fmt: skip
            if not whole:
                for n in range(rows):
                    for column in range(width):
                        space.inputs[to + n * space.width + column] = space.sums[n * width + column]


@function()
def _run_step(cell, matrix, sequences, run, space, step, slot, alive, team):  # type: ignore[no-untyped-def]
    """Run one step of all active sequences, for the panels of this member of the team.

    Args:
        slot: of the projected input of the first sequence.
    """
    find_states(cell, matrix, sequences, run, space, step, slot, alive)
    shape, size = shape_of(cell), cell.hidden
    width = shape.vectors * lanes_in(run.data)
    units = width // shape.gates
    panel_from, panel_to = part_of((size + units - 1) // units, team.member, team.members)
    old_h = run.outputs if step else run.begin_h
    tiles = _depth_tiles(size)
    row = _row_words(tiles)
    steps = 0 if step == 0 and run.no_begin_h else tiles
    if steps:
        for n in range(alive):
            round_row(old_h, space.old_h_at[n], size, space.rounded, n * row, row)
    for number in range(panel_from, panel_to):
        p = alternating_panel(number, 1, panel_from, panel_to, step)
        for first in range(0, alive, BLOCK_ROWS):
            rows = min(BLOCK_ROWS, alive - first)
            multiply(
                cell.shape, rows, steps, space.rounded, first * row, row,
                cell.panels, p * tiles * shape.vectors * TILE_WORDS, cell.start, p * width,
                space.sums, 0, width,
            )  # fmt: skip
            for n in range(rows):
                run_units(cell, matrix, run, space, step, first + n, p * units, n * width)


_run = runner(_project, _run_step)


def _declare(name: str, kind: type[Cell]) -> None:
    def forward(  # type: ignore[no-untyped-def]
        cell, matrix: Matrix, sequences: Sequences, run: ForwardRun, space: ForwardSpace,
        step_from: int, step_to: int, team: Team,
    ) -> int:  # fmt: skip
        """See forward_numba.py of engine/native; panels and rows are those of AMX."""
        configure()
        done = _run(cell, matrix, sequences, run, space, step_from, step_to, team)
        release()
        return 1 if done else 0

    forward.__annotations__["cell"] = kind
    kernel(name=name, types=("float32",))(forward)


# All processors with AMX have this level.
if level().name == layout.LEVEL:
    for _name, _kind in KINDS.items():
        _declare(_name, _kind)
