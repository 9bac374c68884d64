"""Rows moved in ranges, whatever they hold: as the widest whole words of their bits."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, result_array

PIECE_BYTES = 1 << 18


def words(data: Array) -> Array:
    """Return (N, W) words of the bits of the rows of `data`; a view if it is C-contiguous."""
    rows = flat_rows(data)
    width = rows.shape[1] * rows.dtype.itemsize
    for word in (np.uint64, np.uint32, np.uint16):
        if width % np.dtype(word).itemsize == 0 and rows.size:
            return rows.view(np.uint8).view(word)
    return rows.view(np.uint8)


def rows_a_piece(out: Array) -> int:
    """Return how many rows of `out` make a piece of work."""
    width = int(out.shape[1]) * out.dtype.itemsize
    return max(1, PIECE_BYTES // max(1, width))


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
        source, to = words(data), words(result)
        _copy(source, starts, offsets, to, rows_a_piece(to), -1 if backwards else 1)
    return result


@nb.njit(cache=True, nogil=True)
def copy_rows(source: Any, start: int, out: Any, to: int, count: int) -> None:
    """Copy `count` whole rows."""
    width = out.shape[1]
    a = source[start : start + count].reshape(count * width)
    b = out[to : to + count].reshape(count * width)
    for k in range(count * width):
        b[k] = a[k]


@nb.njit(parallel=True, cache=True, nogil=True)
def _copy(source: Any, starts: Any, offsets: Any, out: Any, rows: int, step: int) -> None:
    for piece in nb.prange((out.shape[0] + rows - 1) // rows):
        start, stop = piece * rows, min((piece + 1) * rows, out.shape[0])
        i = np.searchsorted(offsets, start, side="right") - 1
        while start < stop:
            n = min(offsets[i + 1], stop) - start
            first = starts[i] + (start - offsets[i]) * step
            if step == 1:
                copy_rows(source, first, out, start, n)
            elif out.shape[1] == 1:
                for k in range(n):
                    out[start + k, 0] = source[first - k, 0]
            else:
                for k in range(n):
                    copy_rows(source, first - k, out, start + k, 1)
            start += n
            i += 1


def scatter_ranges(data: Array, offsets: Offsets, to: Offsets, out: Array) -> None:
    """Write rows offsets[i]..offsets[i+1] of `data` to rows to[i] and on of `out`.

    Args:
        out: (M, ...), C-contiguous, of the dtype and row shape of `data`.
    """
    if data.size:
        source = words(data)
        _scatter(source, offsets, to, words(out), rows_a_piece(source))


@nb.njit(parallel=True, cache=True, nogil=True)
def _scatter(source: Any, offsets: Any, to: Any, out: Any, rows: int) -> None:
    for piece in nb.prange((source.shape[0] + rows - 1) // rows):
        start, stop = piece * rows, min((piece + 1) * rows, source.shape[0])
        i = np.searchsorted(offsets, start, side="right") - 1
        while start < stop:
            n = min(offsets[i + 1], stop) - start
            copy_rows(source, start, out, to[i] + (start - offsets[i]), n)
            start += n
            i += 1
