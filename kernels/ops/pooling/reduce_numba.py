"""Kernels of sums, extremes and their positions: threads share even a single long segment.

Every segment is split into pieces of a fixed number of rows from its own first row on, which are
reduced separately and joined in order. So its result depends neither on the threads nor on its
neighbours, bit for bit. A chunk is a range of rows and owns the pieces that begin there. Pieces of
a segment that began in another chunk are stored in rows of their own, and joined by a kernel that
runs after all chunks.

Integers are compared as signed; `flip` converts them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple

import numpy as np

from lodcli.kernels.native.declare import Pointer, T, U, kernel
from lodcli.kernels.native.language_numba import address, function, item_bytes
from lodcli.kernels.ops.pooling import reduce_loops_numba as reductions
from lodcli.kernels.simd import byte_moves as moves
from lodcli.kernels.simd import raw_memory as scalars
from lodcli.kernels.simd.instructions import VECTOR_BYTES
from lodcli.kernels.simd.row_partition_numba import segment_at
from lodcli.kernels.simd.vectors import FIRST, MORE, NEXT, divide

PLAIN, MEAN, ROOT = 0, 1, 2
RUN = 256  # rows or vectors per partial sum: rounding errors grow with this
_put, _value_at, _divide_row = scalars.put, scalars.value_at, divide
_fetch_line, _fetch_near, _fetch_far = moves.nearest, moves.fetch_near, moves.fetch_far
_copy_row, _word, _require = moves.copy_row, moves._word_4, moves.require

# Compiled dtypes; others: see reduce_native.py.
_SUMS = (
    *(("float32", "float32"), ("float64", "float64")),
    *(("int32", "int64"), ("int64", "int64"), ("uint8", "int64"), ("int16", "int64")),
)
_EXTREMES = tuple(
    (each, each) for each in ("float32", "float64", "int8", "int16", "int32", "int64")
)


class Rows(NamedTuple, Generic[T, U]):
    """The input and output of a reduction.

    Attributes:
        x: (rows, width).
        offsets: (segments + 1,).
        out: (segments, width).
        numbers: the rows of extremes, in the same shape, or none.
        pad: the value for empty segments.
        parts, places: (rows / piece_rows, width), rounded up: pending results; the piece that
            begins in row `lo` has row `lo // piece_rows`. These rows are unique, as the first piece
            of a segment is never pending.
        flip: the bits that turn the wanted extreme into the maximum of signed numbers.
        divided: PLAIN, MEAN (by the length) or ROOT (by its square root).
    """

    x: Pointer[T]
    offsets: Pointer[np.int64]
    out: Pointer[U]
    numbers: Pointer[np.int64]
    pad: Pointer[U]
    parts: Pointer[U]
    places: Pointer[np.int64]
    rows: int
    segments: int
    width: int
    piece_rows: int
    flip: int
    divided: int


@function()
def _divide(to: int, width: int, length: int, divided: int, total: Any) -> None:
    """Divide a sum by the length of its segment, or by the square root of it."""
    by = np.float64(length) if divided == MEAN else np.sqrt(np.float64(length))
    _divide_row(to, width, by, total(0))


@function()
def _next_piece(begin: int, row: int, piece_rows: int) -> int:
    """Return the start of the first piece at or after `row` of a segment that begins at
    `begin`."""
    return begin + -(-(row - begin) // piece_rows) * piece_rows


def _pieces(tools: Sequence[Any]) -> Callable[..., None]:
    """Return the function that reduces a piece of a segment; `tools` as in `_declare`."""
    quarter, half, vector, two, three, four, eight, sixteen, twenty_four = tools[:9]
    whole, values = tools[9], tools[11]
    # How many vectors of columns are processed at once: of up to 3, and of more.
    masked = 1 if three is vector else 3
    most = 4 if eight is four else 8 if sixteen is eight else 24

    @function()
    def part(
        to: int, index_to: int, at: int, row: int, rows: int, width: int, fresh: int, flip: int,
        value: Any, total: Any,
    ) -> None:  # fmt: skip
        """Reduce this many rows, the first of them at `at` with number `row`, to the row at `to`.

        Rows are read from end to end, which hardware prefetching favours. Partial results of rows
        too wide for registers stay in the L1 cache, at `to`.
        """
        value_bytes, total_bytes = item_bytes(value), item_bytes(total)
        lanes = VECTOR_BYTES // max(4, total_bytes)
        zero, like = value(0), total(0)
        if width <= lanes and lanes % width == 0:
            shift = 0
            while 1 << shift < width:
                shift += 1
            while rows > 0:
                n = min(rows, RUN * lanes // width)
                values(to, index_to, at, n * width, width, shift, row, fresh, flip, zero, like)
                fresh = MORE
                row += n
                rows -= n
                at += n * width * value_bytes
            return
        row_bytes = width * value_bytes
        while rows > 0:
            if fresh == MORE and width > most * lanes:
                whole(to, index_to, at, width, row, flip, zero, like)
                row += 1
                rows -= 1
                at += row_bytes
                continue
            n, k = min(rows, RUN if width <= most * lanes else 1), 0
            while k < width:
                to_k, index_k, at_k = to + k * total_bytes, index_to + k * 8, at + k * value_bytes
                count = min((most if width - k > 3 * lanes else masked) * lanes, width - k)
                if count > 16 * lanes:
                    twenty_four(
                        to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like
                    )
                elif count > 8 * lanes:
                    sixteen(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                elif count > 4 * lanes:
                    eight(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                elif count > 3 * lanes:
                    four(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                elif count > 2 * lanes:
                    three(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                elif count > lanes:
                    two(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                elif 2 * count > lanes:
                    vector(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                elif 4 * count > lanes:
                    half(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                else:
                    quarter(to_k, index_k, at_k, row_bytes, n, count, row, fresh, flip, zero, like)
                k += count
            fresh = MORE
            row += n
            rows -= n
            at += n * row_bytes

    return part  # type: ignore[no-any-return]


def _short_segments(single: Callable[..., None], indexed: bool) -> Callable[..., int]:
    """Return the function that reduces short segments of single values."""

    @function()
    def shorts(r: Any, s: int, stop: int, end: int, value: Any, total: Any) -> int:
        """Reduce short segments of single values from `s` on; return the first that is longer, or
        begins at or after row `stop`."""
        value_bytes, total_bytes = item_bytes(value), item_bytes(total)
        zero, like = value(0), total(0)
        most = RUN * (VECTOR_BYTES // max(4, total_bytes))
        at, to, index_to = address(r.x), address(r.out), address(r.numbers)
        lo = r.offsets[s]
        while s < r.segments and lo < stop:
            hi = r.offsets[s + 1]
            n = hi - lo
            if n > most:
                break
            here, index_here = to + s * total_bytes, index_to + s * 8
            if n == 0:
                _put(here, r.pad[0], like)
                if indexed:
                    _put(index_here, -1, 0)
            else:
                source = at + lo * value_bytes
                if source + n * value_bytes + VECTOR_BYTES > end:
                    break
                single(here, index_here, source, n, lo, r.flip, zero, like)
                if r.divided:
                    by = np.float64(n) if r.divided == MEAN else np.sqrt(np.float64(n))
                    _put(here, _value_at(here, like) / total(by), like)
            lo = hi
            s += 1
        return s

    return shorts  # type: ignore[no-any-return]


def _chunks(tools: Sequence[Any], indexed: bool) -> tuple[Callable[..., None], ...]:
    """Return the functions that reduce a chunk of rows, and that join a pending piece to its
    segment; `tools` as in `_declare`."""
    part, shorts = _pieces(tools), _short_segments(tools[12], indexed)
    joined = tools[10]

    @function()
    def wait(r: Any, lo: int, hi: int, value: Any, total: Any) -> int:
        """Reduce the piece at row `lo` of a segment that ends at `hi` to its pending row; return
        its rows."""
        width, slot = r.width, lo // r.piece_rows
        n: int = min(r.piece_rows, hi - lo)
        part(
            address(r.parts) + slot * width * item_bytes(total),
            address(r.places) + slot * width * 8,
            address(r.x) + lo * width * item_bytes(value), lo, n, width, NEXT, r.flip,
            value, total,
        )  # fmt: skip
        return n

    @function()
    def join_piece(r: Any, s: int, lo: int, total: Any) -> None:
        """Join the pending piece at row `lo` to its segment `s`."""
        out_bytes, index_bytes, slot = r.width * item_bytes(total), r.width * 8, lo // r.piece_rows
        joined(
            address(r.out) + s * out_bytes, address(r.numbers) + s * index_bytes,
            address(r.parts) + slot * out_bytes, r.width,
            address(r.places) + slot * index_bytes, r.flip, total(0), total(0),
        )  # fmt: skip

    @function()
    def chunk(r: Any, start: int, stop: int, final: bool, value: Any, total: Any) -> None:
        """Reduce the pieces that begin in rows start..stop."""
        width, offsets = r.width, r.offsets
        row_bytes, out_bytes = item_bytes(value) * width, item_bytes(total) * width
        at, to, index_to = address(r.x), address(r.out), address(r.numbers)
        first = segment_at(offsets, r.segments, start)
        while first > 0 and offsets[first - 1] == start:
            first -= 1
        if offsets[first] < start:
            lo, hi = _next_piece(offsets[first], start, r.piece_rows), offsets[first + 1]
            while lo < min(hi, stop):
                lo += wait(r, lo, hi, value, total)
            first += 1
        s = first - 1
        while True:
            s += 1
            if width == 1:
                end = at + offsets[r.segments] * item_bytes(value)
                s = shorts(r, s, stop, end, value, total)
            if s >= r.segments or (offsets[s] >= stop and not final):
                break
            lo, hi = offsets[s], offsets[s + 1]
            here, index_here = to + s * out_bytes, index_to + s * width * 8
            if lo == hi:
                for k in range(width):
                    _put(here + k * item_bytes(total), r.pad[0], total(0))
                    if indexed:
                        _put(index_here + k * 8, -1, 0)
                continue
            n = min(r.piece_rows, hi - lo)
            part(
                here, index_here, at + lo * row_bytes, lo, n, width, FIRST, r.flip, value, total,
            )  # fmt: skip
            lo += n
            while lo < min(hi, stop):
                n = wait(r, lo, hi, value, total)
                join_piece(r, s, lo, total)
                lo += n
            if r.divided and lo == hi:
                _divide(here, width, hi - offsets[s], r.divided, total)

    return chunk, join_piece


def _declare(name: str, tools: Sequence[Any], types: Sequence[Any]) -> None:
    """Declare the two kernels of a reduction.

    Args:
        tools: its functions for a quarter and half of a vector of columns, one to three vectors, 4,
            8, 16 and 24, rows, partial results, values, single values.
    """
    chunk, join_piece = _chunks(tools, indexed=name == "index")

    @kernel(name=name, types=types)
    def reduce(
        r: Rows[T, U], value: type[T], total: type[U], pieces: int, chunks: int,
        first: int, last: int,
    ) -> int:  # fmt: skip
        """Reduce chunks `first` to `last` of `chunks`."""
        for number in range(first, last):
            start, stop = pieces * number // chunks, pieces * (number + 1) // chunks
            chunk(
                r, start * r.piece_rows, min(stop * r.piece_rows, r.rows),
                number == chunks - 1, value, total,
            )  # fmt: skip
        return 0

    @kernel(name=f"{name}_join", types=types)
    def join_chunks(r: Rows[T, U], value: type[T], total: type[U], pieces: int, chunks: int) -> int:
        """After all chunks: join the pieces of segments that continue in later chunks."""
        for number in range(1, chunks):
            start = pieces * number // chunks * r.piece_rows
            stop = min(pieces * (number + 1) // chunks * r.piece_rows, r.rows)
            s = segment_at(r.offsets, r.segments, start)
            begin, hi = r.offsets[s], r.offsets[s + 1]
            lo = _next_piece(begin, start, r.piece_rows) if begin < start else hi
            if lo >= min(hi, stop):
                continue
            while lo < min(hi, stop):
                join_piece(r, s, lo, total)
                lo += r.piece_rows
            if r.divided and lo >= hi:
                _divide(
                    address(r.out) + s * r.width * item_bytes(total), r.width, hi - begin,
                    r.divided, total,
                )  # fmt: skip
        return 0


_declare("sum", reductions.SUMS, _SUMS)
_declare("extreme", reductions.EXTREMES, _EXTREMES)
_declare("index", reductions.INDEXES, _EXTREMES)


@function()
def _pick_words(
    to: int, at: int, end: int, offsets: Any, count: int, last_of: bool, fill: int
) -> None:
    """Copy the first or last row, in 4-byte words, of every segment; `fill` for an empty one."""
    for s in range(count):
        place = offsets[s + 1] - 1 if last_of else offsets[s]
        empty = offsets[s] == offsets[s + 1]
        source = fill if empty else at + 4 * place
        _require(to, to + 4 * count, source, fill + 4 if empty else end, 4)
        _word(to + 4 * s, source)


@kernel()
def pick(
    at: int, size: int, offsets: Pointer[np.int64], fill: int, last_of: bool, to: int, width: int,
    segments: int, piece_segments: int, ahead: int, near: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Copy the first or last row, of `width` bytes, of every segment; `fill` for an empty one.

    Args:
        size: number of bytes at `at`.
        ahead: prefetch distance in segments; 0 for none.
        near: prefetch into the L1 cache instead of L2, and rows of the result as well.
    """
    end, back = at + size, 1 if last_of else 0
    if width == 4 and not ahead:
        begin = first * piece_segments
        count = min(last * piece_segments, segments) - begin
        _pick_words(to + 4 * begin, at, end, offsets + begin, count, last_of, fill)
        return 0
    for s in range(first * piece_segments, min(last * piece_segments, segments)):
        if ahead:
            later = min(s + ahead, segments - 1)
            following = at + (offsets[later + back] - back) * width
            if near and width >= VECTOR_BYTES:
                _fetch_near(following, width)
                _fetch_near(to + (s + ahead) * width, width)
            elif near:
                _fetch_line(following)
                _fetch_line(following + width - 1)
            else:
                _fetch_far(following, width)
        empty = offsets[s] == offsets[s + 1]
        source = fill if empty else at + (offsets[s + back] - back) * width
        here = to + s * width
        _copy_row(here, here + width, source, fill + width if empty else end, width)
    return 0
