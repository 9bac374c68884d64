"""Convolution over the rows of every sequence, and row convolution."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.ops.arguments import (
    MOST_ITEMS,
    chosen_level,
    recut,
    require_at_least,
    require_shape,
    segment_numbers,
    segments,
    working,
)
from lodcli.kernels.ops.dtypes import common_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_conv(
    tensor: LoDTensor,
    weight: npt.ArrayLike,
    *,
    context_length: int,
    context_start: int,
    stride: int = 1,
    padding: npt.ArrayLike | None = None,
    level: int | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the rows around each row, side by side, times a weight matrix.

        out[t] = concat(x[t + start], x[t + start + 1], ..) @ weight

    with `context_length` rows, all from the sequence of the row. A row before or after the sequence
    is zero, or one of `padding`: with up = max(0, -start), the j-th row before a sequence
    (j = 1 is next to it) is padding[up - j], the j-th row after it padding[up + j - 1].

    Args:
        tensor: data (N, D), floating point.
        weight: (K * D, M).
        context_length: number of rows in the context of a row, K; 1 or more.
        context_start: where the context begins, relative to the row; any sign and size.
        stride: compute only rows 0, stride, 2 * stride, .. of every sequence.
        padding: rows outside of the sequence, (P, D) with P = max(0, -context_start) +
            max(0, context_start + K - 1); by default zeros.
        level: the level whose sequences are convolved; by default the only one.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, M) under the same index. With a stride, ceil(n / stride) rows for a
        sequence of n, and no levels below `level`.

    Raises:
        SelectionError: there is no such level, or there are several and none is chosen.
        InvalidDataError, ShapeMismatchError: dtypes or shapes do not match.

    References:
        PaddlePaddle 2.6.2, sequence_conv (stride 1 only; its gradient of the weights is
        wrong for sequences not longer than a positive context_start; this one is not).

    >>> words = LoDTensor(np.array([[1.0], [2.0], [3.0]]), [[2, 1]])
    >>> sequence_conv(words, np.eye(2), context_length=2, context_start=0).data.tolist()
    [[1.0, 2.0], [2.0, 0.0], [3.0, 0.0]]
    """
    given = conv_arguments(
        tensor, weight, context_length, context_start, stride, padding, level, "sequence_conv"
    )
    out = on(backend, segment_conv, size_bytes=tensor.nbytes)(
        *(given.data, given.offsets, given.weight),
        context_start=context_start,
        stride=stride,
        padding=given.padding,
    )
    out = as_dtype(out, common_dtype(tensor.dtype, as_array(weight).dtype))
    if stride == 1:
        return tensor._with_rows(out)
    return LoDTensor._made(
        out, recut(tensor.lod, given.level, strided_offsets(given.offsets, stride))
    )


class ConvArguments(NamedTuple):
    """The checked arguments of `sequence_conv`, in the dtype of the computation."""

    level: int
    offsets: Offsets
    data: Array
    weight: Array
    padding: Array | None


def conv_arguments(
    tensor: LoDTensor,
    weight: npt.ArrayLike,
    context_length: int,
    context_start: int,
    stride: int,
    padding: npt.ArrayLike | None,
    level: int | str | None,
    op: str,
) -> ConvArguments:
    """Return the checked arguments of `sequence_conv`; raises its errors."""
    number = chosen_level(tensor.lod, level, op)
    require_at_least(context_length, 1, "context_length")
    require_at_least(stride, 1, "stride")
    if max(context_length, abs(context_start), stride) >= MOST_ITEMS:
        raise OptionError(
            f"{op}: context_length, context_start and stride must be below 2**61, found "
            f"{context_length}, {context_start} and {stride}"
        )
    data, matrix = working(tensor.data, op), working(weight, f"the weight of {op}")
    if data.ndim != 2 or matrix.ndim != 2:
        raise ShapeMismatchError(
            f"{op} needs data (N, D) and weight (K * D, M), found {data.shape} and {matrix.shape}"
        )
    width = data.shape[1]
    require_shape(matrix.shape, (context_length * width, matrix.shape[1]), "weight")
    extra = None if padding is None else working(padding, f"the padding of {op}")
    if extra is not None:
        rows = max(0, -context_start) + max(0, context_start + context_length - 1)
        require_shape(extra.shape, (rows, width), "padding")
        extra = extra if extra.dtype is data.dtype else as_dtype(extra, data.dtype)
    return ConvArguments(number, tensor.lod.absolute(number), data, matrix, extra)


@types_explained
def sequence_row_conv(
    tensor: LoDTensor, weight: npt.ArrayLike, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return every row plus those that follow it in its sequence, weighted by column.

        out[t, d] = sum over k of weight[k, d] * x[t + k, d]

    Args:
        tensor: data (N, D), floating point; or, without levels, a padded batch (B, T, D).
        weight: (K, D), K at least 1: the row itself and K - 1 rows ahead.
        level: the level of the sequences, beyond whose ends rows count as 0; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data of the same shape under the same index. An empty sequence stays empty.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError, ShapeMismatchError: dtypes or shapes do not match.

    References:
        Amodei et al. (2016), "Deep Speech 2", lookahead convolution.

    >>> words = LoDTensor(np.array([[1.0], [2.0], [3.0]]), [[2, 1]])
    >>> sequence_row_conv(words, [[1.0], [10.0]]).data.ravel().tolist()
    [21.0, 2.0, 3.0]
    """
    data, offsets, matrix = row_conv_arguments(tensor, weight, level, "row_conv")
    out = on(backend, segment_row_conv, size_bytes=tensor.nbytes)(data, offsets, matrix)
    out = as_dtype(out, common_dtype(tensor.dtype, as_array(weight).dtype))
    return tensor._with_rows(out.reshape(tensor.data.shape))


def row_conv_arguments(
    tensor: LoDTensor, weight: npt.ArrayLike, level: int | str, op: str
) -> tuple[Array, Offsets, Array]:
    """Return rows (N, D), their offsets and the weight (K, D), checked."""
    data, matrix = working(tensor.data, op), working(weight, f"the weight of {op}")
    if not tensor.lod.n_levels and data.ndim == 3:
        batch, steps, width = data.shape
        offsets = np.arange(batch + 1, dtype=np.int64) * steps
        data = data.reshape(batch * steps, width)
    else:
        offsets = segments(tensor, level, op)
    if data.ndim != 2 or matrix.ndim != 2 or not len(matrix):
        raise ShapeMismatchError(
            f"{op} needs data (N, D) and weight (K, D), found {tensor.data.shape} "
            f"and {matrix.shape}"
        )
    require_shape(matrix.shape, (len(matrix), data.shape[1]), "weight")
    return data, offsets, matrix


# -- arrays ----------------------------------------------------------------------------


def strided_offsets(offsets: Offsets, stride: int) -> Offsets:
    """Return the offsets of every stride-th row of each segment, (S+1,) int64."""
    if stride == 1:
        return offsets
    return on("auto", segment_strided, size_bytes=offsets.nbytes)(offsets, stride)


def segment_strided(offsets: Offsets, stride: int) -> Offsets:
    """Return `strided_offsets` of any stride.

    >>> segment_strided(np.array([0, 3, 7]), 2).tolist()
    [0, 2, 4]
    """
    return lengths_to_offsets(-(-offsets_to_lengths(offsets) // stride), level=0)


def segment_context(
    data: Array,
    offsets: Offsets,
    *,
    context_length: int,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> Array:
    """Return the rows around each row: (N, D) to (rows, context_length, D)."""
    rows, first, last = _centres(offsets, stride)
    context = np.zeros((rows.size, context_length, data.shape[1]), data.dtype)
    up = max(0, -context_start)
    for k in range(context_length):
        source = rows + (context_start + k)
        before, after = first - source, source - last
        inside = (before <= 0) & (after <= 0)
        context[inside, k] = data[source[inside]]
        if padding is not None:
            context[before > 0, k] = padding[up - before[before > 0]]
            context[after > 0, k] = padding[up + after[after > 0] - 1]
    return context


def _centres(offsets: Offsets, stride: int) -> tuple[Offsets, Offsets, Offsets]:
    """Return the computed rows, and the first and last row of the segment of each."""
    kept = strided_offsets(offsets, stride)
    of = segment_numbers(kept)
    within = ranges(np.zeros(kept.size - 1, np.int64), kept)
    first = offsets[:-1][of]
    return first + stride * within, first, offsets[1:][of] - 1


@np.errstate(all="ignore")
def segment_conv(
    data: Array,
    offsets: Offsets,
    weight: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> Array:
    """Return the convolution of each segment: (N, D) and (K * D, M) to (rows, M)."""
    context = segment_context(
        data,
        offsets,
        context_length=weight.shape[0] // data.shape[1] if data.shape[1] else 1,
        context_start=context_start,
        stride=stride,
        padding=padding,
    )
    return context.reshape(len(context), weight.shape[0]) @ weight


@np.errstate(all="ignore")
def segment_conv_grad(
    data: Array,
    offsets: Offsets,
    weight: Array,
    grad: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> tuple[Array, Array, Array | None]:
    """Return the gradients of `segment_conv` for data, weight and padding.

    Args:
        grad: of the result, (rows, M).

    Returns:
        (N, D), (K * D, M), and (P, D) or None without padding.
    """
    width = data.shape[1]
    length = weight.shape[0] // width if width else 1
    context = segment_context(
        data,
        offsets,
        context_length=length,
        context_start=context_start,
        stride=stride,
        padding=padding,
    )
    grad_weight = context.reshape(len(context), weight.shape[0]).T @ grad
    grad_context = (grad @ weight.T).reshape(context.shape)
    grad_data = np.zeros(data.shape, grad_context.dtype)
    grad_padding = None if padding is None else np.zeros(padding.shape, grad_context.dtype)
    rows, first, last = _centres(offsets, stride)
    up = max(0, -context_start)
    for k in range(length):
        source = rows + (context_start + k)
        before, after = first - source, source - last
        inside = (before <= 0) & (after <= 0)
        # For one k no row is repeated, so += does not lose any addition.
        grad_data[source[inside]] += grad_context[inside, k]
        if grad_padding is not None:
            np.add.at(grad_padding, up - before[before > 0], grad_context[before > 0, k])
            np.add.at(grad_padding, up + after[after > 0] - 1, grad_context[after > 0, k])
    return grad_data, grad_weight, grad_padding


@np.errstate(all="ignore")
def segment_row_conv(data: Array, offsets: Offsets, weight: Array) -> Array:
    """Return the row convolution of each segment: (N, D) and (K, D) to (N, D)."""
    left = offsets[1:][segment_numbers(offsets)] - np.arange(len(data))
    out = np.zeros(data.shape, np.result_type(data, weight))
    for k, scale in enumerate(weight):
        rows = np.flatnonzero(left > k)
        out[rows] += scale * data[rows + k]
    return out


@np.errstate(all="ignore")
def segment_row_conv_grad(
    data: Array, offsets: Offsets, weight: Array, grad: Array
) -> tuple[Array, Array]:
    """Return the gradients of `segment_row_conv` for data, (N, D), and weight, (K, D)."""
    left = offsets[1:][segment_numbers(offsets)] - np.arange(len(data))
    grad_data = np.zeros(data.shape, np.result_type(grad, weight))
    grad_weight = np.zeros(weight.shape, grad_data.dtype)
    for k, scale in enumerate(weight):
        rows = np.flatnonzero(left > k)
        grad_data[rows + k] += scale * grad[rows]
        # In float64: adding float32 rows one by one loses precision over thousands.
        grad_weight[k] = (grad[rows] * data[rows + k]).sum(axis=0, dtype=np.float64)
    return grad_data, grad_weight
