"""See ops/softmax.py. A segment is done while it is in the cache; float32 has a vector exp."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.extending import overload

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba import powers
from lodcli.kernels.on_numba.copying import frozen
from lodcli.kernels.on_numba.scalars import float_of_bits
from lodcli.kernels.on_numba.threads import run
from lodcli.kernels.on_numba.vectors import VECTOR_BYTES
from lodcli.kernels.ops.common import flat_rows, is_half, result_array

_FAST = {"contract", "nsz"}
_PIECES = 64
_F = np.float32
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
    if rows.shape[1] == 1 and rows.dtype == np.float32:
        at, out_at = rows.ctypes.data, to.ctypes.data
        run(_softmax_singles, 2 * rows.nbytes, at, frozen(offsets), out_at, log)
    else:
        _softmax(rows, offsets, to, log)
    if is_half(data.dtype):
        result[...] = to.reshape(data.shape)
    return result


def _gradient(upstream: Array, result: Array, offsets: Offsets, *, log: bool) -> Array:
    y, flow = _plain(result), _plain(upstream)
    out = np.empty_like(y)
    _softmax_grad(flow.astype(y.dtype, copy=False), y, offsets, out, log)
    return out.reshape(result.shape).astype(result.dtype, copy=False)


@nb.njit(cache=True, nogil=True, fastmath=_FAST)
def _exp32(x: Any) -> Any:
    """Return e^x for x <= 0, within 2 units in the last place (Cephes' expf)."""
    low = min(max(x, _F(-87.33)), _F(88.0))
    n = np.floor(low * _F(1.44269504) + _F(0.5))
    r = (low - n * _F(0.693359375)) + n * _F(2.12194440e-4)
    p = _F(1.9875691500e-4)
    p = p * r + _F(1.3981999507e-3)
    p = p * r + _F(8.3334519073e-3)
    p = p * r + _F(4.1665795894e-2)
    p = p * r + _F(1.6666665459e-1)
    p = p * r + _F(5.0000001201e-1)
    p = (p * r) * r + r + _F(1)
    power = p * float_of_bits((np.int32(n) + np.int32(127)) << np.int32(23))
    # Compared as it came in, so that a NaN stays one.
    return x if x != x else (_F(0) if x < _F(-87.33) else power)


def _exp(x: Any) -> Any:
    """Return e^x for x <= 0."""
    raise NotImplementedError("for compiled code only")


@overload(_exp)
def _exp_of(x: Any) -> Any:
    def single(x: Any) -> Any:
        return _exp32(x)

    def double(x: Any) -> Any:
        return np.exp(x)

    return single if x == nb.types.float32 else double


@nb.njit(cache=True, nogil=True)
def _pieces(offsets: Any, piece: int, pieces: int) -> Any:
    """Return the segments of one of `pieces` with about equally many rows."""
    total, starts = offsets[-1], offsets[:-1]
    first = np.searchsorted(starts, total * piece // pieces) if piece else 0
    last = starts.size
    if piece < pieces - 1:
        last = np.searchsorted(starts, total * (piece + 1) // pieces)
    return first, last


@nb.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _softmax_singles(at: int, offsets: Any, to: int, log: bool) -> None:
    end = at + 4 * offsets[-1]
    for piece in nb.prange(_PIECES):
        first, last = _pieces(offsets, piece, _PIECES)
        stop = to + 4 * offsets[last]
        for s in range(first, last):
            lo, count = offsets[s], offsets[s + 1] - offsets[s]
            source, here = at + 4 * lo, to + 4 * lo
            after = 4 * count + VECTOR_BYTES
            # What is written behind a segment is overwritten by the next of this piece.
            if source + after <= end and here + after <= stop:
                if count:
                    _loose(here, source, count, log)
            elif count:
                _exact(here, source, count, log)


@nb.njit(parallel=True, cache=True, nogil=True, fastmath=_FAST)
def _softmax(x: Any, offsets: Any, out: Any, log: bool) -> None:
    for piece in nb.prange(_PIECES):
        first, last = _pieces(offsets, piece, _PIECES)
        greatest, total = np.empty(x.shape[1], x.dtype), np.empty(x.shape[1], x.dtype)
        for s in range(first, last):
            if offsets[s] < offsets[s + 1]:
                lo, hi = offsets[s], offsets[s + 1]
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
def _softmax_grad(flow: Any, y: Any, offsets: Any, out: Any, log: bool) -> None:
    width = y.shape[1]
    for piece in nb.prange(_PIECES):
        first, last = _pieces(offsets, piece, _PIECES)
        total = np.empty(width, y.dtype)
        for s in range(first, last):
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
