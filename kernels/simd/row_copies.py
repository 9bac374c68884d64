"""Copies of row ranges as bytes, for any dtype, in pieces of equal size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.runtime.buffers import empty

_INT64 = np.dtype(np.int64)
PIECE_BYTES = 1 << 18
# Results of at least this size bypass the caches: docs/decisions/0022-thresholds.md.
STREAMED_BYTES = 1 << 24
# Minimum average size of ranges, or of single rows, for bypassing the caches: for shorter ones,
# assembling cache lines costs more than it saves.
RANGE_BYTES = 1 << 8
ROW_BYTES = 64

_MODULE = "kernels.simd.row_copies_numba"
_gather, _gather_first, _gather_rows, _place, _reverse, _part, _interleave, _separate = (
    load.kernel(_MODULE, name)
    for name in (
        *("gather", "gather_first", "gather_rows", "place", "reverse", "part", "interleave"),
        "separate",
    )
)


def row_bytes(rows: Array) -> int:
    """Return the bytes of one row of an array."""
    return int(rows.nbytes // max(1, rows.shape[0]))


def rows_a_piece(width: int) -> int:
    """Return the number of rows of a piece of work, at least 1, for rows of `width` bytes."""
    return PIECE_BYTES // width or 1


def streamed(size_bytes: int, ranges: int) -> bool:
    """Return whether a result of this size and number of ranges bypasses the caches."""
    return size_bytes >= STREAMED_BYTES and size_bytes >= ranges * RANGE_BYTES


def streamed_rows(size_bytes: int, rows: int) -> bool:
    """Return whether a result of this size, gathered row by row, bypasses the caches."""
    return size_bytes >= STREAMED_BYTES and size_bytes >= rows * ROW_BYTES


def gather_ranges(
    data: Array,
    starts: Offsets,
    offsets: Offsets,
    *,
    backwards: bool = False,
    scattered: bool = False,
    out: Array | None = None,
) -> Array:
    """Return the rows from starts[i] on as rows offsets[i]..offsets[i+1] of the result.

    Args:
        data: (N, ...), any dtype.
        starts: (K,) int64, the first row that is copied of each range.
        offsets: (K+1,) int64, of the ranges in the result.
        backwards: copy each range in reverse order, from starts[i] towards row 0.
        scattered: the ranges are in random order: prefetch them, since the hardware cannot.
        out: the array for the result; by default a new one.
    """
    total = offsets.item(-1)
    result = result_array(out, (total, *data.shape[1:]), data.dtype, data)
    if result.size:
        rows, size = np.ascontiguousarray(data), result.nbytes
        width = size // total
        piece_rows = rows_a_piece(width)
        kernels, how = _gather, [streamed(size, starts.size), scattered]
        if backwards:
            kernels, how = _reverse, [streamed_rows(size, total)]
        run(
            kernels[""], -(-total // piece_rows), 2 * size,
            rows, rows.nbytes, np.ascontiguousarray(starts),
            np.ascontiguousarray(offsets), result, width, starts.size, piece_rows,
            *how,
        )  # fmt: skip
    return result


def gather_rows(data: Array, places: Offsets) -> Array:
    """Return rows data[places].

    Args:
        data: (N, ...), any dtype.
        places: (K,) int64, the number of each row.
    """
    result = empty((places.size, *data.shape[1:]), data.dtype)
    if result.size:
        width = row_bytes(result)
        piece_rows = rows_a_piece(width)
        rows, size = np.ascontiguousarray(data), result.nbytes
        run(
            _gather_rows[""], -(-places.size // piece_rows), 2 * size + places.nbytes,
            rows, rows.nbytes, np.ascontiguousarray(places), result, width, places.size, piece_rows,
        )  # fmt: skip
    return result


def place_ranges(data: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """Return zeros with rows offsets[i]..offsets[i+1] of data copied to starts[i] and on.

    Args:
        data: (N, ...), any dtype.
        starts: (K,) int64; no two ranges overlap.
        offsets: (K+1,) int64, of the ranges in `data`.
        count: number of rows of the result.
    """
    total, shape = offsets.item(-1), (count, *data.shape[1:])
    # Ranges that do not overlap cover the result if they have as many rows.
    result = empty(shape, data.dtype) if total == count else np.zeros(shape, data.dtype)
    if data.size:
        rows, size = np.ascontiguousarray(data), data.nbytes
        width = size // total
        piece_rows = rows_a_piece(width)
        run(
            _place[""], -(-total // piece_rows), 2 * size,
            rows, size, np.ascontiguousarray(starts), np.ascontiguousarray(offsets),
            result, width, starts.size, piece_rows,
        )  # fmt: skip
    return result


def gather_first(data: Array, stride: int, offsets: Offsets, out: Array | None) -> Array:
    """Return the first offsets[i+1] - offsets[i] rows of the i-th `stride` rows, for each i."""
    total, ranges = offsets.item(-1), offsets.size - 1
    result = result_array(out, (total, *data.shape[1:]), data.dtype, data)
    if result.size:
        rows, size = np.ascontiguousarray(data), result.nbytes
        width = size // total
        piece_rows = rows_a_piece(width)
        run(
            _gather_first[""], -(-total // piece_rows), 2 * size, rows, rows.nbytes,
            stride, np.ascontiguousarray(offsets), result, width, ranges,
            piece_rows, streamed(size, ranges),
        )  # fmt: skip
    return result


def interleave_ranges(
    parts: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None
) -> Array:
    """Return range 0 of every part, then range 1 of every part, and so on.

    Args:
        parts: of equal dtype and row shape.
        offsets: for each part (K+1,) int64, its ranges.
    """
    total, ranges = sum([each.item(-1) for each in offsets]), offsets[0].size - 1
    result = result_array(out, (total, *parts[0].shape[1:]), parts[0].dtype, *parts)
    if result.size:
        size = result.nbytes
        table, held = part_table(parts, offsets)
        width = size // total
        piece_rows = rows_a_piece(width)
        run(
            _interleave[""], -(-total // piece_rows), 2 * size,
            table, len(parts), ranges, result, width, total, piece_rows,
            streamed(size, len(parts) * ranges),
        )  # fmt: skip
        del held
    return result


def separate_ranges(rows: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """Return the parts that were joined: the inverse of `interleave_ranges`."""
    parts = [empty((each.item(-1), *rows.shape[1:]), rows.dtype) for each in offsets]
    if rows.size:
        given, size, total = np.ascontiguousarray(rows), rows.nbytes, rows.shape[0]
        table, held = part_table(parts, offsets)
        width = size // total
        piece_rows = rows_a_piece(width)
        run(
            _separate[""], -(-total // piece_rows), 2 * size,
            table, len(parts), offsets[0].size - 1, given, size, width, total, piece_rows,
        )  # fmt: skip
        del held
    return parts


def part_table(parts: Sequence[Array], offsets: Sequence[Offsets]) -> tuple[Offsets, list[Array]]:
    """Return a table for kernels of P parts, (3 P,) int64, and the arrays that it has addresses of.

    Args:
        parts: of any dtype.
        offsets: for each part (K+1,), its ranges.
    """
    # A kernel writes the addresses, which is faster than getting them in Python.
    held: list[Array] = []
    count = len(parts)
    table, write = np.empty(3 * count, _INT64), _part[""].call
    for number in range(count):  # faster than zip(.., strict=True) for a few
        rows = np.ascontiguousarray(parts[number])
        bounds = np.ascontiguousarray(offsets[number])
        write(0, 1, table, number, rows, rows.nbytes, bounds)
        held += (rows, bounds)
    return table, held
