"""Extremes of segments and the rows they stand in, in pieces as in reduce.py."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from lodcli.kernels.on_numba import vectors as v
from lodcli.kernels.on_numba.reduce import MAX, bounds

_max_block, _max_vector = v.max_index_block, v.max_index_vector
_min_block, _min_vector = v.min_index_block, v.min_index_vector


@nb.njit(cache=True, nogil=True)
def _by_rows(x: Any, lo: int, hi: int, kind: int, out: Any, index: Any, column: int) -> None:
    for r in range(lo, hi):
        row = x[r]
        for k in range(column, x.shape[1]):
            better = row[k] > out[k] if kind == MAX else row[k] < out[k]
            out[k] = row[k] if better else out[k]
            index[k] = r if better else index[k]


@nb.njit(cache=True, nogil=True)
def _join(
    flat: Any, x: Any, lo: int, hi: int, kind: int, result: Any, index: Any, row: int, lanes: int
) -> None:
    """Join rows lo..hi of x to a row of `result`; `flat` is None where vectors do not apply."""
    column = 0
    if flat is not None:
        width = x.shape[1]
        to, out, places = row * width, result.reshape(-1), index.reshape(-1)
        while column + lanes <= width:
            at, here, n = lo * width + column, to + column, hi - lo
            wide = column + v.BLOCK * lanes <= width
            if kind == MAX:
                if wide:
                    _max_block(flat, at, width, n, out, places, here, lo)
                else:
                    _max_vector(flat, at, width, n, out, places, here, lo)
            elif wide:
                _min_block(flat, at, width, n, out, places, here, lo)
            else:
                _min_vector(flat, at, width, n, out, places, here, lo)
            column += v.BLOCK * lanes if wide else lanes
    if column < x.shape[1]:
        _by_rows(x, lo, hi, kind, result[row], index[row], column)


@nb.njit(cache=True, nogil=True)
def _piece(
    flat: Any,
    x: Any,
    offsets: Any,
    kind: int,
    worst: Any,
    pad_value: Any,
    out: Any,
    index: Any,
    parts: Any,
    part_index: Any,
    lanes: int,
    piece: int,
    rows: int,
) -> None:
    start, stop, first, last = bounds(offsets, piece, parts.shape[0], rows, x.shape[0])
    parts[piece] = worst
    part_index[piece] = -1
    if start < offsets[first]:
        end = min(offsets[first], stop)
        _join(flat, x, start, end, kind, parts, part_index, piece, lanes)
    for s in range(first, last):
        lo, hi = offsets[s], min(offsets[s + 1], stop)
        if lo == hi:
            for k in range(x.shape[1]):
                out[s, k] = pad_value
                index[s, k] = -1
        elif x.shape[1] == 1:
            value, at = x[lo, 0], lo
            for r in range(lo + 1, hi):
                if (kind == MAX and x[r, 0] > value) or (kind != MAX and x[r, 0] < value):
                    value, at = x[r, 0], r
            out[s, 0] = value
            index[s, 0] = at
        else:
            out[s] = x[lo]
            index[s] = lo
            _join(flat, x, lo + 1, hi, kind, out, index, s, lanes)


@nb.njit(parallel=True, cache=True, nogil=True)
def reduce_index_rows(
    flat: Any,
    x: Any,
    offsets: Any,
    kind: int,
    worst: Any,
    pad_value: Any,
    out: Any,
    index: Any,
    parts: Any,
    part_index: Any,
    lanes: int,
    rows: int,
) -> None:
    """Take the extremes of the segments of x (N, D) and their rows; see reduce.reduce_rows."""
    for piece in nb.prange(parts.shape[0]):
        _piece(
            *(flat, x, offsets, kind, worst, pad_value, out, index),
            *(parts, part_index, lanes, piece, rows),
        )
    for piece in range(1, parts.shape[0]):
        start = piece * rows
        s = np.searchsorted(offsets[:-1], start) - 1
        if start < offsets[s + 1]:
            for k in range(x.shape[1]):
                new, old = parts[piece, k], out[s, k]
                if (kind == MAX and new > old) or (kind != MAX and new < old):
                    out[s, k] = new
                    index[s, k] = part_index[piece, k]
