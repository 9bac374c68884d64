"""The rows of every sequence moved by a lag k, and their differences from the rows k before.

    shift   y[lo+t] = x[lo+t-k]                 pad_value where the sequence has no such row
    diff    y[lo+t] = x[lo+t] - x[lo+t-k]       left out there, or pad_value

A negative lag takes later rows.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import (
    fill_value,
    pad_number,
    pads_with_null,
    segment_numbers,
    segments,
)
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Times
from lodcli.kernels.tensor.nulls import Mask, Nulls

_INT64 = np.dtype(np.int64)


@types_explained
def sequence_shift(
    tensor: LoDTensor,
    lag: int = 1,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every row replaced by the row `lag` before it in its sequence.

    Args:
        tensor: data (N, ...), any dtype, at least one level. Nulls move with their rows.
        lag: how many rows before; negative for later rows.
        level: the level whose sequences are shifted; by default the finest.
        pad_value: the value of rows whose sequence has no row at that distance; also a time as
            text, or a word of categories. By default 0, or null for times and categories.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, ...) of the same dtype under the same index.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the dtype cannot hold `pad_value`.

    >>> words = LoDTensor(np.array([1, 2, 3, 4]), [[3, 1]])
    >>> sequence_shift(words).data.tolist(), sequence_shift(words, -2, pad_value=9).data.tolist()
    ([0, 1, 2, 0], [3, 9, 9, 9])
    """
    op = "sequence_shift"
    offsets, lag = segments(tensor, level, op), _within(lag, tensor)
    fill = fill_value(pad_number(pad_value, tensor.marks.unit), (), tensor.dtype, op)
    run = on(backend, segment_shift, size_bytes=tensor.nbytes)
    rows = run(tensor.values, offsets, lag, pad_value=fill)
    if tensor.marks is NO_MARKS and not tensor.nulls.masks:
        return tensor._with_rows(rows)
    masks, missing = tensor.nulls.masks, pads_with_null(pad_value, tensor.marks.unit)
    valid = tensor.nulls.rows
    if valid is not None or missing:
        valid = np.ones(tensor.rows, np.bool_) if valid is None else valid
        moved = on("auto", segment_shift, size_bytes=valid.nbytes)
        valid = moved(valid, offsets, lag, pad_value=not missing)
    nulls = Nulls.of([*(masks[:-1] or [None] * tensor.lod.n_levels), valid])
    if nulls and is_on_device(rows):
        raise UnsupportedError(
            "the first rows of a shifted sequence are null, and a tensor on a GPU holds no nulls; "
            "pad_value replaces them"
        )
    return LoDTensor(rows, tensor.lod, tensor.marks.moved(whole=False), nulls)


@types_explained
def sequence_shift_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    lag: int = 1,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_shift` for `tensor`: a shift in the other direction.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, lag, level: as passed to the op; of the tensor only its index and shape are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`; 0 for rows that the result
        does not have.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> words = LoDTensor(np.zeros(3), [[2, 1]])
    >>> sequence_shift_grad([1.0, 2.0, 4.0], words).data.tolist()
    [2.0, 0.0, 0.0]
    """
    op = "sequence_shift_grad"
    offsets, lag = segments(tensor, level, op), _within(lag, tensor)
    flow = upstream_of(upstream, tensor.data.shape, op, tensor.lod)
    run = on(backend, segment_shift, size_bytes=flow.nbytes)
    return tensor._with_rows(run(flow, offsets, -lag))


@types_explained
def sequence_diff(
    tensor: LoDTensor,
    lag: int = 1,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the difference of every row and the row `lag` before it in its sequence.

    Args:
        tensor: data (N, ...), any dtype, at least one level. The difference from a null is null.
        lag: how many rows before; negative for later rows. `numpy.diff(x, n)` takes differences
            of differences instead.
        level: the level of the sequences; by default the finest.
        pad_value: the value of rows whose sequence has no row at that distance; for times a
            duration as text. By default these rows are left out, as in `numpy.diff`.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The differences, under as many levels; with `pad_value` data (N, ...) under the same index.
        Floats keep their dtype; integers and booleans give int64, and wrap around where that
        overflows. Differences of times are numbers of their unit.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the dtype of the differences cannot hold `pad_value`.

    >>> words = LoDTensor(np.array([1, 4, 9, 5]), [[3, 1]])
    >>> sequence_diff(words).to_list(), sequence_diff(words, pad_value=0).to_list()
    ([[3, 5], []], [[0, 3, 5], [0]])
    """
    op = "sequence_diff"
    offsets, lag = segments(tensor, level, op), _within(lag, tensor)
    bounds, lod = _left(tensor.lod, level, offsets, lag, pad_value)
    times = tensor.marks.unit
    unit = Times("duration", times.unit) if isinstance(times, Times) else None
    fill = fill_value(pad_number(pad_value, unit), (), difference_dtype(tensor.dtype), op)
    run = on(backend, segment_diff, size_bytes=tensor.nbytes)
    rows = run(tensor.values, offsets, bounds, lag, pad_value=fill)
    if not tensor.nulls.masks:
        return LoDTensor._made(rows, lod)
    valid = _both_valid(tensor.nulls.rows, offsets, lag, padded=bounds is None)
    return LoDTensor(rows, lod, nulls=Nulls.of([*tensor.nulls.masks[:-1], valid]))


@types_explained
def sequence_diff_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    lag: int = 1,
    *,
    level: int | str = -1,
    pad_value: float | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_diff` for `tensor`.

    A row gets the gradient of its own difference, minus that of the row `lag` after it.

    Args:
        upstream: the gradient of the result.
        tensor, lag, level: as passed to the op; of the tensor only its index and shape are read.
        pad_value: as passed to the op; only whether it is None matters.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`; int64 for whole numbers.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> words = LoDTensor(np.zeros(4), [[3, 1]])
    >>> sequence_diff_grad([1.0, 5.0], words).data.tolist()
    [-1.0, -4.0, 5.0, 0.0]
    """
    op = "sequence_diff_grad"
    offsets, lag = segments(tensor, level, op), _within(lag, tensor)
    bounds, lod = _left(tensor.lod, level, offsets, lag, pad_value)
    rows = tensor.rows if bounds is None else bounds.item(-1)
    flow = upstream_of(upstream, (rows, *tensor.row_shape), op, lod)
    run = on(backend, segment_diff_grad, size_bytes=flow.nbytes)
    return tensor._with_rows(run(flow, offsets, bounds, lag))


def difference_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of differences of numbers of this dtype."""
    return _INT64 if dtype.kind in "iub" else dtype


def _within(lag: int, tensor: LoDTensor) -> int:
    """Return a lag of at most all rows, with which no row number overflows."""
    return max(-tensor.rows, min(operator.index(lag), tensor.rows))


def _left(
    lod: LoD, level: int | str, offsets: Offsets, lag: int, pad_value: float | str | None
) -> tuple[Offsets | None, LoD]:
    """Return the offsets and the index of the rows that have a row `lag` before.

    With a pad_value they are None and the index of all rows.
    """
    if pad_value is not None:
        return None, lod
    lengths = np.maximum(offsets_to_lengths(offsets) - abs(lag), 0)
    bounds, number = lengths_to_offsets(lengths, level=0), lod.level(level)
    if number == lod.n_levels - 1:
        return bounds, LoD._trusted((*lod.levels[:number], bounds), lod.names)
    ends = lod.levels[-1]
    if lengths.size:
        at = np.minimum(offsets.searchsorted(ends, "right") - 1, lengths.size - 1)
        left = np.maximum(ends - offsets[at] - max(lag, 0), 0)
        ends = np.minimum(bounds[at] + left, bounds[at + 1])
    return bounds, LoD._trusted((*lod.levels[:-1], ends), lod.names)


def _both_valid(mask: Mask | None, offsets: Offsets, lag: int, *, padded: bool) -> Mask | None:
    """Return which differences are not null; None if none is."""
    if mask is None:
        return None
    earlier = has_earlier(offsets, lag)
    both: Mask = mask & segment_shift(mask, offsets, lag)
    return both | ~earlier if padded else both[earlier]


# -- NumPy -----------------------------------------------------------------------------


def has_earlier(offsets: Offsets, lag: int) -> Mask:
    """Return which rows have a row `lag` before them in their segment, (N,)."""
    numbers = segment_numbers(offsets)
    earlier = np.arange(numbers.size) - lag
    found: Mask = (earlier >= offsets[numbers]) & (earlier < offsets[numbers + 1])
    return found


def segment_shift(
    data: Array, offsets: Offsets, lag: int, *, pad_value: npt.ArrayLike = 0
) -> Array:
    """Return the row `lag` before each row in its segment, `pad_value` if there is none."""
    rows = np.flatnonzero(has_earlier(offsets, lag))
    result = np.full(data.shape, pad_value, data.dtype)
    result[rows] = data[rows - lag]
    return result


@np.errstate(all="ignore")
def segment_diff(
    data: Array,
    offsets: Offsets,
    bounds: Offsets | None,
    lag: int,
    *,
    pad_value: npt.ArrayLike = 0,
) -> Array:
    """Return each row minus the row `lag` before it in its segment.

    Args:
        data: (N, ...).
        offsets: (S+1,).
        bounds: offsets of the result, (S+1,), from which rows without a row `lag` before are left
            out; None: these are `pad_value`.
        lag: at most N, at least -N.
        pad_value: of shape ().

    Returns:
        (bounds[-1], ...), or (N, ...) without `bounds`.
    """
    rows = np.flatnonzero(has_earlier(offsets, lag))
    numbers = data.astype(difference_dtype(data.dtype), copy=False)
    found: Array = numbers[rows] - numbers[rows - lag]
    if bounds is not None:
        return found
    result = np.full(data.shape, pad_value, numbers.dtype)
    result[rows] = found
    return result


@np.errstate(all="ignore")
def segment_diff_grad(upstream: Array, offsets: Offsets, bounds: Offsets | None, lag: int) -> Array:
    """Return the gradient of `segment_diff` for its data, (N, ...)."""
    rows = np.flatnonzero(has_earlier(offsets, lag))
    flow = upstream.astype(difference_dtype(upstream.dtype), copy=False)
    flow = flow[rows] if bounds is None else flow
    result = np.zeros((int(offsets[-1]), *upstream.shape[1:]), flow.dtype)
    result[rows] = flow
    result[rows - lag] -= flow
    return result
