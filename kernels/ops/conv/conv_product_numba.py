"""Product of each row's context and a weight matrix, mostly without copies.

The rows of a context are consecutive in the data. Only contexts that reach beyond their segment,
and those of a few rows beside them, are gathered first.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.ops.conv.conv_numba import Context, write_context
from lodcli.kernels.simd.lanes_numba import lanes_in, load, store
from lodcli.kernels.simd.row_partition_numba import segment_at

# Rows that share each load of the weight: their sums fit in the registers on all levels.
TILE = 8
# Shorter runs of rows that need no copies are gathered with their neighbours.
_LEAST = 4
# Deeper products take longer than copies: then rows are gathered up to whole tiles.
_SHALLOW = 32


@function()
def _vector(
    x: Any, apart: int, rows: int, weight: Any, step: int, depth: int, out: Any, width: int,
    count: int,
) -> None:  # fmt: skip
    """Write up to 8 rows of one vector of columns, `width` apart; `count` columns are valid."""
    last, lanes, zero = rows - 1, lanes_in(weight), load(weight, 0, 0)
    a, b = x, x + min(1, last) * apart
    c, d = x + min(2, last) * apart, x + min(3, last) * apart
    e, f = x + min(4, last) * apart, x + min(5, last) * apart
    g, h = x + min(6, last) * apart, x + min(7, last) * apart
    ra, rb, rc, rd, re, rf, rg, rh = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(depth):
        w = load(weight, k * step, lanes)
        ra, rb, rc, rd = ra + w * a[k], rb + w * b[k], rc + w * c[k], rd + w * d[k]
        re, rf, rg, rh = re + w * e[k], rf + w * f[k], rg + w * g[k], rh + w * h[k]
    # From last to first: the last row stands in for missing rows.
    store(rh, out, min(7, last) * width, count)
    store(rg, out, min(6, last) * width, count)
    store(rf, out, min(5, last) * width, count)
    store(re, out, min(4, last) * width, count)
    store(rd, out, min(3, last) * width, count)
    store(rc, out, min(2, last) * width, count)
    store(rb, out, min(1, last) * width, count)
    store(ra, out, 0, count)


@function()
def _two_vectors(
    x: Any, apart: int, rows: int, weight: Any, step: int, depth: int, out: Any, width: int,
    count: int,
) -> None:  # fmt: skip
    """Write up to 4 rows of two vectors of columns; see _vector."""
    last, lanes, zero = rows - 1, lanes_in(weight), load(weight, 0, 0)
    a, b = x, x + min(1, last) * apart
    c, d = x + min(2, last) * apart, x + min(3, last) * apart
    ra, rb, rc, rd, sa, sb, sc, sd = zero, zero, zero, zero, zero, zero, zero, zero
    for k in range(depth):
        w, v = load(weight, k * step, lanes), load(weight, k * step + lanes, lanes)
        p, q, r, s = a[k], b[k], c[k], d[k]
        ra, rb, rc, rd = ra + w * p, rb + w * q, rc + w * r, rd + w * s
        sa, sb, sc, sd = sa + v * p, sb + v * q, sc + v * r, sd + v * s
    rest = count - lanes
    store(rd, out, min(3, last) * width, lanes)
    store(sd, out, min(3, last) * width + lanes, rest)
    store(rc, out, min(2, last) * width, lanes)
    store(sc, out, min(2, last) * width + lanes, rest)
    store(rb, out, min(1, last) * width, lanes)
    store(sb, out, min(1, last) * width + lanes, rest)
    store(ra, out, 0, lanes)
    store(sa, out, lanes, rest)


@function()
def _multiply(
    x: Any, apart: int, rows: int, weight: Any, step: int, depth: int, out: Any, columns: int
) -> None:
    """Write up to 8 rows of depth elements, `apart` elements apart, times the weight."""
    lanes = lanes_in(weight)
    column = 0
    while column < columns:
        count = min(columns - column, 2 * lanes)
        if count <= lanes:
            _vector(x, apart, rows, weight + column, step, depth, out + column, columns, count)
        else:
            for row in range(0, rows, 4):
                _two_vectors(
                    x + row * apart, apart, min(4, rows - row), weight + column, step, depth,
                    out + row * columns + column, columns, count,
                )  # fmt: skip
        column += count


@function()
def _within(of: Any, segment: int, row: int, end: int) -> Any:
    """Return how many rows from this one up to `end` have contexts inside their segment."""
    low, high = of.offsets[segment], of.offsets[segment + 1]
    source = low + of.stride * (row - of.kept[segment]) + of.start
    room = high - of.length - source
    if source < low or room < 0:
        return 0
    return min(min(end, of.kept[segment + 1]) - row, room // of.stride + 1)


@kernel(types=FLOATS)
def product(
    of: Context, data: Pointer[T], padding: Pointer[T], weight: Pointer[T], spare: Pointer[T],
    out: Pointer[T], columns: int, step: int, block: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the contexts of rows times the weight, `block` rows per piece.

    Args:
        weight: (K * D, step), zeros beyond `columns`; step is a whole number of vectors.
        spare: (pieces, TILE, K * D), for gathered contexts.
    """
    depth, apart = of.length * of.width, of.stride * of.width
    for piece in range(first, last):
        own = spare + piece * TILE * depth
        row, end = of.row + piece * block, min(of.row + (piece + 1) * block, of.row + of.rows)
        segment = segment_at(of.kept, of.segments, row)
        while row < end:
            while of.kept[segment + 1] <= row:
                segment += 1
            to = out + (row - of.row) * columns
            rows = min(TILE, _within(of, segment, row, end))
            if rows >= _LEAST:
                source = of.offsets[segment] + of.stride * (row - of.kept[segment]) + of.start
                x = data + source * of.width
                _multiply(x, apart, rows, weight, step, depth, to, columns)
            else:
                rows, among = 0, segment
                while rows < min(TILE, end - row) and (
                    depth > _SHALLOW or _within(of, among, row + rows, end) < _LEAST
                ):
                    write_context(of, among, row + rows, data, padding, own + rows * depth)
                    rows += 1
                    while row + rows < end and of.kept[among + 1] <= row + rows:
                        among += 1
                _multiply(own, depth, rows, weight, step, depth, to, columns)
            row += rows
    return 0
