"""Backward pass with AMX products; see backward_numba.py of engine/native.

All factors (slopes, inputs, states and weights) are rounded to bfloat16. Row sums of slopes, which
are the gradients of biases, are in float32. Tiles accumulate over slots in order.
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.native.target import level
from lodcli.kernels.rnn.engine.amx import layout
from lodcli.kernels.rnn.engine.amx.layout import (
    BLOCK_ROWS,
    BLOCK_SLOTS,
    PAIRS,
    TILE_COLUMNS,
    TILE_ROWS,
    TILE_WORDS,
)
from lodcli.kernels.rnn.engine.amx.rounding_numba import round_pairs, round_row, turn
from lodcli.kernels.rnn.engine.amx.tiles_numba import configure, multiply, multiply_onto, release
from lodcli.kernels.rnn.engine.native.backward_numba import add_slopes, input_gradients, runner
from lodcli.kernels.rnn.engine.native.layout import DEPTH, VECTORS
from lodcli.kernels.rnn.engine.native.products_numba import alternating_panel, panels_of, part_of
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
from lodcli.kernels.simd.lanes_numba import load, store

_depth_tiles, _row_words = function()(layout.depth_tiles), function()(layout.row_words)
_WIDTH = VECTORS * TILE_COLUMNS


@function()
def _multiply(  # type: ignore[no-untyped-def]
    matrix, a, a_at, row_from, row_to, panel_from, panel_to, out, out_at, room, space, parity
):
    """Same as multiply_rows of engine/native; every row of `out` has `room` elements."""
    steps = _depth_tiles(matrix.depth)
    words = _row_words(steps)
    for first in range(row_from, row_to, BLOCK_ROWS):
        rows = min(BLOCK_ROWS, row_to - first)
        for n in range(rows):
            round_row(a, a_at[first + n], matrix.depth, space.rounded, n * words, words)
        for number in range(panel_from, panel_to):
            p = alternating_panel(number, 1, panel_from, panel_to, parity)
            multiply(
                matrix.shape, rows, steps, space.rounded, 0, words,
                matrix.panels, p * steps * VECTORS * TILE_WORDS, matrix.zeros, 0,
                space.sums, 0, _WIDTH,
            )  # fmt: skip
            for n in range(rows):
                to = out_at[first + n]
                for vector in range(VECTORS):
                    column = p * _WIDTH + vector * TILE_COLUMNS
                    sums = load(space.sums, n * _WIDTH + vector * TILE_COLUMNS, TILE_COLUMNS)
                    store(sums, out, to + column, room - column)
        parity += 1


_recur, _of_inputs = runner(_multiply), input_gradients(_multiply)


@function()
def _take_columns(  # type: ignore[no-untyped-def]
    rows, begin, numbers, columns, first, depth, panel, panel_at
):
    """Round the rows in `depth` slots into panels: pairs of slots, as tiles read them.

    Args:
        rows, begin, numbers: slot n holds row numbers[n] of `rows` or, if negative, row -1 - number
            of `begin`.
    """
    steps = _depth_tiles(depth)
    panels = panels_of(columns, rows)
    for k in range(0, steps * 2 * PAIRS, 2):
        low = high = np.int64(0)
        if k < depth:
            low = numbers[first + k]
        if k + 1 < depth:
            high = numbers[first + k + 1]
        low_row = low if low >= 0 else -1 - low
        high_row = high if high >= 0 else -1 - high
        line = k % (2 * PAIRS) // 2 * TILE_COLUMNS + k // (2 * PAIRS) * VECTORS * TILE_WORDS
        for p in range(panels):
            column = p * _WIDTH
            round_pairs(
                rows if low >= 0 else begin, low_row * columns + column,
                columns - column if k < depth else 0,
                rows if high >= 0 else begin, high_row * columns + column,
                columns - column if k + 1 < depth else 0,
                VECTORS, panel, panel_at + p * steps * VECTORS * TILE_WORDS + line, TILE_WORDS,
            )  # fmt: skip


@function()
def _take_slopes(chunk, at, end, depth, space, to):  # type: ignore[no-untyped-def]
    """Round up to TILE_ROWS columns of slopes in `depth` slots: each becomes a row of words.

    Args:
        at, end: the position and end of the first columns.
    """
    steps = _depth_tiles(depth)
    words = _row_words(steps)
    for step in range(steps):
        for pair in range(PAIRS):
            k = (step * PAIRS + pair) * 2
            low = at + k * chunk.stride
            round_pairs(
                chunk.slopes, low if k < depth else at, end if k < depth else 0,
                chunk.slopes, low + chunk.stride if k + 1 < depth else at,
                end if k + 1 < depth else 0,
                1, space.sums, pair * TILE_COLUMNS, TILE_COLUMNS,
            )  # fmt: skip
        turn(space.sums, 0, space.rounded, to + step * PAIRS, words)


@function()
def _add_products(  # type: ignore[no-untyped-def]
    matrix, chunk, at, columns, tile_from, tile_to, depth, space, inputs, states, gradients
):
    """Add the products of columns of slopes with panels of inputs, of states, or of both.

    Args:
        at: position of the first column of the first slot.
        columns: how many there are; with first and last tile to process.
        inputs, states: number of panels of each.
    """
    steps = _depth_tiles(depth)
    words = _row_words(steps)
    panel = steps * VECTORS * TILE_WORDS
    states_at = panels_of(matrix.columns, chunk.slopes) * panel if matrix.depth else 0
    for tile in range(tile_from, tile_to, 2):
        column = tile * TILE_ROWS
        rows = min(tile_to - tile, 2) * TILE_ROWS
        for n in range(0, rows, TILE_ROWS):
            _take_slopes(chunk, at + column + n, columns - column - n, depth, space, n * words)
        for p in range(inputs):
            multiply_onto(
                matrix.shape, rows, steps, space.rounded, 0, words, space.panel, p * panel,
                gradients.weight_ih, column * gradients.input_room + p * _WIDTH,
                gradients.input_room,
            )  # fmt: skip
        for p in range(states):
            multiply_onto(
                matrix.shape, rows, steps, space.rounded, 0, words,
                space.panel, states_at + p * panel,
                gradients.weight_hh, column * gradients.hidden_room + p * _WIDTH,
                gradients.hidden_room,
            )  # fmt: skip


@function()
def _collect(columns, slopes, size, matrix, run, chunk, gradients, space, member, members):  # type: ignore[no-untyped-def]
    skipped = slopes - columns
    _of_inputs(matrix, chunk, gradients, space, columns, skipped, member, members)
    tile_from, tile_to = part_of((columns + TILE_ROWS - 1) // TILE_ROWS, member, members)
    low, high = part_of(slopes, member, members)
    inputs = panels_of(matrix.columns, chunk.slopes) if matrix.depth else 0
    states = panels_of(size, chunk.slopes)
    for first in range(0, chunk.filled, BLOCK_SLOTS):
        depth = min(BLOCK_SLOTS, chunk.filled - first)
        at = first * chunk.stride
        for k in range(0, depth, DEPTH):
            some = min(DEPTH, depth - k)
            add_slopes(chunk, at + k * chunk.stride, some, low, high, slopes, gradients.bias)
        data = gradients.data
        if inputs:
            _take_columns(data, data, chunk.rows, matrix.columns, first, depth, space.panel, 0)
        states_at = inputs * _depth_tiles(depth) * VECTORS * TILE_WORDS
        _take_columns(
            run.outputs, run.begin_h, chunk.before, size, first, depth, space.panel, states_at
        )
        if skipped and inputs:  # for a GRU, whose two weights have different columns
            _add_products(
                matrix, chunk, at + skipped, columns, tile_from, tile_to, depth, space,
                inputs, 0, gradients,
            )  # fmt: skip
        _add_products(
            matrix, chunk, at, columns, tile_from, tile_to, depth, space,
            0 if skipped else inputs, states, gradients,
        )  # fmt: skip


def _declare(name: str, kind: type[Cell]) -> None:
    def recur(  # type: ignore[no-untyped-def]
        cell, matrix: Matrix, sequences: Sequences, run: BackwardRun, chunk: Chunk,
        space: BackwardSpace, team: Team,
    ) -> int:  # fmt: skip
        """See backward_numba.py of engine/native; panels and rows are those of AMX."""
        configure()
        done = _recur(cell, matrix, sequences, run, chunk, space, team)
        release()
        return 1 if done else 0

    recur.__annotations__["cell"] = kind
    kernel(name=name, types=("float32",))(recur)


# All processors with AMX have this level.
if level().name == layout.LEVEL:
    for _name, _kind in KINDS.items():
        _declare(_name, _kind)

    @kernel(types=("float32",))
    def collect(
        columns: int, slopes: int, size: int, matrix: Matrix, run: BackwardRun, chunk: Chunk,
        gradients: Gradients, space: BackwardSpace, member: int, members: int,
    ) -> int:  # fmt: skip
        """See backward_numba.py of engine/native; panels and rows are those of AMX."""
        configure()
        _collect(columns, slopes, size, matrix, run, chunk, gradients, space, member, members)
        release()
        return 0
