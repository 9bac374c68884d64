"""Kernels that copy row ranges as bytes, for any dtype, in pieces of equal size.

Arguments are the address and size in bytes of the source, and the address `to` of rows of `width`
bytes, `piece_rows` per piece. If `streamed`, non-temporal stores bypass the caches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.byte_moves import (
    AHEAD,
    FETCHED_BYTES,
    LONG_AHEAD,
    copy,
    copy_backwards,
    copy_row,
    fetch,
    fetch_far,
    number_at,
)
from lodcli.kernels.simd.instructions import VECTOR_BYTES
from lodcli.kernels.simd.nontemporal_stores import append, begin, finish
from lodcli.kernels.simd.row_partition_numba import segment_at

_PAGE = 1 << 12


@kernel()
def gather(
    at: int, size: int, starts: Pointer[np.int64], offsets: Pointer[np.int64], to: int, width: int,
    ranges: int, piece_rows: int, streamed: bool, scattered: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Copy rows from starts[i] on to rows offsets[i]..offsets[i+1]; prefetch `scattered` ones."""
    total, end = offsets[ranges], at + size
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i, stop = segment_at(offsets, ranges, row), to + stop_row * width
        line, held, full = begin(to + row * width)
        skipped = row - offsets[i]
        while row < stop_row:
            after = min(offsets[i + 1], stop_row)
            source, n = at + (starts[i] + skipped) * width, (after - row) * width
            if streamed:
                later = min(i + LONG_AHEAD, ranges - 1)
                fetch_far(at + starts[later] * width, (offsets[later + 1] - offsets[later]) * width)
                line, held, full = append(line, held, full, stop, source, at, end, n)
            else:
                if scattered:
                    later = min(i + AHEAD, ranges - 1)
                    fetch(at + starts[later] * width, (offsets[later + 1] - offsets[later]) * width)
                copy(to + row * width, stop, source, end, n)
            row, skipped = after, 0
            i += 1
        if streamed:
            finish(line, held, full)
    return 0


@kernel()
def gather_rows(
    at: int, size: int, places: Pointer[np.int64], to: int, width: int, rows: int, piece_rows: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Copy rows places[i] to rows i."""
    end = at + size
    for row in range(first * piece_rows, min(last * piece_rows, rows)):
        if width >= VECTOR_BYTES:
            fetch(at + places[min(row + AHEAD, rows - 1)] * width, width)
        here = to + row * width
        copy_row(here, here + width, at + places[row] * width, end, width)
    return 0


@kernel()
def place(
    at: int, size: int, starts: Pointer[np.int64], offsets: Pointer[np.int64], to: int, width: int,
    ranges: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Copy rows offsets[i]..offsets[i+1] to rows from starts[i] on; other rows are not written."""
    total, end = offsets[ranges], at + size
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i = segment_at(offsets, ranges, row)
        skipped = row - offsets[i]
        while row < stop_row:
            after = min(offsets[i + 1], stop_row)
            here, n = to + (starts[i] + skipped) * width, (after - row) * width
            copy_row(here, here + n, at + row * width, end, n)
            row, skipped = after, 0
            i += 1
    return 0


@kernel()
def gather_first(
    at: int, size: int, stride: int, offsets: Pointer[np.int64], to: int, width: int,
    ranges: int, piece_rows: int, streamed: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Copy every `stride`-th row to rows offsets[i]..offsets[i+1]."""
    total, end = offsets[ranges], at + size
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i, stop = segment_at(offsets, ranges, row), to + stop_row * width
        line, held, full = begin(to + row * width)
        while row < stop_row:
            after = min(offsets[i + 1], stop_row)
            source, n = at + (i * stride + row - offsets[i]) * width, (after - row) * width
            if streamed:
                later = min(i + LONG_AHEAD, ranges - 1)
                fetch_far(
                    at + later * stride * width, (offsets[later + 1] - offsets[later]) * width
                )
                line, held, full = append(line, held, full, stop, source, at, end, n)
            else:
                fetch(at + (i + AHEAD) * stride * width, n)
                copy(to + row * width, stop, source, end, n)
            row = after
            i += 1
        if streamed:
            finish(line, held, full)
    return 0


@kernel()
def reverse(
    at: int, size: int, lasts: Pointer[np.int64], offsets: Pointer[np.int64], to: int, width: int,
    ranges: int, piece_rows: int, streamed: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Copy rows from lasts[i] backwards to rows offsets[i]..offsets[i+1]."""
    total = offsets[ranges]
    # For short ranges, rows of later ranges are prefetched; else later rows of the same range.
    apart = VECTOR_BYTES * ranges < total * width < _PAGE * ranges
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i, stop = segment_at(offsets, ranges, row), to + stop_row * width
        line, held, full = begin(to + row * width)
        while row < stop_row:
            if apart:
                later = min(i + AHEAD, ranges - 1)
                n = min((offsets[later + 1] - offsets[later]) * width, FETCHED_BYTES)
                fetch(at + (lasts[later] + 1) * width - n, n)
            after = min(offsets[i + 1], stop_row)
            end = at + (lasts[i] + 1 - (row - offsets[i])) * width
            if streamed:
                following = at + (lasts[min(i + 1, ranges - 1)] - AHEAD) * width
                for left in range(after - row, 0, -1):
                    end -= width
                    fetch_far(
                        end - AHEAD * width if left > AHEAD else following + left * width, width
                    )
                    line, held, full = append(line, held, full, stop, end, at, at + size, width)
            else:
                copy_backwards(to + row * width, stop, at, end, after - row, width)
            row = after
            i += 1
        if streamed:
            finish(line, held, full)
    return 0


@function()
def _rows_before(table: Any, parts: int, i: int) -> int:
    """Return the number of rows of all parts in the ranges before number `i`."""
    total = 0
    for part in range(parts):
        total += number_at(table[3 * part + 2] + 8 * i)
    return total


@function()
def _range_of(table: Any, parts: int, ranges: int, row: int) -> int:
    """Return the range that contains a row of the joined parts."""
    low, high = 0, ranges
    while low < high:
        middle = (low + high + 1) >> 1
        if _rows_before(table, parts, middle) <= row:
            low = middle
        else:
            high = middle - 1
    return low


@kernel()
def part(table: Pointer[np.int64], number: int, rows: int, size: int, offsets: int) -> int:
    """Write the address and size of a part's rows, and the address of its offsets, to a table."""
    table[3 * number] = rows
    table[3 * number + 1] = size
    table[3 * number + 2] = offsets
    return 0


@kernel()
def interleave(
    table: Pointer[np.int64], parts: int, ranges: int, to: int, width: int, total: int,
    piece_rows: int, streamed: bool, first: int, last: int,
) -> int:  # fmt: skip
    """Copy range 0 of every part, then range 1 of every part, and so on.

    Args:
        table: as `part` writes it.
    """
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        stop, i = to + stop_row * width, _range_of(table, parts, ranges, row)
        here = _rows_before(table, parts, i)
        line, held, full = begin(to + row * width)
        while row < stop_row:
            for part in range(parts):
                at, size, bounds = table[3 * part], table[3 * part + 1], table[3 * part + 2]
                lo = number_at(bounds + 8 * i)
                after = here + number_at(bounds + 8 * (i + 1)) - lo
                if row < after:
                    n, end = min(after, stop_row) - row, at + size
                    source = at + (lo + row - here) * width
                    if streamed:
                        line, held, full = append(
                            line, held, full, stop, source, at, end, n * width
                        )
                    else:
                        copy(to + row * width, stop, source, end, n * width)
                    row += n
                here = after
            i += 1
        if streamed:
            finish(line, held, full)
    return 0


@kernel()
def separate(
    table: Pointer[np.int64], parts: int, ranges: int, at: int, size: int, width: int, total: int,
    piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Copy the rows that `interleave` joined back to their parts.

    Args:
        table: as `part` writes it.
    """
    end = at + size
    for piece in range(first, last):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i = _range_of(table, parts, ranges, row)
        # The previous ranges of each part continue in this piece.
        final = _range_of(table, parts, ranges, stop_row - 1)
        here = _rows_before(table, parts, i)
        while row < stop_row:
            for part in range(parts):
                part_rows, bounds = table[3 * part], table[3 * part + 2]
                lo = number_at(bounds + 8 * i)
                after = here + number_at(bounds + 8 * (i + 1)) - lo
                if row < after:
                    n = min(after, stop_row) - row
                    to, source = part_rows + (lo + row - here) * width, at + row * width
                    if i < final:
                        stop = part_rows + number_at(bounds + 8 * final) * width
                        copy(to, stop, source, end, n * width)
                    else:
                        stop = part_rows + table[3 * part + 1]
                        copy_row(to, stop, source, end, n * width)
                    row += n
                here = after
            i += 1
    return 0
