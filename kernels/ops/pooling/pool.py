"""Pooling: one row for every sequence.

    sum   y[s] = sum of x[r]              sqrt   sum / sqrt(n)
    mean  y[s] = sum / n                  first, last   x of that row
    max, min   the greatest, least value of every column, and the row it stands in

A sequence of no rows gives `pad_value`, and passes no gradient on. `max`, `min`, `first` and `last`
keep times, decimals and categories. An empty sequence of times or categories, which have no zero,
gives a null by default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import (
    fill_value,
    pad_number,
    pads_with_null,
    require_order,
    segments,
)
from lodcli.kernels.ops.dtypes import is_half, mean_dtype, summed_dtype, working_dtype
from lodcli.kernels.ops.rows import per_row, result_array
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls


@types_explained
def sequence_sum(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float = 0,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the sum of the rows of every sequence of a level.

    Args:
        tensor: data (N, ...), any dtype, at least one level.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the tensor.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (S, ...) under the levels above `level`. Floats keep their dtype (float16 and
        bfloat16 are summed in float32 or better); integers and booleans give int64,
        unsigned ones uint64. Partial sums beyond the dtype's range may be infinite, even where
        later rows would bring the sum back: NumPy's backend adds float32 in float64, compiled
        kernels do not.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the result's dtype cannot hold `pad_value`; or `out` is invalid.

    >>> words = LoDTensor(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [[2, 0, 1]])
    >>> sequence_sum(words).data.tolist()
    [[4.0, 6.0], [0.0, 0.0], [5.0, 6.0]]
    """
    return _pooled(segment_sum, tensor, level, pad_value, out, backend, summed_dtype(tensor.dtype))


@types_explained
def sequence_mean(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float = 0,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the mean row of every sequence; integers give float64. See `sequence_sum`.

    Args:
        tensor, out, backend: as for `sequence_sum`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence.

    >>> sequence_mean(LoDTensor(np.array([1.0, 2.0, 6.0]), [[2, 1]])).data.tolist()
    [1.5, 6.0]
    """
    return _pooled(segment_mean, tensor, level, pad_value, out, backend, mean_dtype(tensor.dtype))


@types_explained
def sequence_sqrt(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float = 0,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return sum / sqrt(n) of the n rows of every sequence. See `sequence_mean`.

    Args:
        tensor, out, backend: as for `sequence_sum`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence.

    >>> sequence_sqrt(LoDTensor(np.array([1.0, 2.0, 3.0, 4.0, 6.0]), [[4, 1]])).data.tolist()
    [5.0, 6.0]
    """
    return _pooled(segment_sqrt, tensor, level, pad_value, out, backend, mean_dtype(tensor.dtype))


@types_explained
def sequence_max(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the greatest value of every column of every sequence, in the same dtype.

    Rows are compared with `>` in their order: a NaN in the first row of a sequence is the result,
    a later NaN is ignored. Compiled kernels may return either of 0.0 and -0.0. See `sequence_sum`.

    Args:
        tensor, out, backend: as for `sequence_sum`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence. Times may be given as text,
            categories as words. By default 0, or null for times and categories.

    Raises:
        InvalidDataError: the rows are complex.

    >>> sequence_max(LoDTensor(np.array([1, 7, 3]), [[2, 1]])).data.tolist()
    [7, 3]
    """
    require_order(tensor.dtype, "sequence_max")
    return _picked(segment_max, tensor, level, pad_value, out, backend)


@types_explained
def sequence_min(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the least value of every column of every sequence. See `sequence_max`.

    Args:
        tensor, out, backend: as for `sequence_sum`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence. Times may be given as text,
            categories as words. By default 0, or null for times and categories.

    >>> sequence_min(LoDTensor(np.array([4, 1, 3]), [[2, 1]])).data.tolist()
    [1, 3]
    """
    require_order(tensor.dtype, "sequence_min")
    return _picked(segment_min, tensor, level, pad_value, out, backend)


@types_explained
def sequence_max_index(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    out: tuple[Array, Offsets] | None = None,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return `sequence_max`, and the row number of each maximum in the tensor.

    Args:
        tensor, backend: as for `sequence_sum`.
        out: None, or a pair of arrays for the two results.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence. Times may be given as text,
            categories as words. By default 0, or null for times and categories.

    Returns:
        The maxima, and int64 row numbers of the same shape; of equal values the first row,
        -1 for an empty sequence.

    >>> value, row = sequence_max_index(LoDTensor(np.array([1, 7, 3]), [[2, 0, 1]]))
    >>> value.data.tolist(), row.data.tolist()
    ([7, 0, 3], [1, -1, 2])
    """
    return _pooled_index(segment_max_index, tensor, level, pad_value, out, backend)


@types_explained
def sequence_min_index(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    out: tuple[Array, Offsets] | None = None,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return `sequence_min`, and the row number of each minimum. See `sequence_max_index`.

    Args:
        tensor, out, backend: as for `sequence_max_index`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence. Times may be given as text,
            categories as words. By default 0, or null for times and categories.

    >>> value, row = sequence_min_index(LoDTensor(np.array([1, 7, 3]), [[2, 0, 1]]))
    >>> value.data.tolist(), row.data.tolist()
    ([1, 0, 3], [0, -1, 2])
    """
    return _pooled_index(segment_min_index, tensor, level, pad_value, out, backend)


@types_explained
def sequence_first(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the first row of every sequence, in the same dtype. See `sequence_sum`.

    Args:
        tensor, out, backend: as for `sequence_sum`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence. Times may be given as text,
            categories as words. By default 0, or null for times and categories.

    >>> sequence_first(LoDTensor(np.array([1, 7, 3]), [[2, 1]])).data.tolist()
    [1, 3]
    """
    return _picked(segment_first, tensor, level, pad_value, out, backend)


@types_explained
def sequence_last(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the last row of every sequence, in the same dtype. See `sequence_sum`.

    Args:
        tensor, out, backend: as for `sequence_sum`.
        level: the level whose S sequences become rows; by default the finest.
        pad_value: the value in all columns for an empty sequence. Times may be given as text,
            categories as words. By default 0, or null for times and categories.

    >>> sequence_last(LoDTensor(np.array([1, 7, 3]), [[2, 1]])).data.tolist()
    [7, 3]
    """
    return _picked(segment_last, tensor, level, pad_value, out, backend)


def _pooled(
    reference: Callable[..., Array],
    tensor: LoDTensor,
    level: int | str,
    pad_value: float,
    out: Array | None,
    backend: Backend,
    dtype: np.dtype[Any],
) -> LoDTensor:
    name = reference.__name__.replace("segment", "sequence")
    offsets = segments(tensor, level, name)
    fill = fill_value(pad_value, (), dtype, name)
    kernel = on(backend, reference, size_bytes=tensor.nbytes)
    rows = kernel(tensor.data, offsets, pad_value=fill, out=out)
    return LoDTensor._made(rows, tensor.lod.above(level))


def _picked(
    reference: Callable[..., Array],
    tensor: LoDTensor,
    level: int | str,
    pad_value: float | str | None,
    out: Array | None,
    backend: Backend,
) -> LoDTensor:
    value = pad_number(pad_value, tensor.marks.unit)
    found = _pooled(reference, tensor, level, value, out, backend, tensor.dtype)
    return _with_unit(found, tensor, level, pad_value)


def _with_unit(
    found: LoDTensor, tensor: LoDTensor, level: int | str, pad_value: float | str | None
) -> LoDTensor:
    """Return values of a tensor, one row for each sequence, with their unit."""
    if tensor.marks is NO_MARKS:
        return found
    nulls = NO_NULLS
    if pads_with_null(pad_value, tensor.marks.unit):
        offsets = tensor.lod.absolute(level)
        nulls = Nulls.of([*[None] * found.lod.n_levels, offsets[:-1] < offsets[1:]])
        if nulls and is_on_device(found.data):
            raise UnsupportedError(
                "the row of an empty sequence is null, and a tensor on a GPU holds no nulls; "
                "pad_value replaces them"
            )
    return LoDTensor(found.data, found.lod, tensor.marks.moved(whole=False), nulls)


def _pooled_index(
    reference: Callable[..., tuple[Array, Offsets]],
    tensor: LoDTensor,
    level: int | str,
    pad_value: float | str | None,
    out: tuple[Array, Offsets] | None,
    backend: Backend,
) -> tuple[LoDTensor, LoDTensor]:
    name = reference.__name__.replace("segment", "sequence")
    require_order(tensor.dtype, name)
    offsets = segments(tensor, level, name)
    fill = fill_value(pad_number(pad_value, tensor.marks.unit), (), tensor.dtype, name)
    if out is not None:
        on_host = all(isinstance(each, np.ndarray) for each in out)
        if len(out) != 2 or (on_host and np.may_share_memory(*out)):
            raise InvalidDataError(f"{name}: out must be two arrays that share no memory")
    kernel = on(backend, reference, size_bytes=tensor.nbytes)
    values, index = kernel(tensor.data, offsets, pad_value=fill, out=out)
    above = tensor.lod.above(level)
    picked = _with_unit(LoDTensor._made(values, above), tensor, level, pad_value)
    return picked, LoDTensor._made(index, above)


# -- NumPy -----------------------------------------------------------------------------


def segment_sum(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return the sum of rows offsets[s]..offsets[s+1] for each s: (N, ...) to (S, ...)."""
    totals = _totals(data, offsets)
    return _filled(totals, offsets, pad_value, data, summed_dtype(data.dtype), out)


def segment_mean(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return the mean of every segment: (N, ...) to (S, ...)."""
    means = _divided(_wide_totals(data, offsets), _counts(offsets, data.ndim))
    return _filled(means, offsets, pad_value, data, mean_dtype(data.dtype), out)


def segment_sqrt(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return the sum over the square root of the length of every segment."""
    scaled = _divided(_wide_totals(data, offsets), np.sqrt(_counts(offsets, data.ndim)))
    return _filled(scaled, offsets, pad_value, data, mean_dtype(data.dtype), out)


def segment_max(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return the greatest values of every segment: (N, ...) to (S, ...)."""
    extremes = _extremes(data, offsets, np.maximum)
    return _filled(extremes, offsets, pad_value, data, data.dtype, out)


def segment_min(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return the least values of every segment: (N, ...) to (S, ...)."""
    extremes = _extremes(data, offsets, np.minimum)
    return _filled(extremes, offsets, pad_value, data, data.dtype, out)


def segment_max_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """Return the greatest values of every segment and their rows, -1 where there are none."""
    return _extremes_index(data, offsets, pad_value, out, np.maximum)


def segment_min_index(
    data: Array,
    offsets: Offsets,
    *,
    pad_value: npt.ArrayLike = 0,
    out: tuple[Array, Offsets] | None = None,
) -> tuple[Array, Offsets]:
    """Return the least values of every segment and their rows, -1 where there are none."""
    return _extremes_index(data, offsets, pad_value, out, np.minimum)


def segment_first(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return row offsets[s] of every segment: (N, ...) to (S, ...)."""
    return _filled(data[_full(offsets)[0]], offsets, pad_value, data, data.dtype, out)


def segment_last(
    data: Array, offsets: Offsets, *, pad_value: npt.ArrayLike = 0, out: Array | None = None
) -> Array:
    """Return row offsets[s+1] - 1 of every segment: (N, ...) to (S, ...)."""
    return _filled(data[_full(offsets)[1] - 1], offsets, pad_value, data, data.dtype, out)


def _full(offsets: Offsets) -> tuple[Offsets, Offsets]:
    """Return the start and stop rows of the segments that are not empty."""
    full = offsets[:-1] < offsets[1:]
    return offsets[:-1][full], offsets[1:][full]


def _counts(offsets: Offsets, ndim: int) -> npt.NDArray[np.float64]:
    starts, stops = _full(offsets)
    return per_row((stops - starts).astype(np.float64), ndim)


def _divided(totals: Array, by: npt.NDArray[np.float64]) -> Array:
    """Return sums divided by real numbers.

    Real and imaginary parts are divided separately: an infinite one does not make the other NaN.
    """
    if totals.dtype.kind != "c":
        return totals / by
    parts = totals[..., np.newaxis].view(totals.real.dtype) / by[..., np.newaxis]
    return parts.view(totals.dtype)[..., 0]


@np.errstate(all="ignore")
def _totals(data: Array, offsets: Offsets) -> Array:
    """Return the sums of the segments that are not empty, in double precision or 64 bits."""
    wide = summed_dtype(data.dtype)
    if is_float(data.dtype) or data.dtype.kind == "c":
        wide = np.result_type(working_dtype(wide), np.float64)
    # Not reduceat on the full offsets: for an empty segment it returns the next row.
    starts = _full(offsets)[0]
    if not starts.size:
        return np.zeros((0, *data.shape[1:]), wide)
    result: Array = np.add.reduceat(data.astype(wide), starts, axis=0)
    return result


def may_wrap(data: Array) -> bool:
    """Return whether a sum of these rows may exceed 64 bits."""
    if data.dtype.kind not in "iu" or data.dtype.itemsize < 8 or not data.size:
        return False
    return max(int(data.max()), -int(data.min())) * len(data) >= 1 << 63


def _wide_totals(data: Array, offsets: Offsets) -> Array:
    """Return `_totals`, as float64 if they may exceed 64 bits."""
    if not may_wrap(data):
        return _totals(data, offsets)
    # Both halves are summed exactly, so that only their sum is rounded.
    high, low = _totals(data >> 32, offsets), _totals(data & 0xFFFFFFFF, offsets)
    result: Array = (high + (low >> 32)) * 2.0**32 + (low & 0xFFFFFFFF)
    return result


@np.errstate(all="ignore")  # a NaN may be signalling
def _extremes(data: Array, offsets: Offsets, extreme: np.ufunc) -> Array:
    """Return the extremes of the segments that are not empty."""
    starts = _full(offsets)[0]
    if not starts.size:
        return data[:0]
    # bfloat16 does not support reduceat; float32 holds it exactly.
    values = data.astype(np.float32) if is_half(data.dtype) else data.copy()
    if is_float(values.dtype):
        later = np.ones(len(values), np.bool_)
        later[starts] = False
        worst = -np.inf if extreme is np.maximum else np.inf
        values[np.isnan(values) & per_row(later, data.ndim)] = worst
    result: Array = extreme.reduceat(values, starts, axis=0).astype(data.dtype)
    if is_float(data.dtype) and not result.all():  # 0.0 and -0.0 are equal: the first one counts
        rows = _rows_of(result, data, offsets, None)[offsets[:-1] < offsets[1:]]
        return np.take_along_axis(data, rows, axis=0)
    return result


def _extremes_index(
    data: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    out: tuple[Array, Offsets] | None,
    extreme: np.ufunc,
) -> tuple[Array, Offsets]:
    extremes = _extremes(data, offsets, extreme)
    to, places = (None, None) if out is None else out
    values = _filled(extremes, offsets, pad_value, data, data.dtype, to)
    return values, _rows_of(extremes, data, offsets, places)


@np.errstate(all="ignore")
def _rows_of(extremes: Array, data: Array, offsets: Offsets, out: Offsets | None) -> Offsets:
    starts, stops = _full(offsets)
    result = result_array(out, (offsets.size - 1, *data.shape[1:]), np.dtype(np.int64), data)
    result[...] = -1
    if starts.size:
        rows = per_row(np.arange(len(data)), data.ndim)
        here = np.where(data == np.repeat(extremes, stops - starts, axis=0), rows, len(data))
        found = np.minimum.reduceat(here, starts, axis=0)
        # No row equals a NaN. An extreme is NaN only if the first row is.
        first = per_row(starts, data.ndim)
        result[offsets[:-1] < offsets[1:]] = np.where(found == len(data), first, found)
    return result


@np.errstate(all="ignore")
def _filled(
    rows: Array,
    offsets: Offsets,
    pad_value: npt.ArrayLike,
    data: Array,
    dtype: np.dtype[Any],
    out: Array | None,
) -> Array:
    """Return one row per segment, `pad_value` for empty ones."""
    result = result_array(out, (offsets.size - 1, *rows.shape[1:]), dtype, data)
    full = offsets[:-1] < offsets[1:]
    result[full] = rows.astype(dtype)
    result[~full] = pad_value
    return result
