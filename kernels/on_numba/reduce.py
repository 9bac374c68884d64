"""Segments reduced in pieces of the rows, so that threads share even one giant segment.

The rows are cut at fixed places, whatever the number of threads. A segment is the part of it in
the piece that it begins in, joined in order with its parts in the pieces after: so the result
does not depend on the threads, bit for bit. A thread takes neighbouring pieces; parts of a
segment that began in another thread's wait in rows of their own, to be joined at the end.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.extending import overload

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba import reductions, scalars
from lodcli.kernels.on_numba.copying import address, frozen
from lodcli.kernels.on_numba.moves import segment_at as _at
from lodcli.kernels.on_numba.threads import run
from lodcli.kernels.on_numba.vectors import BLOCK, FIRST, MORE, NEXT, VECTOR_BYTES, divide, lanes_of

# What is computed is told by a type, so that each compiled version holds only its own.
SUM, EXTREME, INDEX = np.int8(0), np.int16(0), np.int32(0)
PLAIN, MEAN, ROOT = 0, 1, 2
PIECE = 1 << 17  # values in a piece
RUN = 256  # rows or vectors summed before joining the total: rounding grows with this
CACHED_BYTES = 1 << 14  # rows read again for other columns while they are in the nearest cache
LEAST_ROWS = 16
# Rows as wide as this put the same columns in the same few places of the cache, so that only
# some rows are taken down a block; extremes, which wait for no addition, go row by row.
WIDE_BYTES = 1 << 12
WIDE_ROWS = {nb.int8: 8, nb.int16: 1, nb.int32: 16}
_put, _value_at, _divide_row = scalars.put, scalars.value_at, divide
_kernels = {
    nb.int8: reductions.SUMS,
    nb.int16: reductions.EXTREMES,
    nb.int32: reductions.INDEXES,
}


def reduce_rows(
    kind: Any,
    rows: Array,
    offsets: Offsets,
    pad_value: Any,
    out: Array,
    *,
    least: bool = False,
    divided: int = PLAIN,
    index: Offsets | None = None,
) -> None:
    """Write one row for every segment of rows (N, D) to `out` (S, D).

    Args:
        kind: SUM, EXTREME or INDEX.
        rows: C-contiguous, numbers that numba knows.
        pad_value: of the dtype of `out`, for empty segments.
        out: C-contiguous; of the dtype of `rows`, for sums perhaps a wider one.
        least: the least instead of the greatest value.
        divided: PLAIN, MEAN: by the length, ROOT: by its square root.
        index: (S, D) int64, for INDEX: the rows of the extremes.
    """
    count, width = rows.shape
    piece_rows = max(LEAST_ROWS, PIECE // max(1, width))
    pieces = max(1, -(-count // piece_rows))
    parts = np.empty((pieces, width), out.dtype)
    places = np.empty(parts.shape, np.int64) if index is not None else np.empty((0, 0), np.int64)
    zero, total = rows.dtype.type(0), out.dtype.type(0)
    if not out.size:
        return
    run(
        *(_reduce, rows.nbytes + offsets.nbytes, kind, zero, total, pad_value),
        (rows.itemsize, out.itemsize),
        *(address(rows), count, width, frozen(offsets)),
        *(address(out), address(index) if index is not None else 0),
        *(address(parts), address(places), pieces, piece_rows),
        *(min(pieces, 4 * nb.get_num_threads()), _flip(rows.dtype) if least else 0, divided),
    )


def _flip(dtype: np.dtype[Any]) -> int:
    """Return the bits that turn the order of values round."""
    if dtype.kind != "f":
        return -1
    return 1 << 31 if dtype.itemsize == 4 else -(1 << 63)


def _part(
    kind: Any, to: int, index_to: int, at: int, row: int, rows: int, width: int, fresh: int,
    flip: int, zero: Any, total: Any,
) -> None:  # fmt: skip
    """Reduce so many rows, of which the first at `at` is number `row`, to the row at `to`."""
    raise NotImplementedError("for compiled code only")


@overload(_part)
def _part_of(
    kind: Any,
    to: Any,
    index_to: Any,
    at: Any,
    row: Any,
    rows: Any,
    width: Any,
    fresh: Any,
    flip: Any,
    zero: Any,
    total: Any,
) -> Any:
    block, vector, values, _ = _kernels[kind]
    value_bytes, total_bytes = zero.bitwidth // 8, total.bitwidth // 8
    lanes, wide_rows = lanes_of(total_bytes), WIDE_ROWS[kind]

    def part(
        kind: Any,
        to: Any,
        index_to: Any,
        at: Any,
        row: Any,
        rows: Any,
        width: Any,
        fresh: Any,
        flip: Any,
        zero: Any,
        total: Any,
    ) -> Any:
        if width <= lanes and lanes % width == 0:
            shift = 0
            while 1 << shift < width:
                shift += 1
            while rows > 0:
                n = min(rows, RUN * lanes // width)
                values(to, index_to, at, n * width, width, shift, row, fresh, flip, zero, total)
                fresh = MORE
                row += n
                rows -= n
                at += n * width * value_bytes
            return
        row_bytes = width * value_bytes
        most = RUN if width <= BLOCK * lanes else max(LEAST_ROWS, CACHED_BYTES // row_bytes)
        most = wide_rows if row_bytes >= WIDE_BYTES else most
        while rows > 0:
            n, k = min(rows, most), 0
            while k + BLOCK * lanes <= width:
                block(
                    to + k * total_bytes, index_to + k * 8, at + k * value_bytes, row_bytes, n,
                    0, row, fresh, flip, zero, total,
                )  # fmt: skip
                k += BLOCK * lanes
            while k < width:
                vector(
                    to + k * total_bytes, index_to + k * 8, at + k * value_bytes, row_bytes, n,
                    min(lanes, width - k), row, fresh, flip, zero, total,
                )  # fmt: skip
                k += lanes
            fresh = MORE
            row += n
            rows -= n
            at += n * row_bytes

    return part


def _shorts(
    kind: Any, s: int, limit: int, pad_value: Any, at: int, end: int, offsets: Any, to: int,
    index_to: int, flip: int, divided: int, zero: Any, total: Any,
) -> int:  # fmt: skip
    """Reduce short segments of single values from `s` on; return the first that is none, or
    does not lie before row `limit`."""
    raise NotImplementedError("for compiled code only")


@overload(_shorts)
def _shorts_of(
    kind: Any,
    s: Any,
    limit: Any,
    pad_value: Any,
    at: Any,
    end: Any,
    offsets: Any,
    to: Any,
    index_to: Any,
    flip: Any,
    divided: Any,
    zero: Any,
    total: Any,
) -> Any:
    single = _kernels[kind][3]
    value_bytes, total_bytes = zero.bitwidth // 8, total.bitwidth // 8
    indexed = kind == nb.int32
    most = RUN * lanes_of(total_bytes)

    def shorts(
        kind: Any,
        s: Any,
        limit: Any,
        pad_value: Any,
        at: Any,
        end: Any,
        offsets: Any,
        to: Any,
        index_to: Any,
        flip: Any,
        divided: Any,
        zero: Any,
        total: Any,
    ) -> Any:
        lo = offsets[s]
        while s < offsets.size - 1 and lo < limit:
            hi = offsets[s + 1]
            n = hi - lo
            if hi > limit or n > most:
                break
            here, index_here = to + s * total_bytes, index_to + s * 8
            if n == 0:
                _put(here, pad_value, total)
                if indexed:
                    _put(index_here, -1, 0)
            else:
                source = at + lo * value_bytes
                if source + n * value_bytes + VECTOR_BYTES > end:
                    break
                single(here, index_here, source, n, lo, flip, zero, total)
                if divided:
                    by = np.float64(n) if divided == MEAN else np.sqrt(np.float64(n))
                    _put(here, _value_at(here, total) / by, total)
            lo = hi
            s += 1
        return s

    return shorts


def _join(
    kind: Any, to: int, index_to: int, part: int, part_index: int, width: int, flip: int, total: Any
) -> None:
    """Join the row at `part` to the row at `to`."""
    raise NotImplementedError("for compiled code only")


@overload(_join)
def _join_of(
    kind: Any, to: Any, index_to: Any, part: Any, part_index: Any, width: Any, flip: Any, total: Any
) -> Any:
    size = total.bitwidth // 8

    def join(
        kind: Any,
        to: Any,
        index_to: Any,
        part: Any,
        part_index: Any,
        width: Any,
        flip: Any,
        total: Any,
    ) -> Any:
        _part(kind, to, 0, part, 0, 1, width, MORE, flip, total, total)

    def join_index(
        kind: Any,
        to: Any,
        index_to: Any,
        part: Any,
        part_index: Any,
        width: Any,
        flip: Any,
        total: Any,
    ) -> Any:
        for k in range(width):
            old, new = _value_at(to + k * size, total), _value_at(part + k * size, total)
            better = new > old if flip == 0 else new < old
            old_index, new_index = _value_at(index_to + k * 8, 0), _value_at(part_index + k * 8, 0)
            _put(to + k * size, new if better else old, total)
            _put(index_to + k * 8, new_index if better else old_index, 0)

    return join_index if kind == nb.int32 else join


@nb.njit(nogil=True, error_model="numpy")
def _divide(to: int, width: int, length: int, divided: int, total: Any) -> None:
    """Divide a sum by the length of its segment, or by the square root of it."""
    by = np.float64(length) if divided == MEAN else np.sqrt(np.float64(length))
    _divide_row(to, width, by, total)


@nb.njit(nogil=True, error_model="numpy")
def _chunk(
    kind: Any, zero: Any, total: Any, pad_value: Any, sizes: Any, at: int, start: int, stop: int,
    final: bool, width: int, offsets: Any, to: int, index_to: int, parts: int, places: int,
    piece_rows: int, flip: int, divided: int,
) -> None:  # fmt: skip
    """Reduce rows start..stop: the segments that begin there, and what is left of one before."""
    row_bytes, out_bytes = sizes[0] * width, sizes[1] * width
    first = _at(offsets, start)
    while first > 0 and offsets[first - 1] == start:
        first -= 1
    if offsets[first] < start:
        first += 1
        end = min(offsets[first], stop)
        while start < end:
            piece = start // piece_rows
            n = min(piece * piece_rows + piece_rows, end) - start
            part, place = parts + piece * out_bytes, places + piece * width * 8
            _part(
                kind, part, place, at + start * row_bytes, start, n, width, NEXT, flip, zero, total
            )
            start += n
    edge = start // piece_rows * piece_rows
    s = first - 1
    while True:
        s += 1
        if width == 1:
            limit, end = min(edge, stop), at + offsets[offsets.size - 1] * sizes[0]
            s = _shorts(
                kind,
                s,
                limit,
                pad_value,
                at,
                end,
                offsets,
                to,
                index_to,
                flip,
                divided,
                zero,
                total,
            )
        if s >= offsets.size - 1 or (offsets[s] >= stop and not final):
            break
        lo, hi = offsets[s], offsets[s + 1]
        here, index_here = to + s * out_bytes, index_to + s * width * 8
        if lo == hi:
            for k in range(width):
                _put(here + k * sizes[1], pad_value, total)
                if index_to:
                    _put(index_here + k * 8, -1, 0)
            continue
        end = min(hi, stop)
        while edge <= lo:
            edge += piece_rows
        n = min(edge, end) - lo
        _part(kind, here, index_here, at + lo * row_bytes, lo, n, width, FIRST, flip, zero, total)
        lo += n
        while lo < end:
            piece, n = lo // piece_rows, min(piece_rows, end - lo)
            part, place = parts + piece * out_bytes, places + piece * width * 8
            _part(kind, part, place, at + lo * row_bytes, lo, n, width, NEXT, flip, zero, total)
            _join(kind, here, index_here, part, place, width, flip, total)
            lo += n
        if divided and end == hi:
            _divide(here, width, hi - offsets[s], divided, total)


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _reduce(
    kind: Any, zero: Any, total: Any, pad_value: Any, sizes: Any, at: int, count: int, width: int,
    offsets: Any, to: int, index_to: int, parts: int, places: int, pieces: int, piece_rows: int,
    chunks: int, flip: int, divided: int,
) -> None:  # fmt: skip
    for chunk in nb.prange(chunks):
        start, stop = pieces * chunk // chunks, pieces * (chunk + 1) // chunks
        _chunk(
            kind, zero, total, pad_value, sizes, at, start * piece_rows,
            min(stop * piece_rows, count), chunk == chunks - 1, width, offsets, to, index_to,
            parts, places, piece_rows, flip, divided,
        )  # fmt: skip
    for chunk in range(1, chunks):
        piece = pieces * chunk // chunks
        stop = min(pieces * (chunk + 1) // chunks * piece_rows, count)
        s = _at(offsets, piece * piece_rows)
        if offsets[s] < piece * piece_rows:
            end = min(offsets[s + 1], stop)
            here, index_here = to + s * width * sizes[1], index_to + s * width * 8
            while piece * piece_rows < end:
                part, place = parts + piece * width * sizes[1], places + piece * width * 8
                _join(kind, here, index_here, part, place, width, flip, total)
                piece += 1
            if divided and offsets[s + 1] <= stop:
                _divide(here, width, offsets[s + 1] - offsets[s], divided, total)
