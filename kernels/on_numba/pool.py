"""See ops/pool.py. Registers carry the running values (vectors.py), pieces of equal rows
the threads (reduce.py); results do not depend on the number of threads."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.reduce import MAX, MIN, SUM, divide_rows, pieces_of, reduce_rows
from lodcli.kernels.on_numba.reduce_index import reduce_index_rows
from lodcli.kernels.on_numba.vectors import VECTOR_BYTES
from lodcli.kernels.ops.common import flat_rows, is_float, is_half
from lodcli.kernels.ops.pool import mean_dtype, summed_dtype


def segment_sum(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _reduced(SUM, data, offsets, pad_value, summed_dtype(data.dtype), out)


def segment_mean(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _divided(data, offsets, pad_value, out, root=False)


def segment_sqrt(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _divided(data, offsets, pad_value, out, root=True)


def segment_max(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _reduced(MAX, data, offsets, pad_value, data.dtype, out)


def segment_min(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _reduced(MIN, data, offsets, pad_value, data.dtype, out)


def segment_max_index(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> tuple[Array, Offsets]:
    """See ops/pool.py."""
    return _reduced_index(MAX, data, offsets, pad_value, out)


def segment_min_index(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> tuple[Array, Offsets]:
    """See ops/pool.py."""
    return _reduced_index(MIN, data, offsets, pad_value, out)


def segment_first(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _picked(data, offsets, pad_value, out, last=False)


def segment_last(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return _picked(data, offsets, pad_value, out, last=True)


def _plain(data: Array) -> Array:
    """Return (N, D) rows of a dtype that numba knows."""
    if is_half(data.dtype):
        return flat_rows(data.astype(np.float32))
    return flat_rows(data.view(np.uint8) if data.dtype == np.bool_ else data)


def _plain_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return (
        np.dtype(np.float32)
        if is_half(dtype)
        else np.dtype(np.uint8 if dtype == np.bool_ else dtype)
    )


def _worst(kind: int, dtype: np.dtype[Any]) -> Any:
    if kind == SUM:
        return dtype.type(0)
    if is_float(dtype):
        return dtype.type(-np.inf if kind == MAX else np.inf)
    return dtype.type(np.iinfo(dtype).min if kind == MAX else np.iinfo(dtype).max)


def _vectors(rows: Array) -> tuple[Array | None, int]:
    """Return the rows flat and the lanes of a vector, where vectors apply."""
    flat = rows.reshape(-1) if rows.dtype in (np.float32, np.float64) else None
    return flat, VECTOR_BYTES // rows.dtype.itemsize


def _reduced(
    kind: int,
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None,
    root: bool | None = None,
) -> Array:
    if dtype.kind == "c":
        return _as_pairs(data, offsets, pad_value, dtype, out, root)
    rows, plain = _plain(data), _plain_dtype(dtype)
    shape = (offsets.size - 1, *data.shape[1:])
    result = _target(out, shape, plain)
    flat_result = flat_rows(result)
    pieces, size = pieces_of(rows)
    parts = np.empty((pieces, rows.shape[1]), plain)
    flat, lanes = _vectors(rows)
    fill = np.asarray(pad_value).astype(plain)[()]
    reduce_rows(
        *(flat, rows, offsets, kind, _worst(kind, plain), fill, flat_result, parts, lanes, size)
    )
    if root is not None:
        divide_rows(flat_result, offsets, root)
    return _delivered(result, dtype, out)


def _as_pairs(
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None,
    root: bool | None,
) -> Array:
    """Sum complex rows as rows of twice as many real numbers."""
    real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    totals = _reduced(SUM, flat_rows(data).view(real), offsets, 0, real, None, root)
    result = totals.view(dtype).reshape(offsets.size - 1, *data.shape[1:])
    result[offsets[:-1] == offsets[1:]] = pad_value
    return _delivered(result, dtype, out)


def _divided(
    data: Array, offsets: Offsets, pad_value: npt.ArrayLike, out: Array | None, *, root: bool
) -> Array:
    dtype = mean_dtype(data.dtype)
    if data.dtype.kind not in "iub":
        return _reduced(SUM, data, offsets, pad_value, dtype, out, root)
    # Whole numbers are added as such: float64 would round large ones on the way.
    totals = segment_sum(data, offsets).astype(dtype)
    divide_rows(flat_rows(totals), offsets, root)
    totals[offsets[:-1] == offsets[1:]] = pad_value
    return _delivered(totals, dtype, out)


def _reduced_index(
    kind: int, data: Array, offsets: Offsets, pad_value: npt.ArrayLike, out: Array | None
) -> tuple[Array, Offsets]:
    rows, plain = _plain(data), _plain_dtype(data.dtype)
    shape = (offsets.size - 1, *data.shape[1:])
    result, index = _target(out, shape, plain), np.empty(shape, np.int64)
    pieces, size = pieces_of(rows)
    parts = np.empty((pieces, rows.shape[1]), plain)
    flat, lanes = _vectors(rows)
    fill = np.asarray(pad_value).astype(plain)[()]
    reduce_index_rows(
        *(flat, rows, offsets, kind, _worst(kind, plain), fill, flat_rows(result)),
        *(flat_rows(index), parts, np.empty(parts.shape, np.int64), lanes, size),
    )
    return _delivered(result, data.dtype, out), index


def _target(out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return `out` where a kernel can write to it, or an array that it can."""
    if out is not None and out.dtype == dtype and out.flags.c_contiguous:
        return out
    return np.empty(shape, dtype)


def _delivered(result: Array, dtype: np.dtype[Any], out: Array | None) -> Array:
    if result.dtype != dtype:
        result = result.view(np.bool_) if dtype == np.bool_ else result.astype(dtype)
    if out is None or out is result:
        return result
    out[...] = result
    return out


def _picked(
    data: Array, offsets: Offsets, pad_value: npt.ArrayLike, out: Array | None, *, last: bool
) -> Array:
    dtype = data.dtype
    rows = flat_rows(data)
    result = _target(out, (offsets.size - 1, *data.shape[1:]), dtype)
    fill = np.asarray(pad_value).astype(dtype).reshape(1)
    if dtype.name == "bfloat16" or dtype == np.float16:
        # Numba knows neither; copying needs only their bits.
        _pick(rows.view(np.uint16), offsets, fill.view(np.uint16), _bits(result), last)
    else:
        _pick(rows, offsets, fill, flat_rows(result), last)
    return _delivered(result, dtype, out)


def _bits(result: Array) -> Array:
    return flat_rows(result).view(np.uint16)


@nb.njit(parallel=True, cache=True, nogil=True)
def _pick(rows: Any, offsets: Any, fill: Any, out: Any, last: bool) -> None:
    for s in nb.prange(out.shape[0]):
        lo, hi = offsets[s], offsets[s + 1]
        if lo == hi:
            out[s] = fill[0]
        else:
            source = rows[hi - 1 if last else lo]
            for k in range(source.size):
                out[s, k] = source[k]
