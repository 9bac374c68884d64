"""Kernels that move the rows of each segment by a lag, and subtract them.

`offsets` are those of the segments, `bounds` those of the differences: the same if rows without a
row `lag` before are `padded`; else these rows are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.byte_moves import copy
from lodcli.kernels.simd.nontemporal_stores import append, begin, finish
from lodcli.kernels.simd.row_partition_numba import segment_at


@kernel()
def shift(
    at: int, size: int, offsets: Pointer[np.int64], fill: int, fill_rows: int, to: int, width: int,
    segments: int, lag: int, piece_rows: int, streamed: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Write the row of `width` bytes `lag` before each row in its segment, or the fill row.

    Args:
        at, size: the rows.
        fill, fill_rows: copies of the fill row, and their number.
    """
    total = offsets[segments]
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        s, stop = segment_at(offsets, segments, row), to + stop_row * width
        line, held, full = begin(to + row * width)
        while row < stop_row:
            after = min(offsets[s + 1], stop_row)
            moved, ends = offsets[s] + max(lag, 0), offsets[s + 1] + min(lag, 0)
            while row < after:
                if moved <= row < ends:
                    count = min(ends, after) - row
                    start, source, end = at, at + (row - lag) * width, at + size
                else:
                    count = min(fill_rows, (min(moved, after) if row < moved else after) - row)
                    start, source, end = fill, fill, fill + fill_rows * width
                if streamed:
                    line, held, full = append(
                        line, held, full, stop, source, start, end, count * width
                    )
                else:
                    copy(to + row * width, stop, source, end, count * width)
                row += count
            s += 1
        if streamed:
            finish(line, held, full)
    return 0


@kernel(types=(*FLOATS, "int64"))
def diff(
    x: Pointer[T], offsets: Pointer[np.int64], bounds: Pointer[np.int64], fill: Pointer[T],
    out: Pointer[T], segments: int, width: int, lag: int, padded: bool, piece_rows: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write each row minus the row `lag` before it in its segment, or the row `fill`."""
    total = bounds[segments]
    before = max(lag, 0) if padded else 0
    behind = min(lag, 0) if padded else 0
    skipped = 0 if padded else max(lag, 0)
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        s = segment_at(bounds, segments, row)
        while row < stop_row:
            after = min(bounds[s + 1], stop_row)
            begins, ends = bounds[s] + before, bounds[s + 1] + behind
            ahead = offsets[s] - bounds[s] + skipped
            while row < after:
                if begins <= row < ends:
                    count = min(ends, after) - row
                    later = x + (row + ahead) * width
                    earlier = x + (row + ahead - lag) * width
                    _subtract(out + row * width, later, earlier, count * width)
                else:
                    count = 1
                    for k in range(width):
                        out[row * width + k] = fill[k]
                row += count
            s += 1
    return 0


@kernel(types=(*FLOATS, "int64"))
def diff_grad(
    flow: Pointer[T], offsets: Pointer[np.int64], bounds: Pointer[np.int64], out: Pointer[T],
    segments: int, width: int, lag: int, padded: bool, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of each row's own difference, minus that of the row `lag` after it."""
    total = offsets[segments]
    skipped = 0 if padded else max(lag, 0)
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        s = segment_at(offsets, segments, row)
        while row < stop_row:
            low, high = offsets[s], offsets[s + 1]
            after, ahead = min(high, stop_row), bounds[s] - low - skipped
            begins, ends = low + max(lag, 0), high + min(lag, 0)
            while row < after:
                own, others = begins <= row < ends, begins <= row + lag < ends
                # Up to the next row for which one of the two changes.
                until = _until(row, _until(row, after, begins), ends)
                until = _until(row, _until(row, until, begins - lag), ends - lag)
                count = (until - row) * width
                to, mine = out + row * width, flow + (row + ahead) * width
                theirs = flow + (row + ahead + lag) * width
                if own and others:
                    _subtract(to, mine, theirs, count)
                elif own:
                    for k in range(count):
                        to[k] = mine[k]
                elif others:
                    for k in range(count):
                        to[k] = 0 - theirs[k]
                else:
                    for k in range(count):
                        to[k] = 0
                row = until
            s += 1
    return 0


@function()
def _subtract(out: Any, a: Any, b: Any, count: int) -> None:
    for k in range(count):
        out[k] = a[k] - b[k]


@function()
def _until(row: int, until: int, change: int) -> int:
    """Return the row of a change if it is after `row` and before `until`; else `until`."""
    return change if row < change < until else until
