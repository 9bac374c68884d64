"""Kernels of softmax: a segment in the cache; a long one in several passes over pieces."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.ops.softmax import softmax_scalar_numba as powers
from lodcli.kernels.simd.exponential import FAST, exp
from lodcli.kernels.simd.instructions import VECTOR_BYTES
from lodcli.kernels.simd.row_partition_numba import segments_of_piece

# Values of narrow rows side by side; as many rows of which a segment has at least so many.
FOLDED, LEAST_FOLDS = 256, 4
_exp, _loose, _exact = exp, powers.softmax_loose, powers.softmax_exact


@kernel(types=("float32",))
def singles(
    x: Pointer[T],
    offsets: Pointer[np.int64],
    out: Pointer[T],
    segments: int,
    log: bool,
    most: int,
    pieces: int,
    first: int,
    last: int,
) -> int:
    """Softmax of single values, segment by segment; 1 if one had more than `most` and was left."""
    at, to, skipped = address(x), address(out), 0
    end = at + 4 * offsets[segments]
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        stop = to + 4 * offsets[after]
        for s in range(begin, after):
            lo, count = offsets[s], offsets[s + 1] - offsets[s]
            if count > most:
                skipped = 1
                continue
            source, here = at + 4 * lo, to + 4 * lo
            behind = 4 * count + VECTOR_BYTES
            # What is written behind a segment is overwritten by the next of this piece.
            if source + behind <= end and here + behind <= stop:
                if count:
                    _loose(here, source, count, log)
            elif count:
                _exact(here, source, count, log)
    return skipped


@kernel(types=FLOATS, fastmath=FAST)
def rows(
    x: Pointer[T],
    offsets: Pointer[np.int64],
    out: Pointer[T],
    scratch: Pointer[T],
    segments: int,
    width: int,
    log: bool,
    most: int,
    pieces: int,
    first: int,
    last: int,
) -> int:
    """Softmax of rows, segment by segment; 1 if one had more than `most` rows and was left.

    Args:
        scratch: (pieces, 2, max(width, FOLDED)).
    """
    skipped = 0
    room = max(width, FOLDED)
    greatest = scratch + 2 * first * room
    total = greatest + room
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            lo, count = offsets[s], offsets[s + 1] - offsets[s]
            if count > most:
                skipped = 1
            elif count:
                _segment(x + lo * width, out + lo * width, count, width, greatest, total, log)
    return skipped


@function(fastmath=FAST)
def _segment(x: Any, out: Any, rows: int, width: int, greatest: Any, total: Any, log: bool) -> None:
    """Softmax of one segment; of narrow rows several side by side, as one wide row.

    A loop over few columns takes longer to begin than to run. How many are side by side depends on
    the segment alone.
    """
    side = max(1, min(FOLDED // width, rows // LEAST_FOLDS))
    size, step = rows * width, side * width
    parts = -(-rows // side)
    for k in range(step):
        greatest[k] = x[k]
        total[k] = 0
    for part in range(1, parts):
        row = x + part * step
        for k in range(min(step, size - part * step)):
            v = row[k]
            # A NaN is taken up, and spreads to the whole column.
            greatest[k] = greatest[k] if v <= greatest[k] else v
    for n in range(1, side):
        for k in range(width):
            v = greatest[n * width + k]
            greatest[k] = greatest[k] if v <= greatest[k] else v
    _spread(greatest, width, step)
    for part in range(parts):
        row, to = x + part * step, out + part * step
        for k in range(min(step, size - part * step)):
            power = _exp(row[k] - greatest[k])
            to[k] = power
            total[k] += power
    for n in range(1, side):
        for k in range(width):
            total[k] += total[n * width + k]
    for k in range(width):
        total[k] = np.log(total[k]) if log else 1 / total[k]
    _spread(total, width, step)
    for part in range(parts):
        row, to = x + part * step, out + part * step
        count = min(step, size - part * step)
        if log:
            for k in range(count):
                to[k] = (row[k] - greatest[k]) - total[k]
        else:
            for k in range(count):
                to[k] *= total[k]


@function()
def _spread(row: Any, width: int, step: int) -> None:
    """Repeat the first `width` values up to `step`."""
    for k in range(width, step):
        row[k] = row[k - width]


@kernel(types=FLOATS, fastmath=FAST)
def gradient(
    flow: Pointer[T],
    y: Pointer[T],
    offsets: Pointer[np.int64],
    out: Pointer[T],
    scratch: Pointer[T],
    segments: int,
    width: int,
    log: bool,
    most: int,
    pieces: int,
    first: int,
    last: int,
) -> int:
    """Gradient of softmax; 1 if a segment had more than `most` rows and was left.

    Args:
        scratch: (pieces, width).
    """
    skipped = 0
    total = scratch + first * width
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            lo, hi = offsets[s], offsets[s + 1]
            if hi - lo > most:
                skipped = 1
                continue
            if width == 1:
                # In a register: a total in memory costs its store and load for every row.
                total[0] = 0
                one = total[0]
                for r in range(lo, hi):
                    one += flow[r] if log else flow[r] * y[r]
                for r in range(lo, hi):
                    if log:
                        out[r] = flow[r] - _exp(y[r]) * one
                    else:
                        out[r] = y[r] * (flow[r] - one)
                continue
            for k in range(width):
                total[k] = 0
            for r in range(lo, hi):
                up, row = flow + r * width, y + r * width
                for k in range(width):
                    total[k] += up[k] if log else up[k] * row[k]
            for r in range(lo, hi):
                up, row, to = flow + r * width, y + r * width, out + r * width
                for k in range(width):
                    if log:
                        to[k] = up[k] - _exp(row[k]) * total[k]
                    else:
                        to[k] = row[k] * (up[k] - total[k])
    return skipped


# -- One long segment: `rows` rows, `piece_rows` of them a piece ------------------------


@kernel(types=FLOATS, fastmath=FAST)
def long_tops(
    x: Pointer[T],
    tops: Pointer[T],
    rows: int,
    width: int,
    piece_rows: int,
    first: int,
    last: int,
) -> int:
    """Write the greatest values of every piece: (pieces, width)."""
    for piece in range(first, last):
        lo, hi = piece * piece_rows, min((piece + 1) * piece_rows, rows)
        part, top = x + lo * width, tops + piece * width
        for k in range(width):
            top[k] = part[k]
        for r in range(1, hi - lo):
            row = part + r * width
            for k in range(width):
                v = row[k]
                # A NaN is taken up, and spreads to the whole column.
                top[k] = top[k] if v <= top[k] else v
    return 0


@kernel(types=FLOATS, fastmath=FAST)
def long_powers(
    x: Pointer[T],
    out: Pointer[T],
    top: Pointer[T],
    sums: Pointer[T],
    rows: int,
    width: int,
    piece_rows: int,
    first: int,
    last: int,
) -> int:
    """Write the powers, and their sums over every piece: (pieces, width)."""
    for piece in range(first, last):
        lo, hi = piece * piece_rows, min((piece + 1) * piece_rows, rows)
        total = sums + piece * width
        for k in range(width):
            total[k] = 0
        for r in range(lo, hi):
            row, to = x + r * width, out + r * width
            for k in range(width):
                power = _exp(row[k] - top[k])
                to[k] = power
                total[k] += power
    return 0


@kernel(types=FLOATS, fastmath=FAST)
def long_finish(
    x: Pointer[T],
    out: Pointer[T],
    top: Pointer[T],
    by: Pointer[T],
    rows: int,
    width: int,
    log: bool,
    piece_rows: int,
    first: int,
    last: int,
) -> int:
    """Divide the powers by their sums, or write the logarithms."""
    for r in range(first * piece_rows, min(last * piece_rows, rows)):
        row, to = x + r * width, out + r * width
        if log:
            for k in range(width):
                to[k] = (row[k] - top[k]) - by[k]
        else:
            for k in range(width):
                to[k] *= by[k]
    return 0


@kernel(types=FLOATS, fastmath=FAST)
def long_flows(
    flow: Pointer[T],
    y: Pointer[T],
    sums: Pointer[T],
    rows: int,
    width: int,
    log: bool,
    piece_rows: int,
    first: int,
    last: int,
) -> int:
    """Write what the gradient sums up over every piece: (pieces, width)."""
    for piece in range(first, last):
        lo, hi = piece * piece_rows, min((piece + 1) * piece_rows, rows)
        total = sums + piece * width
        for k in range(width):
            total[k] = 0
        for r in range(lo, hi):
            up, row = flow + r * width, y + r * width
            for k in range(width):
                total[k] += up[k] if log else up[k] * row[k]
    return 0


@kernel(types=FLOATS, fastmath=FAST)
def long_gradient(
    flow: Pointer[T],
    y: Pointer[T],
    total: Pointer[T],
    out: Pointer[T],
    rows: int,
    width: int,
    log: bool,
    piece_rows: int,
    first: int,
    last: int,
) -> int:
    """Write the gradient from the sums over all rows."""
    for r in range(first * piece_rows, min(last * piece_rows, rows)):
        up, row, to = flow + r * width, y + r * width, out + r * width
        for k in range(width):
            if log:
                to[k] = up[k] - _exp(row[k]) * total[k]
            else:
                to[k] = row[k] * (up[k] - total[k])
    return 0
