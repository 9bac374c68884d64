"""Rows moved in ranges, whatever they hold: as bytes, by threads that take equal stretches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, result_array
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.runtime.numba_threads import run
from lodcli.kernels.simd import byte_moves as moves
from lodcli.kernels.simd import nontemporal_stores as streams
from lodcli.kernels.simd.nontemporal_stores import streamed, streamed_rows

PIECE_BYTES = 1 << 18
_PAGE = 1 << 12
_copy, _copy_backwards, _at = moves.copy, moves.copy_backwards, moves.segment_at
_AHEAD, _fetch, _FETCHED_BYTES = moves.AHEAD, moves.fetch, moves.FETCHED_BYTES
_LINE = moves.VECTOR_BYTES
_number_at = moves.number_at
_begin, _append, _finish = streams.begin, streams.append, streams.finish


def address(array: Array) -> int:
    """Return where an array lies: as `ctypes.data` does, in half the time."""
    return int(array.__array_interface__["data"][0])


def row_bytes(rows: Array) -> int:
    """Return the bytes of one row of an array."""
    return int(rows.nbytes // max(1, rows.shape[0]))


def rows_a_piece(width: int) -> int:
    """Return how many rows of so many bytes make a piece of work."""
    return max(1, PIECE_BYTES // max(1, width))


def frozen(index: Offsets) -> Offsets:
    """Return a read-only view of whole numbers: one type, and one compiled version, for all."""
    view = np.ascontiguousarray(index).view()
    view.flags.writeable = False
    return view


def gather_ranges(
    data: Array,
    starts: Offsets,
    offsets: Offsets,
    *,
    backwards: bool = False,
    out: Array | None = None,
) -> Array:
    """Return rows starts[i] and on, as rows offsets[i]..offsets[i+1] of the result.

    Args:
        data: (N, ...), any dtype.
        starts: (K,) int64, the first row of each range; its last where `backwards`.
        offsets: (K+1,) int64, where the ranges lie in the result.
        backwards: each range runs towards row 0.
        out: where they go; by default a new array.
    """
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    if result.size:
        rows, width = flat_rows(data), row_bytes(result)
        move = _reverse if backwards else _gather
        run(
            *(move, 2 * result.nbytes),
            *(address(rows), rows.nbytes, frozen(starts), frozen(offsets)),
            *(address(result), width, rows_a_piece(width)),
            streamed_rows(result.nbytes, len(result))
            if backwards
            else streamed(result.nbytes, starts.size),
        )
    return result


def gather_first(data: Array, stride: int, offsets: Offsets, out: Array | None) -> Array:
    """Return the first rows of every `stride` rows, as many as `offsets` say."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    if result.size:
        rows, width = flat_rows(data), row_bytes(result)
        run(
            *(_gather_first, 2 * result.nbytes),
            *(address(rows), rows.nbytes, stride, frozen(offsets)),
            *(address(result), width, rows_a_piece(width)),
            streamed(result.nbytes, offsets.size - 1),
        )
    return result


def interleave_ranges(
    parts: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """Return range 0 of every part, then range 1 of every part, and so on.

    Args:
        parts: of equal dtype and row shape.
        offsets: for each part (K+1,) int64, its ranges.
    """
    shape = (sum(int(each[-1]) for each in offsets), *parts[0].shape[1:])
    result = result_array(out, shape, parts[0].dtype, *parts)
    if result.size:
        rows, width = [flat_rows(part) for part in parts], row_bytes(result)
        bounds = [frozen(each) for each in offsets]
        run(
            *(_interleave, 2 * result.nbytes),
            frozen(np.array([address(part) for part in rows])),
            frozen(np.array([part.nbytes for part in rows])),
            frozen(np.array([address(each) for each in bounds])),
            *(bounds[0].size - 1, address(result), width, rows_a_piece(width)),
            streamed(result.nbytes, len(parts) * (bounds[0].size - 1)),
        )
    return result


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _gather(
    at: int, size: int, starts: Any, offsets: Any,
    to: int, width: int, piece_rows: int, streamed: bool,
) -> None:  # fmt: skip
    total, end = offsets[-1], at + size
    for piece in numba.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i, stop = _at(offsets, row), to + stop_row * width
        line, held, full = _begin(to + row * width)
        # Slices, so that no index may be negative: numba would look at each.
        skipped, begins, ends = row - offsets[i], starts[i:], offsets[i + 1 :]
        for k in range(ends.size):
            after = min(ends[k], stop_row)
            source, n = at + (begins[k] + skipped) * width, (after - row) * width
            if streamed:
                line, held, full = _append(line, held, full, stop, source, at, end, n)
            else:
                _copy(to + row * width, stop, source, end, n)
            row, skipped = after, 0
            if row == stop_row:
                break
        if streamed:
            _finish(line, held, full)


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _gather_first(
    at: int, size: int, stride: int, offsets: Any,
    to: int, width: int, piece_rows: int, streamed: bool,
) -> None:  # fmt: skip
    total, end = offsets[-1], at + size
    for piece in numba.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i, stop = _at(offsets, row), to + stop_row * width
        line, held, full = _begin(to + row * width)
        while row < stop_row:
            after = min(offsets[i + 1], stop_row)
            source, n = at + (i * stride + row - offsets[i]) * width, (after - row) * width
            _fetch(at + (i + _AHEAD) * stride * width, n)
            if streamed:
                line, held, full = _append(line, held, full, stop, source, at, end, n)
            else:
                _copy(to + row * width, stop, source, end, n)
            row = after
            i += 1
        if streamed:
            _finish(line, held, full)


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _reverse(
    at: int, size: int, lasts: Any, offsets: Any,
    to: int, width: int, piece_rows: int, streamed: bool,
) -> None:  # fmt: skip
    total = offsets[-1]
    # Rows of short ranges are asked for ranges ahead, of others within the range.
    apart = _LINE * lasts.size < total * width < _PAGE * lasts.size
    for piece in numba.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        i, stop = _at(offsets, row), to + stop_row * width
        line, held, full = _begin(to + row * width)
        while row < stop_row:
            if apart:
                later = min(i + _AHEAD, lasts.size - 1)
                n = min((offsets[later + 1] - offsets[later]) * width, _FETCHED_BYTES)
                _fetch(at + (lasts[later] + 1) * width - n, n)
            after = min(offsets[i + 1], stop_row)
            end = at + (lasts[i] + 1 - (row - offsets[i])) * width
            if streamed:
                for left in range(after - row, 0, -1):
                    end -= width
                    if left > _AHEAD:
                        _fetch(end - _AHEAD * width, width)
                    line, held, full = _append(line, held, full, stop, end, at, at + size, width)
            else:
                _copy_backwards(to + row * width, stop, at, end, after - row, width)
            row = after
            i += 1
        if streamed:
            _finish(line, held, full)


@numba.njit(nogil=True, error_model="numpy")
def _rows_before(bounds: Any, i: int) -> int:
    """Return how many rows the ranges before number `i` have, of all parts."""
    total = 0
    for part in range(bounds.size):
        total += _number_at(bounds[part] + 8 * i)
    return total


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _interleave(
    ats: Any, sizes: Any, bounds: Any, ranges: int,
    to: int, width: int, piece_rows: int, streamed: bool,
) -> None:  # fmt: skip
    total = _rows_before(bounds, ranges)
    for piece in numba.prange((total + piece_rows - 1) // piece_rows):
        row, stop_row = piece * piece_rows, min((piece + 1) * piece_rows, total)
        stop, i, high = to + stop_row * width, 0, ranges
        while i < high:
            middle = (i + high + 1) >> 1
            if _rows_before(bounds, middle) <= row:
                i = middle
            else:
                high = middle - 1
        here = _rows_before(bounds, i)
        line, held, full = _begin(to + row * width)
        while row < stop_row:
            for part in range(ats.size):
                lo = _number_at(bounds[part] + 8 * i)
                after = here + _number_at(bounds[part] + 8 * (i + 1)) - lo
                if row < after:
                    n, at = min(after, stop_row) - row, ats[part]
                    source, end = at + (lo + row - here) * width, at + sizes[part]
                    if streamed:
                        line, held, full = _append(
                            line, held, full, stop, source, at, end, n * width
                        )
                    else:
                        _copy(to + row * width, stop, source, end, n * width)
                    row += n
                here = after
            i += 1
        if streamed:
            _finish(line, held, full)
