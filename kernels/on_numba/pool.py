"""See ops/pool.py. Registers carry the running values (vectors.py), pieces of equal rows
the threads (reduce.py); results do not depend on the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.reduce import MAX, MIN, SUM, divide_rows, pieces_of, reduce_rows
from lodcli.kernels.on_numba.reduce_index import reduce_index_rows
from lodcli.kernels.on_numba.spread import pick_rows
from lodcli.kernels.on_numba.vectors import VECTOR_BYTES
from lodcli.kernels.ops.common import (
    flat_rows,
    is_float,
    is_half,
    mean_dtype,
    result_array,
    summed_dtype,
)


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
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """See ops/pool.py."""
    return _reduced_index(MAX, data, offsets, pad_value, out)


def segment_min_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """See ops/pool.py."""
    return _reduced_index(MIN, data, offsets, pad_value, out)


def segment_first(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return pick_rows(data, offsets, pad_value, "first", out)


def segment_last(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See ops/pool.py."""
    return pick_rows(data, offsets, pad_value, "last", out)


def _plain(data: Array) -> Array:
    """Return (N, D) rows of a dtype that numba knows."""
    if is_half(data.dtype):
        return flat_rows(data.astype(np.float32))
    return flat_rows(data.view(np.uint8) if data.dtype == np.bool_ else data)


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
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    rows, totals = _plain(data), _plain_target(result)
    plain = totals.dtype
    pieces, size = pieces_of(rows)
    parts = np.empty((pieces, rows.shape[1]), plain)
    flat, lanes = _vectors(rows)
    fill = np.asarray(pad_value).astype(plain)[()]
    reduce_rows(*(flat, rows, offsets, kind, _worst(kind, plain), fill, totals, parts, lanes, size))
    if root is not None:
        divide_rows(totals, offsets, root)
    return _delivered(totals, result)


def _as_pairs(
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None,
    root: bool | None,
) -> Array:
    """Sum complex rows as rows of twice as many real numbers."""
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    totals = flat_rows(result).view(real)
    _reduced(SUM, flat_rows(data).view(real), offsets, 0, real, totals, root)
    result[offsets[:-1] == offsets[1:]] = pad_value
    return result


def _divided(
    data: Array, offsets: Offsets, pad_value: npt.ArrayLike, out: Array | None, *, root: bool
) -> Array:
    dtype = mean_dtype(data.dtype)
    if data.dtype.kind not in "iub":
        return _reduced(SUM, data, offsets, pad_value, dtype, out, root)
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    # Whole numbers are added as such: float64 would round large ones on the way.
    result[...] = segment_sum(data, offsets)
    divide_rows(flat_rows(result), offsets, root)
    result[offsets[:-1] == offsets[1:]] = pad_value
    return result


def _reduced_index(
    kind: int,
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    out: tuple[Array, Offsets] | None,
) -> tuple[Array, Offsets]:
    shape = (offsets.size - 1, *data.shape[1:])
    values, places = (None, None) if out is None else out
    result = result_array(values, shape, data.dtype, data)
    index = result_array(places, shape, np.dtype(np.int64), data)
    rows, extremes = _plain(data), _plain_target(result)
    plain = extremes.dtype
    pieces, size = pieces_of(rows)
    parts = np.empty((pieces, rows.shape[1]), plain)
    flat, lanes = _vectors(rows)
    fill = np.asarray(pad_value).astype(plain)[()]
    reduce_index_rows(
        *(flat, rows, offsets, kind, _worst(kind, plain), fill, extremes),
        *(flat_rows(index), parts, np.empty(parts.shape, np.int64), lanes, size),
    )
    return _delivered(extremes, result), index


def _plain_target(result: Array) -> Array:
    """Return (S, D) rows of a dtype that numba knows, to write for `result`: itself, or not."""
    if is_half(result.dtype):
        return flat_rows(np.empty(result.shape, np.float32))
    return flat_rows(result.view(np.uint8) if result.dtype == np.bool_ else result)


def _delivered(rows: Array, result: Array) -> Array:
    """Return `result` with what was written to the `_plain_target` of it."""
    if is_half(result.dtype):
        result[...] = rows.reshape(result.shape)
    return result
