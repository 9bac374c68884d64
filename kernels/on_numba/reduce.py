"""Segments reduced in pieces of the rows, so that threads share even one giant segment.

The rows are cut at fixed places, whatever the number of threads. A piece owns the segments
that begin in it and writes the part of them that lies inside; a segment that began earlier
leaves its part in a row of its own, and these are joined in order afterwards. So the result
does not depend on the threads, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from lodcli.kernels.on_numba import vectors as v

SUM, MAX, MIN = 0, 1, 2
PIECE = 1 << 17  # values in a piece
MOST_ROWS = 1 << 13  # rows in a piece of several columns
RUN = 256  # rows summed before joining the total: rounding grows with this, not with all
WIDE = 256  # columns from which whole rows are better than blocks of columns
_sum_block, _sum_vector, _sum_lanes = v.sum_block, v.sum_vector, v.sum_lanes
_max_block, _max_vector, _max_lanes = v.max_block, v.max_vector, v.max_lanes
_min_block, _min_vector, _min_lanes = v.min_block, v.min_vector, v.min_lanes


@nb.njit(cache=True, nogil=True)
def _one_column(x: Any, lo: int, hi: int, kind: int, value: Any, lanes: int) -> Any:
    """Return `value` joined with x[lo:hi]."""
    while lo < hi:
        n = min(hi - lo, RUN * lanes)
        if lo + ((n + lanes - 1) & -lanes) > x.size:
            n &= -lanes  # lanes are a power of two
            if n == 0:
                break
        if kind == SUM:
            value += _sum_lanes(x, lo, n)
        elif kind == MAX:
            found = _max_lanes(x, lo, n)
            value = found if found > value else value
        else:
            found = _min_lanes(x, lo, n)
            value = found if found < value else value
        lo += n
    for r in range(lo, hi):
        if kind == SUM:
            value += x[r]
        elif (kind == MAX and x[r] > value) or (kind == MIN and x[r] < value):
            value = x[r]
    return value


@nb.njit(cache=True, nogil=True)
def _by_rows(x: Any, lo: int, hi: int, kind: int, out: Any, column: int) -> None:
    """Join rows lo..hi of x (N, D) to the row `out`, from `column` on."""
    width = x.shape[1]
    r = lo
    if kind == SUM:
        while r + 8 <= hi:
            a, b, c, d = x[r], x[r + 1], x[r + 2], x[r + 3]
            e, f, g, h = x[r + 4], x[r + 5], x[r + 6], x[r + 7]
            for k in range(column, width):
                out[k] += ((a[k] + b[k]) + (c[k] + d[k])) + ((e[k] + f[k]) + (g[k] + h[k]))
            r += 8
    while r < hi:
        a = x[r]
        if kind == SUM:
            for k in range(column, width):
                out[k] += a[k]
        elif kind == MAX:
            for k in range(column, width):
                out[k] = a[k] if a[k] > out[k] else out[k]
        else:
            for k in range(column, width):
                out[k] = a[k] if a[k] < out[k] else out[k]
        r += 1


@nb.njit(cache=True, nogil=True)
def _by_columns(
    flat: Any, x: Any, lo: int, hi: int, kind: int, result: Any, row: int, lanes: int
) -> None:
    """Join rows lo..hi of x to the row of `result`, blocks of columns held in registers."""
    width = x.shape[1]
    to, out = row * width, result.reshape(-1)
    column = 0
    while column + lanes <= width:
        wide = column + v.BLOCK * lanes <= width
        for r in range(lo, hi, RUN):
            n, at = min(RUN, hi - r), r * width + column
            if kind == SUM:
                if wide:
                    _sum_block(flat, at, width, n, out, to + column)
                else:
                    _sum_vector(flat, at, width, n, out, to + column)
            elif kind == MAX:
                if wide:
                    _max_block(flat, at, width, n, out, to + column)
                else:
                    _max_vector(flat, at, width, n, out, to + column)
            elif wide:
                _min_block(flat, at, width, n, out, to + column)
            else:
                _min_vector(flat, at, width, n, out, to + column)
        column += v.BLOCK * lanes if wide else lanes
    if column < width:
        _by_rows(x, lo, hi, kind, result[row], column)


@nb.njit(cache=True, nogil=True)
def _join(
    flat: Any, x: Any, lo: int, hi: int, kind: int, result: Any, row: int, lanes: int
) -> None:
    """Join rows lo..hi of x to a row of `result`; `flat` is None where vectors do not apply."""
    if flat is None:
        _by_rows(x, lo, hi, kind, result[row], 0)
    elif x.shape[1] < WIDE:
        _by_columns(flat, x, lo, hi, kind, result, row, lanes)
    else:
        _by_rows(x, lo, hi, kind, result[row], 0)


@nb.njit(cache=True, nogil=True)
def bounds(offsets: Any, piece: int, pieces: int, rows: int, total: int) -> Any:
    """Return the rows of a piece and the segments that begin in it: start, stop, first, last."""
    starts = offsets[:-1]
    start, stop = piece * rows, min((piece + 1) * rows, total)
    first = np.searchsorted(starts, start)
    last = starts.size if piece == pieces - 1 else np.searchsorted(starts, stop)
    return start, stop, first, last


@nb.njit(cache=True, nogil=True)
def _single_values(
    x: Any,
    offsets: Any,
    kind: int,
    worst: Any,
    pad_value: Any,
    out: Any,
    lanes: int,
    stop: int,
    first: int,
    last: int,
) -> None:
    """Reduce segments first..last of single values x (N,), up to row `stop`."""
    lo = offsets[first]
    for s in range(first, last):
        end = offsets[s + 1]
        hi = min(end, stop)
        if lo == hi:
            out[s, 0] = pad_value
        elif kind == SUM:
            if hi - lo <= lanes and lo + lanes <= x.size:
                # Most often: one vector, without a loop around it.
                out[s, 0] = _sum_lanes(x, lo, hi - lo)
            else:
                out[s, 0] = _one_column(x, lo, hi, kind, worst, lanes)
        else:
            out[s, 0] = _one_column(x, lo + 1, hi, kind, x[lo], lanes)
        lo = end


@nb.njit(cache=True, nogil=True)
def _piece(
    flat: Any,
    x: Any,
    offsets: Any,
    kind: int,
    worst: Any,
    pad_value: Any,
    out: Any,
    parts: Any,
    lanes: int,
    piece: int,
    rows: int,
) -> None:
    start, stop, first, last = bounds(offsets, piece, parts.shape[0], rows, x.shape[0])
    parts[piece] = worst
    if flat is not None and x.shape[1] == 1:
        if start < offsets[first]:
            end = min(offsets[first], stop)
            parts[piece, 0] = _one_column(flat, start, end, kind, worst, lanes)
        _single_values(flat, offsets, kind, worst, pad_value, out, lanes, stop, first, last)
        return
    if start < offsets[first]:
        _join(flat, x, start, min(offsets[first], stop), kind, parts, piece, lanes)
    for s in range(first, last):
        lo, hi = offsets[s], min(offsets[s + 1], stop)
        if lo == hi:
            out[s] = pad_value
        elif kind == SUM:
            out[s] = 0
            _join(flat, x, lo, hi, kind, out, s, lanes)
        else:
            out[s] = x[lo]
            _join(flat, x, lo + 1, hi, kind, out, s, lanes)


@nb.njit(parallel=True, cache=True, nogil=True)
def reduce_rows(
    flat: Any,
    x: Any,
    offsets: Any,
    kind: int,
    worst: Any,
    pad_value: Any,
    out: Any,
    parts: Any,
    lanes: int,
    rows: int,
) -> None:
    """Reduce the segments of x (N, D) into out (S, D).

    Args:
        flat: x as (N * D,) where it holds float32 or float64, else None.
        worst: what loses against every value; 0 for a sum.
        parts: (pieces, D), a row for each piece; a piece has so many `rows`.
        lanes: values in a vector.
    """
    for piece in nb.prange(parts.shape[0]):
        _piece(flat, x, offsets, kind, worst, pad_value, out, parts, lanes, piece, rows)
    for piece in range(1, parts.shape[0]):
        start = piece * rows
        s = np.searchsorted(offsets[:-1], start) - 1
        if start < offsets[s + 1]:
            _by_rows(parts, piece, piece + 1, kind, out[s], 0)


@nb.njit(parallel=True, cache=True, nogil=True)
def divide_rows(out: Any, offsets: Any, root: bool) -> None:
    """Divide each sum by the length of its segment, or by the square root of it."""
    for s in nb.prange(out.shape[0]):
        length = offsets[s + 1] - offsets[s]
        if length:
            by = np.sqrt(length) if root else np.float64(length)
            for k in range(out.shape[1]):
                out[s, k] = out[s, k] / by


def pieces_of(x: Any) -> tuple[int, int]:
    """Return how many pieces the rows of x (N, D) are cut into, and the rows of a piece."""
    narrow = MOST_ROWS if x.shape[1] > 1 else PIECE
    rows = min(narrow, max(1, PIECE // max(1, x.shape[1])))
    return max(1, -(-x.shape[0] // rows)), rows
