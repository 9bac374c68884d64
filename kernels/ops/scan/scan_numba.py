"""See ops/scan.py. Every row is made from the one beside it, from left to right."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, is_half, summed_dtype
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.runtime.numba_threads import run
from lodcli.kernels.simd.row_copies import frozen

PIECES = 64


def segment_cumsum(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See ops/scan.py."""
    return _applied(data, offsets, False, exclusive, reverse)


def segment_cumprod(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See ops/scan.py."""
    return _applied(data, offsets, True, exclusive, reverse)


def segment_cumprod_grad(
    upstream: Array, data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool
) -> Array:
    """See ops/scan.py."""
    flow, x = flat_rows(upstream.astype(np.float64)), flat_rows(data.astype(np.float64))
    whole, without, out = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    _product_grad(flow, x, frozen(offsets), whole, without, out, exclusive, reverse)
    with np.errstate(over="ignore"):
        return out.reshape(data.shape).astype(data.dtype)


@np.errstate(over="ignore")
def _applied(data: Array, offsets: Offsets, product: bool, exclusive: bool, reverse: bool) -> Array:
    dtype = summed_dtype(data.dtype)
    rows = flat_rows(data.astype(np.float32 if is_half(dtype) else dtype, copy=False)).view()
    rows.flags.writeable = False  # one compiled version serves read-only rows too
    out = empty(rows.shape, rows.dtype)
    start = rows.dtype.type(1 if product else 0)
    run(_running, 2 * rows.nbytes, rows, frozen(offsets), out, start, product, exclusive, reverse)
    return out.reshape(data.shape).astype(dtype, copy=False)


@numba.njit(cache=True, nogil=True)
def pieces(offsets: Any, piece: int, pieces: int) -> Any:
    """Return the segments of one of `pieces` with about equally many rows."""
    total, starts = offsets[-1], offsets[:-1]
    first = np.searchsorted(starts, total * piece // pieces) if piece else 0
    last = starts.size
    if piece < pieces - 1:
        last = np.searchsorted(starts, total * (piece + 1) // pieces)
    return first, last


@numba.njit(parallel=True, cache=True, nogil=True)
def _running(
    x: Any, offsets: Any, out: Any, start: Any, product: bool, exclusive: bool, reverse: bool
) -> None:
    for piece in numba.prange(PIECES):
        first, last = pieces(offsets, piece, PIECES)
        for s in range(first, last):
            lo, hi = offsets[s], offsets[s + 1]
            if lo == hi:
                continue
            if x.shape[1] == 1:
                _line(x, out, lo, hi, start, product, exclusive, reverse)
            else:
                _rows(x[lo:hi], out[lo:hi], start, product, exclusive, reverse)


@numba.njit(nogil=True)
def _line(
    x: Any, out: Any, lo: int, hi: int, start: Any, product: bool, exclusive: bool, reverse: bool
) -> None:
    """Write the running result of one column, which stays in a register."""
    step, row = (-1, hi - 1) if reverse else (1, lo)
    total = start if exclusive else x[row, 0]
    behind = step if exclusive else 0
    out[row, 0] = total
    for _ in range(lo + 1, hi):
        row += step
        new = x[row - behind, 0]
        total = total * new if product else total + new
        out[row, 0] = total


@numba.njit(nogil=True)
def _rows(x: Any, out: Any, start: Any, product: bool, exclusive: bool, reverse: bool) -> None:
    """Write the running result of several columns: each row is made of the one before it."""
    step, row = (-1, x.shape[0] - 1) if reverse else (1, 0)
    behind = step if exclusive else 0
    for k in range(x.shape[1]):
        out[row, k] = start if exclusive else x[row, k]
    for _ in range(1, x.shape[0]):
        row += step
        before, new, to = out[row - step], x[row - behind], out[row]
        if product:
            for k in range(to.size):
                to[k] = before[k] * new[k]
        else:
            for k in range(to.size):
                to[k] = before[k] + new[k]


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _product_grad(
    flow: Any,
    x: Any,
    offsets: Any,
    whole: Any,
    without: Any,
    out: Any,
    exclusive: bool,
    reverse: bool,
) -> None:
    step = -1 if reverse else 1
    for s in numba.prange(offsets.size - 1):
        lo, hi = offsets[s], offsets[s + 1]
        count, first = hi - lo, (hi - 1 if reverse else lo)
        for k in range(x.shape[1]):
            # The running product, and the one with the first zero taken as 1.
            product, others, zero = 1.0, 1.0, count
            for i in range(count):
                row = first + step * i
                value = x[row, k]
                if value == 0 and zero == count:
                    zero = i
                else:
                    others *= value
                product *= value
                upstream = flow[row, k]
                if exclusive:
                    upstream = flow[row + step, k] if i + 1 < count else 0.0
                whole[row, k], without[row, k] = upstream * product, upstream * others
            of_whole, of_others = 0.0, 0.0
            for i in range(count - 1, -1, -1):
                row = first + step * i
                of_whole += whole[row, k]
                of_others += without[row, k]
                if x[row, k] != 0:
                    out[row, k] = of_whole / x[row, k]
                else:
                    out[row, k] = of_others if i == zero else 0.0
