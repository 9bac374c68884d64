"""Copies of row ranges as bytes, for any dtype, in pieces of equal size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.common import result_array
from lodcli.kernels.runtime.buffers import empty

_INT64 = np.dtype(np.int64)
PIECE_BYTES = 1 << 18
# Results from so many bytes on bypass the caches: docs/decisions/0022-thresholds.md.
STREAMED_BYTES = 1 << 24
# Where ranges are shorter on average, or rows, assembling lines costs more than it saves.
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
    """Return how many rows of so many bytes, one or more, make a piece of work."""
    return PIECE_BYTES // width or 1


def streamed(size_bytes: int, ranges: int) -> bool:
    """Return whether a result of so many bytes and ranges bypasses the caches."""
    return size_bytes >= STREAMED_BYTES and size_bytes >= ranges * RANGE_BYTES


def streamed_rows(size_bytes: int, rows: int) -> bool:
    """Return whether a result of so many bytes, made of single rows, bypasses the caches."""
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
    """Return rows starts[i] and on, as rows offsets[i]..offsets[i+1] of the result.

    Args:
        data: (N, ...), any dtype.
        starts: (K,) int64, the first row of each range; its last where `backwards`.
        offsets: (K+1,) int64, where the ranges lie in the result.
        backwards: each range runs towards row 0.
        scattered: the ranges lie in no order: they are prefetched, which the processor cannot.
        out: where they go; by default a new array.
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
    """Return rows offsets[i]..offsets[i+1] put at starts[i] and on, and zeros elsewhere.

    Args:
        data: (N, ...), any dtype.
        starts: (K,) int64; no two ranges overlap.
        offsets: (K+1,) int64, where the ranges lie in `data`.
        count: of rows that are returned.
    """
    total, shape = offsets.item(-1), (count, *data.shape[1:])
    # Ranges that do not overlap leave nothing out if they have as many rows as there are.
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
    """Return the first rows of every `stride` rows, as many as `offsets` say."""
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
    parts: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
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
    """Return the parts again that `interleave_ranges` joined, each with as many rows as it had."""
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
    """Return what kernels read of several parts, (3 P,), and the arrays it has the addresses of.

    Args:
        parts: of any dtype.
        offsets: of each part (K+1,), its ranges.
    """
    # The kernel writes the addresses: Python takes longer to ask for them.
    held: list[Array] = []
    count = len(parts)
    table, write = np.empty(3 * count, _INT64), _part[""].call
    for number in range(count):  # not zip(.., strict=True), which takes longer for a few
        rows = np.ascontiguousarray(parts[number])
        bounds = np.ascontiguousarray(offsets[number])
        write(0, 1, table, number, rows, rows.nbytes, bounds)
        held += (rows, bounds)
    return table, held
