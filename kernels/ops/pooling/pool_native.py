"""See pool.py. Results do not depend on the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.ops.dtypes import is_half, mean_dtype, summed_dtype
from lodcli.kernels.ops.halves_native import narrow_to, widened
from lodcli.kernels.ops.pooling import pool as reference
from lodcli.kernels.ops.pooling.reduce_native import (
    EXTREME,
    INDEX,
    MEAN,
    PLAIN,
    ROOT,
    SUM,
    pick_rows,
    reduce_rows,
)
from lodcli.kernels.ops.rows import flat_rows, result_array, row_width

_NOTHING = np.zeros((), np.int64)
# The sign bits of the low half, and of both halves, of a number of 64 bits.
_LOW_SIGN, _BOTH_SIGNS = 1 << 31, (1 << 31) - (1 << 63)
_averaged = load.kernel("kernels.ops.pooling.pool_numba", "averaged")


def segment_sum(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _reduced(SUM, data, offsets, pad_value, summed_dtype(data.dtype), out)


def segment_mean(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _divided(data, offsets, pad_value, out, MEAN)


def segment_sqrt(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _divided(data, offsets, pad_value, out, ROOT)


def segment_max(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _reduced(EXTREME, data, offsets, pad_value, data.dtype, out)


def segment_min(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return _reduced(EXTREME, data, offsets, pad_value, data.dtype, out, least=True)


def segment_max_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """See pool.py."""
    return _reduced_index(data, offsets, pad_value, out)


def segment_min_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """See pool.py."""
    return _reduced_index(data, offsets, pad_value, out, least=True)


def segment_first(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return pick_rows(data, offsets, pad_value, "first", out)


def segment_last(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """See pool.py."""
    return pick_rows(data, offsets, pad_value, "last", out)


def _plain(data: Array) -> Array:
    """Return rows (N, D) in a dtype that kernels support."""
    return flat_rows(widened(data))


def _reduced(
    kind: str,
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None,
    *,
    least: bool = False,
    divided: int = PLAIN,
) -> Array:
    if dtype.kind == "c":
        return _as_pairs(data, offsets, pad_value, dtype, out, divided)
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    rows, totals = _plain(data), _plain_target(result)
    reduce_rows(kind, rows, offsets, pad_value, totals, least=least, divided=divided)
    return _delivered(totals, result)


def _as_pairs(
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    dtype: np.dtype[Any],
    out: Array | None,
    divided: int,
) -> Array:
    """Sum complex rows as rows of twice as many real numbers."""
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    real = np.dtype(np.float32 if dtype == np.complex64 else np.float64)
    totals = flat_rows(result).view(real)
    _reduced(SUM, flat_rows(data).view(real), offsets, 0, real, totals, divided=divided)
    result[offsets[:-1] == offsets[1:]] = pad_value
    return result


def _divided(
    data: Array, offsets: Offsets, pad_value: npt.ArrayLike, out: Array | None, divided: int
) -> Array:
    dtype = mean_dtype(data.dtype)
    if data.dtype.kind not in "iub":
        return _reduced(SUM, data, offsets, pad_value, dtype, out, divided=divided)
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), dtype, data)
    # Integers are added as integers: float64 would round large ones.
    width, unsigned = row_width(data.shape), data.dtype.kind == "u"
    # Short segments of single values are added faster than pairs of halves.
    halves = data.dtype.itemsize == 8 and (width > 1 or reference.may_wrap(data))
    if halves:
        totals = _sums_of_halves(data, offsets, unsigned)
    else:
        totals = segment_sum(data, offsets, pad_value=_NOTHING).view(np.int64)
    _averaged[""].call(
        0, 1, totals, halves, unsigned, np.ascontiguousarray(offsets), divided == ROOT,
        np.asarray(pad_value, dtype), result, offsets.size - 1, width,
    )  # fmt: skip
    return result


def _sums_of_halves(data: Array, offsets: Offsets, unsigned: bool) -> Array:
    """Return the sums of the low and the high halves of 64-bit integers, (S, 2 D).

    A sum of the integers themselves may exceed 64 bits. The halves are int32: 2**31 is subtracted
    from those that are unsigned.
    """
    rows = flat_rows(data).view(np.int32)
    totals = np.empty((offsets.size - 1, rows.shape[1]), np.int64)
    reduce_rows(SUM, rows, offsets, 0, totals, flip=_BOTH_SIGNS if unsigned else _LOW_SIGN)
    return totals


def _reduced_index(
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    out: tuple[Array, Offsets] | None,
    *,
    least: bool = False,
) -> tuple[Array, Offsets]:
    shape = (offsets.size - 1, *data.shape[1:])
    values, places = (None, None) if out is None else out
    result = result_array(values, shape, data.dtype, data)
    index = result_array(places, shape, np.dtype(np.int64), data)
    rows, extremes = _plain(data), _plain_target(result)
    reduce_rows(INDEX, rows, offsets, pad_value, extremes, least=least, index=flat_rows(index))
    return _delivered(extremes, result), index


def _plain_target(result: Array) -> Array:
    """Return rows (S, D) in a supported dtype to write to: `result` itself if possible."""
    return flat_rows(np.empty(result.shape, np.float32) if is_half(result.dtype) else result)


def _delivered(rows: Array, result: Array) -> Array:
    """Return `result` with the values of its `_plain_target`."""
    if rows.dtype != result.dtype:
        narrow_to(result, rows)
    return result
