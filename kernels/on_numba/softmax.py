"""See ops/softmax.py. A segment is done while it is in the cache, a long one by all threads."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba import powers
from lodcli.kernels.on_numba.copying import address, frozen
from lodcli.kernels.on_numba.exponential import FAST as _FAST
from lodcli.kernels.on_numba.exponential import exp
from lodcli.kernels.on_numba.softmax_long import (
    long_segments,
    longest,
    softmax_long,
    softmax_long_grad,
)
from lodcli.kernels.on_numba.threads import run
from lodcli.kernels.on_numba.vectors import VECTOR_BYTES
from lodcli.kernels.ops.common import flat_rows, is_half, result_array

PIECES = 64
_exp = exp
_loose, _exact = powers.softmax_loose, powers.softmax_exact


def segment_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/softmax.py."""
    return _applied(data, offsets, out, log=False)


def segment_log_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/softmax.py."""
    return _applied(data, offsets, out, log=True)


def segment_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See ops/softmax.py."""
    return _gradient(upstream, result, offsets, log=False)


def segment_log_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See ops/softmax.py."""
    return _gradient(upstream, result, offsets, log=True)


def _plain(data: Array) -> Array:
    return flat_rows(data.astype(np.float32) if is_half(data.dtype) else data)


def _applied(data: Array, offsets: Offsets, out: Array | None, *, log: bool) -> Array:
    result = result_array(out, data.shape, data.dtype, data)
    rows = _plain(data)
    to = np.empty_like(rows) if is_half(data.dtype) else flat_rows(result)
    most, skipped = longest(rows), np.zeros(PIECES, np.bool_)
    if rows.shape[1] == 1 and rows.dtype == np.float32:
        at, out_at = address(rows), address(to)
        run(_softmax_singles, 2 * rows.nbytes, at, frozen(offsets), out_at, log, most, skipped)
    else:
        run(_softmax, 2 * rows.nbytes, rows, offsets, to, log, most, skipped)
    if skipped.any():
        for part in long_segments(offsets, most):
            softmax_long(rows[part], to[part], log=log)
    if is_half(data.dtype):
        result[...] = to.reshape(data.shape)
    return result


def _gradient(upstream: Array, result: Array, offsets: Offsets, *, log: bool) -> Array:
    y, flow = _plain(result), _plain(upstream)
    out, flow = np.empty_like(y), flow.astype(y.dtype, copy=False)
    most, skipped = longest(y), np.zeros(PIECES, np.bool_)
    run(_softmax_grad, 3 * y.nbytes, flow, y, offsets, out, log, most, skipped)
    if skipped.any():
        for part in long_segments(offsets, most):
            softmax_long_grad(flow[part], y[part], out[part], log=log)
    return out.reshape(result.shape).astype(result.dtype, copy=False)


@nb.njit(cache=True, nogil=True)
def pieces(offsets: Any, piece: int, pieces: int) -> Any:
    """Return the segments of one of `pieces` with about equally many rows."""
    total, starts = offsets[-1], offsets[:-1]
    first = np.searchsorted(starts, total * piece // pieces) if piece else 0
    last = starts.size
    if piece < pieces - 1:
        last = np.searchsorted(starts, total * (piece + 1) // pieces)
    return first, last


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _softmax_singles(at: int, offsets: Any, to: int, log: bool, most: int, skipped: Any) -> None:
    end = at + 4 * offsets[-1]
    for piece in nb.prange(PIECES):
        first, last = pieces(offsets, piece, PIECES)
        stop = to + 4 * offsets[last]
        bounds = offsets[first : last + 1]
        for s in range(bounds.size - 1):
            lo, count = bounds[s], bounds[s + 1] - bounds[s]
            if count > most:
                skipped[piece] = True
                continue
            source, here = at + 4 * lo, to + 4 * lo
            after = 4 * count + VECTOR_BYTES
            # What is written behind a segment is overwritten by the next of this piece.
            if source + after <= end and here + after <= stop:
                if count:
                    _loose(here, source, count, log)
            elif count:
                _exact(here, source, count, log)


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=_FAST)
def _softmax(x: Any, offsets: Any, out: Any, log: bool, most: int, skipped: Any) -> None:
    for piece in nb.prange(PIECES):
        first, last = pieces(offsets, piece, PIECES)
        greatest, total = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
        for s in range(first, last):
            lo, hi = offsets[s], offsets[s + 1]
            if hi - lo > most:
                skipped[piece] = True
            elif lo < hi:
                _segment(x[lo:hi], out[lo:hi], greatest, total, log)


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _segment(x: Any, out: Any, greatest: Any, total: Any, log: bool) -> None:
    rows, width = x.shape
    greatest[:] = x[0]
    total[:] = 0
    for r in range(1, rows):
        for k in range(width):
            v = x[r, k]
            # A NaN is taken up, and spreads to the whole column.
            greatest[k] = greatest[k] if v <= greatest[k] else v
    for r in range(rows):
        for k in range(width):
            power = _exp(x[r, k] - greatest[k])
            out[r, k] = power
            total[k] += power
    if log:
        for k in range(width):
            total[k] = np.log(total[k])
        for r in range(rows):
            for k in range(width):
                out[r, k] = (x[r, k] - greatest[k]) - total[k]
    else:
        for k in range(width):
            total[k] = 1 / total[k]
        for r in range(rows):
            for k in range(width):
                out[r, k] *= total[k]


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=_FAST)
def _softmax_grad(
    flow: Any, y: Any, offsets: Any, out: Any, log: bool, most: int, skipped: Any
) -> None:
    width = y.shape[1]
    for piece in nb.prange(PIECES):
        first, last = pieces(offsets, piece, PIECES)
        total = np.empty(width, y.dtype)
        for s in range(first, last):
            if offsets[s + 1] - offsets[s] > most:
                skipped[piece] = True
                continue
            total[:] = 0
            for r in range(offsets[s], offsets[s + 1]):
                for k in range(width):
                    total[k] += flow[r, k] if log else flow[r, k] * y[r, k]
            for r in range(offsets[s], offsets[s + 1]):
                for k in range(width):
                    if log:
                        out[r, k] = flow[r, k] - _exp(y[r, k]) * total[k]
                    else:
                        out[r, k] = y[r, k] * (flow[r, k] - total[k])
