"""Matrix products in tiles."""

from __future__ import annotations

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.rnn.engine.native.layout import DEPTH, VECTOR_ROWS, VECTORS
from lodcli.kernels.rnn.engine.native.tiles_numba import (
    multiply,
    multiply_block,
    multiply_one,
    multiply_onto,
    multiply_vectors,
    multiply_vectors_onto,
)
from lodcli.kernels.simd.instructions import VECTOR_BYTES
from lodcli.kernels.simd.lanes_numba import LAYOUT, lanes_in

# Elements of the rows multiplied by all panels before the next rows: they stay in the cache. More
# if the panels are read from an outer cache each time.
_BLOCK, _LARGE_BLOCK = 1 << 16, 1 << 17
_TILE_ROWS = LAYOUT.tile_rows(VECTORS)
_TILE_PANELS = LAYOUT.panels_at_once(VECTORS)
# Up to this many vectors of a panel are computed one at a time, else the whole panel: a tile of one
# vector has one sum per row, and three chains of dependent operations stall each other.
_FEW = 2 if _TILE_ROWS > 3 else 1
_LINE_VECTORS = VECTOR_BYTES // LAYOUT.vector_bytes


@function(inline="always")
def share_of(left, most):  # type: ignore[no-untyped-def]
    """Return how many of `left` rows to process, at most `most`, for shares of equal size."""
    shares = (left + most - 1) // most
    return (left + shares - 1) // shares


@function(inline="always")
def part_of(count, member, members):  # type: ignore[no-untyped-def]
    """Return the begin and end of one member's share."""
    return count * member // members, count * (member + 1) // members


@function(inline="always")
def alternating_panel(number, count, panel_from, panel_to, parity):  # type: ignore[no-untyped-def]
    """Return the first of the next `count` panels: ascending if `parity` is even, else descending.

    Passes over the panels alternate: those used last are in the caches, and are used first.

    Args:
        number: the first of these panels if ascending.
    """
    return panel_from + panel_to - number - count if parity & 1 else number


@function()
def multiply_rows(  # type: ignore[no-untyped-def]
    matrix, a, a_at, row_from, row_to, panel_from, panel_to, out, out_at, room,
    spare, spare_at, parity,
):  # fmt: skip
    """Write the product of rows a[a_at[r]:] and `matrix` to out[out_at[r]:].

    Args:
        matrix: a Matrix.
        a, a_at: the contiguous rows, and the position of each.
        row_from, row_to, panel_from, panel_to: the range of rows and of panels.
        out, out_at: the products, and the position of each row.
        room: width of a row of `out`, at least the number of columns. Padding columns may be
            written up to it.
        spare: scratch for the sums of a tile, for a last partial panel.
        spare_at: position of each row of the tile in it.
        parity: see alternating_panel.
    """
    width = VECTORS * lanes_in(a)
    if row_to - row_from == 1:
        whole = min(panel_to, room // width)
        _multiply_row(matrix, a, a_at, row_from, panel_from, whole, out, out_at, parity)
        panel_from = max(panel_from, whole)
    elements = _LARGE_BLOCK if matrix.blocked else _BLOCK
    block = max(2 * _TILE_ROWS, elements // (matrix.depth + 1))
    for first in range(row_from, row_to, block):
        end = min(first + block, row_to)
        for number in range(panel_from, panel_to):
            p = alternating_panel(number, 1, panel_from, panel_to, parity)
            left = room - p * width
            vectors = _vectors_in(matrix.columns, p, a)
            whole = left >= vectors * lanes_in(a)
            if matrix.blocked and whole and vectors > _FEW:
                size = matrix.depth * width
                after = min(number + 1, panel_to - 1)
                after = alternating_panel(after, 1, panel_from, panel_to, parity)
                multiply_blocks(
                    matrix, _TILE_ROWS, a, a_at, first, end, matrix.depth, p * size,
                    after * size, size, matrix.zeros, 0,
                    out, out_at, first, p * width,
                )  # fmt: skip
                continue
            row = first
            while row < end:
                rows = share_of(end - row, VECTOR_ROWS if vectors <= _FEW else _TILE_ROWS)
                panel_at = p * matrix.depth * width
                to, to_at = (out, out_at) if whole else (spare, spare_at)
                to_row, plus = (row, p * width) if whole else (0, 0)
                if vectors <= _FEW:
                    multiply_vectors(
                        vectors, matrix.shape, rows, a, a_at, row, 1, matrix.panels, panel_at,
                        matrix.depth, matrix.zeros, 0, to, to_at, to_row, plus,
                    )  # fmt: skip
                else:
                    multiply(
                        matrix.shape, rows, a, a_at, row, 1, matrix.panels, panel_at,
                        matrix.depth, matrix.zeros, 0, to, to_at, to_row, plus,
                    )  # fmt: skip
                if not whole:
                    for r in range(rows):
                        place = out_at[row + r] + p * width
                        for n in range(left):
                            out[place + n] = spare[spare_at[r] + n]
                row += rows
        parity += 1


@function()
def multiply_blocks(  # type: ignore[no-untyped-def]
    of, tile_rows, a, a_at, row_from, row_to, depth, panel_at, next_at, panel_size,
    first, first_at, out, out_at, out_row, out_plus,
):  # fmt: skip
    """Multiply rows by a panel, DEPTH rows of it at a time, which stay in the L1 cache.

    The panel at `next_at` is prefetched meanwhile. The sums are bitwise equal to those of a tile
    over the whole panel.

    Args:
        of, tile_rows: a Cell or a Matrix, and the rows of its tiles.
        panel_at, next_at, panel_size: positions of the panels, and their number of elements.
        first .. out_plus: see multiply.
    """
    line = lanes_in(a) * _LINE_VECTORS
    asked = k = 0
    while k == 0 or k < depth:
        k_to = min(k + DEPTH, depth)
        row = row_from
        while row < row_to:
            rows = share_of(row_to - row, tile_rows)
            ahead = panel_at
            if asked < panel_size:
                ahead = next_at + asked
                asked += (k_to - k) // 2 * line
            multiply_block(
                of.shape, rows, a, a_at, row, of.panels, panel_at, k, k_to, first, first_at,
                out, out_at, out_row + row - row_from, out_plus, ahead,
            )  # fmt: skip
            row += rows
        k += DEPTH


@function()
def _multiply_row(  # type: ignore[no-untyped-def]
    matrix, a, a_at, row, panel_from, panel_to, out, out_at, parity
):
    """Likewise for one row and as many panels as fit in registers."""
    width = VECTORS * lanes_in(a)
    number = panel_from
    while number < panel_to:
        count = share_of(panel_to - number, _TILE_PANELS)
        p = alternating_panel(number, count, panel_from, panel_to, parity)
        multiply_one(
            matrix.shape, count, a, a_at, row, matrix.panels, p * matrix.depth * width,
            matrix.depth * width, matrix.depth, matrix.zeros, 0, out, out_at, row, p * width,
        )  # fmt: skip
        number += count


@function()
def _vectors_in(columns, panel, a):  # type: ignore[no-untyped-def]
    """Return how many vectors of a panel to compute: those with columns, or all."""
    lanes = lanes_in(a)
    vectors = (columns - panel * VECTORS * lanes + lanes - 1) // lanes
    return vectors if vectors <= _FEW else VECTORS


@function()
def panels_of(columns, a):  # type: ignore[no-untyped-def]
    """Return how many panels this many columns need."""
    width = VECTORS * lanes_in(a)
    return (columns + width - 1) // width


@function()
def add_products_of_columns(  # type: ignore[no-untyped-def]
    matrix, a, a_at, a_stride, column_from, column_to, depth,
    panel, panel_number, columns, out, out_stride, columns_at, out_at,
):  # fmt: skip
    """Add to rows column_from.. of `out` the products of those columns of `a` with a panel.

    Args:
        matrix: any Matrix, used for its zeros.
        a, a_at, a_stride: column c of row k is a[a_at + k * a_stride + c].
        depth: number of rows, at most DEPTH.
        panel, panel_number: a panel of `depth` rows, and the number of its columns in `out`.
        columns: number of columns of all panels.
        out, out_stride: flat, one row per column of `a`, wide enough for whole panels.
        columns_at, out_at: scratch for one position per column.
    """
    width = VECTORS * lanes_in(a)
    for column in range(column_from, column_to):
        columns_at[column] = a_at + column
        out_at[column] = column * out_stride + panel_number * width
    vectors = _vectors_in(columns, panel_number, a)
    column = column_from
    while column < column_to:
        rows = share_of(column_to - column, VECTOR_ROWS if vectors <= _FEW else _TILE_ROWS)
        if vectors <= _FEW:
            multiply_vectors_onto(
                vectors, matrix.shape, rows, a, columns_at, column, a_stride, panel, 0, depth,
                matrix.zeros, out, out_at, column, 0,
            )  # fmt: skip
        else:
            multiply_onto(
                matrix.shape, rows, a, columns_at, column, a_stride, panel, 0, depth,
                matrix.zeros, out, out_at, column, 0,
            )  # fmt: skip
        column += rows
