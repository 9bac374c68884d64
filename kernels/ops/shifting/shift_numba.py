"""Kernels that move the rows of each segment by a lag, and subtract them.

`offsets` are those of the segments, `bounds` those of the differences: the same if rows without a
row `lag` before are `padded`; else these rows are left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import CHECKED, Emitter, data_of, emits, function
from lodcli.kernels.runtime.jit_numba import ir, types
from lodcli.kernels.simd.byte_moves import copy
from lodcli.kernels.simd.instructions import VECTOR_BYTES, load, store
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
    out: Pointer[T], rows: int, segments: int, width: int, lag: int, padded: bool, lanes: int,
    piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write each row minus the row `lag` before it in its segment, or the row `fill`.

    Args:
        rows: of x.
        lanes: number of values in a vector.
    """
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
                    later, earlier = row + ahead, row + ahead - lag
                    room = min(stop_row - row, rows - max(later, earlier)) * width
                    to, a, b = out + row * width, x + later * width, x + earlier * width
                    _subtract(to, a, b, count * width, room, lanes)
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
    rows: int, segments: int, width: int, lag: int, padded: bool, lanes: int, piece_rows: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of each row's own difference, minus that of the row `lag` after it.

    Args:
        rows: of `flow`.
        lanes: number of values in a vector.
    """
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
                    room = min(stop_row - row, rows - (row + ahead + max(lag, 0))) * width
                    _subtract(to, mine, theirs, count, room, lanes)
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


@emits(types.void, None, None, None, types.int64)
def _subtract_vector(on: Emitter, out: Any, a: Any, b: Any, k: Any) -> None:
    """Write a vector of differences, from value k on."""
    builder, dtype = on.builder, on.kinds[0].dtype
    size = dtype.bitwidth // 8
    vector = ir.VectorType(on.context.get_data_type(dtype), VECTOR_BYTES // size)
    to, *places = (
        builder.bitcast(builder.gep(data_of(builder, one), [k]), vector.as_pointer())
        for one in (out, a, b)
    )
    minus = builder.fsub if isinstance(dtype, types.Float) else builder.sub
    store(builder, minus(*(load(builder, place, size) for place in places)), to, size)


@function()
def _subtract(out: Any, a: Any, b: Any, count: int, room: int, lanes: int) -> None:
    """Write differences; beyond them, up to `room`, values that are overwritten later.

    A loop over a few values, as of a short segment, would take longer than one vector.
    """
    if not CHECKED and (count + lanes - 1) & -lanes <= room:
        k = 0
        while k < count:
            _subtract_vector(out, a, b, k)
            k += lanes
        return
    for k in range(count):
        out[k] = a[k] - b[k]


@function()
def _until(row: int, until: int, change: int) -> int:
    """Return the row of a change if it is after `row` and before `until`; else `until`."""
    return change if row < change < until else until
