"""See ops/elementwise.py. The row of a sequence is read where it lies, never spread out."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows, is_half, summed_dtype
from lodcli.kernels.ops.elementwise import elementwise as reference
from lodcli.kernels.ops.elementwise.elementwise import UFUNCS, Arithmetic
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.simd.row_copies import rows_a_piece

_KINDS = {"add": 0, "sub": 1, "mul": 2, "div": 3}
_COMPILED = ("float32", "float64", "int32", "int64", "complex64", "complex128")


def segment_binary(op: Arithmetic, data: Array, values: Array, offsets: Offsets) -> Array:
    """See ops/elementwise.py."""
    dtype = UFUNCS[op](data[:0], values[:0].reshape(0, *[1] * (data.ndim - 1))).dtype
    if dtype.name not in _COMPILED or not data.size:
        return reference.segment_binary(op, data, values, offsets)
    x = flat_rows(data.astype(dtype, copy=False))
    z = flat_rows(values.astype(dtype, copy=False))
    out = np.empty(x.shape, dtype)
    _binary(_KINDS[op], x, z, offsets, out, rows_a_piece(out.shape[1] * out.itemsize))
    return out.reshape(data.shape)


def segment_dot(a: Array, b: Array, offsets: Offsets) -> Array:
    """See ops/elementwise.py."""
    dtype = summed_dtype(np.result_type(a, b))
    wide = np.dtype(np.float32) if is_half(dtype) else dtype
    x, y = (flat_rows(one.astype(wide, copy=False)) for one in (a, b))
    # Sums of float32 in float64, as the reference makes them.
    out = np.zeros(
        offsets.size - 1, np.result_type(wide, np.float64) if wide.kind in "fc" else wide
    )
    _dot(x, y, offsets, out)
    with np.errstate(over="ignore"):
        return out.astype(dtype, copy=False)


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _binary(kind: int, x: Any, z: Any, offsets: Any, out: Any, rows: int) -> None:
    for piece in numba.prange((out.shape[0] + rows - 1) // rows):
        r, stop = piece * rows, min((piece + 1) * rows, out.shape[0])
        s = np.searchsorted(offsets, r, side="right") - 1
        while r < stop:
            end = min(offsets[s + 1], stop)
            if kind == 0:
                _add(x, z[s], out, r, end)
            elif kind == 1:
                _sub(x, z[s], out, r, end)
            elif kind == 2:
                _mul(x, z[s], out, r, end)
            else:
                _div(x, z[s], out, r, end)
            r = end
            s += 1


@numba.njit(cache=True, nogil=True)
def _add(x: Any, z: Any, out: Any, lo: int, hi: int) -> None:
    for r in range(lo, hi):
        for k in range(x.shape[1]):
            out[r, k] = x[r, k] + (z[k] if z.size > 1 else z[0])


@numba.njit(cache=True, nogil=True)
def _sub(x: Any, z: Any, out: Any, lo: int, hi: int) -> None:
    for r in range(lo, hi):
        for k in range(x.shape[1]):
            out[r, k] = x[r, k] - (z[k] if z.size > 1 else z[0])


@numba.njit(cache=True, nogil=True)
def _mul(x: Any, z: Any, out: Any, lo: int, hi: int) -> None:
    for r in range(lo, hi):
        for k in range(x.shape[1]):
            out[r, k] = x[r, k] * (z[k] if z.size > 1 else z[0])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _div(x: Any, z: Any, out: Any, lo: int, hi: int) -> None:
    for r in range(lo, hi):
        for k in range(x.shape[1]):
            out[r, k] = x[r, k] / (z[k] if z.size > 1 else z[0])


@numba.njit(parallel=True, cache=True, nogil=True)
def _dot(x: Any, y: Any, offsets: Any, out: Any) -> None:
    for s in numba.prange(out.size):
        total = out[s]
        for r in range(offsets[s], offsets[s + 1]):
            # A row in the dtype of the rows, as the reference adds it.
            part = x.dtype.type(0)
            for k in range(x.shape[1]):
                part += x[r, k] * y[r, k]
            total += part
        out[s] = total
