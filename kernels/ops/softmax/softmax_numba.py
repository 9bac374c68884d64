"""Kernels of softmax: in the cache for each segment; in several passes over pieces for a long
one."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.ops.softmax import softmax_vectors_numba as vectors
from lodcli.kernels.simd.instructions import VECTOR_BYTES
from lodcli.kernels.simd.nontemporal_stores import settle
from lodcli.kernels.simd.row_partition_numba import segments_of_piece

# Copying the columns of fewer rows costs more than it saves.
_LEAST_COPIED = 16
# In wide rows, the same columns of many rows compete for lines of the caches.
_WIDE_BYTES, _LINE_BYTES = 1 << 10, 64
_bytes_each, _SIDE_BYTES, _RUN = vectors.bytes_each, vectors.SIDE_BYTES, vectors.RUN
_short, _short_bytes = vectors.short_forward, vectors.SHORT_BYTES
_single, _loose, _exact = vectors.single_forward, vectors.loose_forward, vectors.exact_forward
_loose_backward, _exact_backward = vectors.loose_backward, vectors.exact_backward
_forward, _backward = vectors.forward, vectors.backward
_streamed_forward, _streamed_backward = vectors.streamed_forward, vectors.streamed_backward
_copied_forward, _copied_backward = vectors.copied_forward, vectors.copied_backward
_tops, _powers, _finish = vectors.tops, vectors.powers, vectors.finish
_flows, _back = vectors.flows, vectors.back


@function(inline="always")
def _many(size: int, step: int) -> int:
    """Return the greatest multiple of `step` below `size`."""
    # A division takes longer than the exponentials of a short segment.
    return (size - 1) & -step if step & (step - 1) == 0 else (size - 1) // step * step


@function(inline="always")
def _aligned(at: int) -> int:
    """Return the first address of a line from `at` on."""
    return (at + VECTOR_BYTES - 1) & -VECTOR_BYTES


@function(inline="always")
def _most_copied(room: int, to: int, each: int, wide: bool) -> int:
    """Return the maximum number of rows of a segment that is copied.

    In wide rows, lines hold whole values; other rows begin with a line.
    """
    return 0 if to % (each if wide else _LINE_BYTES) else room // (2 * _SIDE_BYTES // each)


@kernel(types=FLOATS)
def rows(
    x: Pointer[T], offsets: Pointer[np.int64], spare: Pointer[T], out: Pointer[T], segments: int,
    width: int, log: bool, most: int, room: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Softmax of rows, segment by segment; return 1 if one with more than `most` rows was skipped.

    Args:
        spare: (pieces, room) for a copy of some columns of a segment of wide rows.
    """
    skipped, lanes = 0, VECTOR_BYTES // _bytes_each(x)
    wide = width * _bytes_each(x) >= _WIDE_BYTES
    copied = _most_copied(room, address(out), _bytes_each(x), wide)
    least = _LEAST_COPIED if wide else 1
    step = lanes // width * width  # the values of as many whole rows as fit a vector
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        stop = offsets[after] * width
        for s in range(begin, after):
            lo, count = offsets[s] * width, offsets[s + 1] - offsets[s]
            if count > most:
                skipped = 1
                continue
            at, to, size = address(x + lo), address(out + lo), count * width
            if step == 0 and least <= count <= copied:
                copy = _aligned(address(spare + piece * room))
                if wide:
                    _copied_forward(to, at, 0, copy, count, width, log, x)
                else:
                    _streamed_forward(to, at, 0, copy, count, width, log, x)
            elif step == 0:
                _forward(to, at, 0, 0, count, width, log, x)
            elif count:
                many = _many(size, step)
                # Writes beyond a segment are overwritten by the next segment of this piece.
                if lo + size + lanes > stop:
                    _exact(to, at, 0, size, many, width, step, log, x)
                elif width == 1 and size * _bytes_each(x) <= _short_bytes:
                    _short(to, at, 0, size, many, width, step, log, x)
                elif width == 1:
                    _single(to, at, 0, size, many, width, step, log, x)
                else:
                    _loose(to, at, 0, size, many, width, step, log, x)
    if room > 0:
        settle()
    return skipped


@kernel(types=FLOATS)
def gradient(
    flow: Pointer[T], y: Pointer[T], offsets: Pointer[np.int64], spare: Pointer[T], out: Pointer[T],
    segments: int, width: int, log: bool, most: int, room: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Gradient of softmax; return 1 if a segment with more than `most` rows was skipped."""
    skipped, lanes = 0, VECTOR_BYTES // _bytes_each(y)
    wide = width * _bytes_each(y) >= _WIDE_BYTES
    copied = _most_copied(room, address(out), _bytes_each(y), wide)
    least = _LEAST_COPIED if wide else 1
    step = lanes // width * width
    run = _RUN * step
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        stop = offsets[after] * width
        for s in range(begin, after):
            lo, count = offsets[s] * width, offsets[s + 1] - offsets[s]
            if count > most:
                skipped = 1
                continue
            up, own, to = address(flow + lo), address(y + lo), address(out + lo)
            size = count * width
            if step == 0 and least <= count <= copied:
                copy = _aligned(address(spare + piece * room))
                if wide:
                    _copied_backward(to, up, own, copy, count, width, log, y)
                else:
                    _streamed_backward(to, up, own, copy, count, width, log, y)
            elif step == 0:
                _backward(to, up, own, 0, count, width, log, y)
            elif count:
                many = _many(size, step)
                if lo + size + lanes > stop or many > run:
                    _exact_backward(to, up, own, size, many, width, step, log, y)
                else:
                    _loose_backward(to, up, own, size, many, width, step, log, y)
    if room > 0:
        settle()
    return skipped


# -- One long segment: `rows` rows, `piece_rows` of them a piece ------------------------


@function(inline="always")
def _part(piece: int, rows: int, piece_rows: int) -> Any:
    """Return where a piece begins, and how many rows it has."""
    lo = piece * piece_rows
    return lo, min(piece_rows, rows - lo)


@kernel(types=FLOATS)
def long_tops(
    x: Pointer[T], tops: Pointer[T], rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the maxima of every piece: (pieces, width)."""
    for piece in range(first, last):
        lo, count = _part(piece, rows, piece_rows)
        at, to = address(x + lo * width), address(tops + piece * width)
        _tops(to, at, 0, 0, count, width, False, x)
    return 0


@kernel(types=FLOATS)
def long_powers(
    x: Pointer[T], out: Pointer[T], top: Pointer[T], sums: Pointer[T], rows: int, width: int,
    piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the exponentials, and their sums over every piece: (pieces, width)."""
    for piece in range(first, last):
        lo, count = _part(piece, rows, piece_rows)
        at, to = address(x + lo * width), address(out + lo * width)
        total = address(sums + piece * width)
        _powers(to, at, address(top), total, count, width, False, x)
    return 0


@kernel(types=FLOATS)
def long_finish(
    x: Pointer[T], out: Pointer[T], top: Pointer[T], by: Pointer[T], rows: int, width: int,
    log: bool, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Multiply the exponentials by `by`, or subtract it from the values for logarithms."""
    for piece in range(first, last):
        lo, count = _part(piece, rows, piece_rows)
        at, to = address(x + lo * width), address(out + lo * width)
        _finish(to, at, address(top), address(by), count, width, log, x)
    return 0


@kernel(types=FLOATS)
def long_flows(
    flow: Pointer[T], y: Pointer[T], sums: Pointer[T], rows: int, width: int, log: bool,
    piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the sums of the gradient over every piece: (pieces, width)."""
    for piece in range(first, last):
        lo, count = _part(piece, rows, piece_rows)
        up, own = address(flow + lo * width), address(y + lo * width)
        total = address(sums + piece * width)
        _flows(total, up, own, 0, count, width, log, y)
    return 0


@kernel(types=FLOATS)
def long_gradient(
    flow: Pointer[T], y: Pointer[T], total: Pointer[T], out: Pointer[T], rows: int, width: int,
    log: bool, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient from the sums over all rows."""
    for piece in range(first, last):
        lo, count = _part(piece, rows, piece_rows)
        up, own = address(flow + lo * width), address(y + lo * width)
        to = address(out + lo * width)
        _back(to, up, own, address(total), count, width, log, y)
    return 0
