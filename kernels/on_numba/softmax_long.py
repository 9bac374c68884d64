"""Softmax of one long segment: its rows are shared out among all threads, pass by pass.

The pieces are the same whatever the number of threads, and so is the result, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numba as nb
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.exponential import FAST, exp

# A segment is long if it has more than one part in so many of all rows, and enough of them.
SHARE = 32
LEAST_VALUES = 1 << 18
PIECE_VALUES = 1 << 15
FOLD = 64  # values side by side where rows are narrow
_exp = exp


def longest(rows: Array) -> int:
    """Return how many rows a segment may have that is not long."""
    width = max(1, int(rows.shape[1]))
    return max(LEAST_VALUES // width, int(rows.shape[0]) // SHARE)


def long_segments(offsets: Offsets, most: int) -> Iterator[slice]:
    """Yield the rows of the segments that have more than `most`."""
    for s in np.flatnonzero(np.diff(offsets) > most):
        yield slice(int(offsets[s]), int(offsets[s + 1]))


def softmax_long(x: Array, out: Array, *, log: bool) -> None:
    """Write the softmax of all rows x (N, D), or its logarithm, to `out`."""
    width = x.shape[1]
    parts = list(zip(_folded(x), _folded(out), strict=True))
    tops = [_by_pieces(_tops, part.shape[1], part, x.dtype) for part, _ in parts]
    top = np.concatenate([each.reshape(-1, width) for each in tops]).max(axis=0)
    sums = [_by_pieces(_powers, p.shape[1], (p, to, _wide(top, p)), x.dtype) for p, to in parts]
    total = np.concatenate([each.reshape(-1, width) for each in sums]).sum(axis=0)
    by = np.log(total) if log else 1 / total
    for part, to in parts:
        _finish(part, to, _wide(top, part), _wide(by.astype(x.dtype), part), log, _rows(part))


def softmax_long_grad(flow: Array, y: Array, out: Array, *, log: bool) -> None:
    """Write the gradient of a softmax y (N, D), or of its logarithm, to `out`."""
    width = y.shape[1]
    parts = list(zip(_folded(flow), _folded(y), _folded(out), strict=True))
    sums = [_by_pieces(_flows, p.shape[1], (f, p, log), y.dtype) for f, p, _ in parts]
    total = np.concatenate([each.reshape(-1, width) for each in sums]).sum(axis=0)
    for part_flow, part, to in parts:
        _back(part_flow, part, _wide(total, part), to, log, _rows(part))


def _folded(rows: Array) -> list[Array]:
    """Return narrow rows side by side, as wider ones, and those left over."""
    width = rows.shape[1]
    fold = max(1, FOLD // width)
    many = rows.shape[0] // fold * fold
    found = [rows[:many].reshape(-1, width * fold), rows[many:]]
    return [each for each in found if each.shape[0]]


def _wide(row: Array, part: Array) -> Array:
    """Return a row as often as it stands in one of `part`."""
    return np.tile(row, part.shape[1] // row.size)


def _rows(part: Array) -> int:
    return max(1, PIECE_VALUES // int(part.shape[1]))


def _by_pieces(kernel: Any, width: int, arguments: Any, dtype: np.dtype[Any]) -> Array:
    """Return what a kernel finds for each piece: (pieces, `width`)."""
    given = arguments if isinstance(arguments, tuple) else (arguments,)
    piece_rows = _rows(given[0])
    found = np.empty((-(-given[0].shape[0] // piece_rows), width), dtype)
    kernel(*given, found, piece_rows)
    return found


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=FAST)
def _tops(x: Any, tops: Any, piece_rows: int) -> None:
    for piece in nb.prange(tops.shape[0]):
        part, top = x[piece * piece_rows : (piece + 1) * piece_rows], tops[piece]
        top[:] = part[0]
        for r in range(1, part.shape[0]):
            for k in range(part.shape[1]):
                v = part[r, k]
                # A NaN is taken up, and spreads to the whole column.
                top[k] = top[k] if v <= top[k] else v


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=FAST)
def _powers(x: Any, out: Any, top: Any, sums: Any, piece_rows: int) -> None:
    for piece in nb.prange(sums.shape[0]):
        lo, hi = piece * piece_rows, min((piece + 1) * piece_rows, x.shape[0])
        part, to, total = x[lo:hi], out[lo:hi], sums[piece]
        total[:] = 0
        for r in range(part.shape[0]):
            for k in range(part.shape[1]):
                power = _exp(part[r, k] - top[k])
                to[r, k] = power
                total[k] += power


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=FAST)
def _finish(x: Any, out: Any, top: Any, by: Any, log: bool, piece_rows: int) -> None:
    for piece in nb.prange((x.shape[0] + piece_rows - 1) // piece_rows):
        lo, hi = piece * piece_rows, min((piece + 1) * piece_rows, x.shape[0])
        part, to = x[lo:hi], out[lo:hi]
        if log:
            for r in range(part.shape[0]):
                for k in range(part.shape[1]):
                    to[r, k] = (part[r, k] - top[k]) - by[k]
        else:
            for r in range(part.shape[0]):
                for k in range(part.shape[1]):
                    to[r, k] *= by[k]


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=FAST)
def _flows(flow: Any, y: Any, log: bool, sums: Any, piece_rows: int) -> None:
    for piece in nb.prange(sums.shape[0]):
        lo, hi = piece * piece_rows, min((piece + 1) * piece_rows, y.shape[0])
        part_flow, part, total = flow[lo:hi], y[lo:hi], sums[piece]
        total[:] = 0
        for r in range(part.shape[0]):
            for k in range(part.shape[1]):
                total[k] += part_flow[r, k] if log else part_flow[r, k] * part[r, k]


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=FAST)
def _back(flow: Any, y: Any, total: Any, out: Any, log: bool, piece_rows: int) -> None:
    for piece in nb.prange((y.shape[0] + piece_rows - 1) // piece_rows):
        for r in range(piece * piece_rows, min((piece + 1) * piece_rows, y.shape[0])):
            for k in range(y.shape[1]):
                if log:
                    out[r, k] = flow[r, k] - _exp(y[r, k]) * total[k]
                else:
                    out[r, k] = y[r, k] * (flow[r, k] - total[k])
