"""Gradients of conv.py, from its inputs."""

from __future__ import annotations

import numpy.typing as npt

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.arguments import working
from lodcli.kernels.ops.conv.conv import (
    conv_arguments,
    row_conv_arguments,
    segment_conv_grad,
    segment_row_conv_grad,
    strided_offsets,
)
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_conv_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    weight: npt.ArrayLike,
    *,
    context_length: int,
    context_start: int,
    stride: int = 1,
    padding: npt.ArrayLike | None = None,
    level: int | str | None = None,
    backend: Backend = "auto",
) -> tuple[LoDTensor, Array, Array | None]:
    """Return the gradients of `sequence_conv` for `tensor`, `weight` and `padding`.

    Args:
        upstream: (rows, M), the gradient of the result.
        tensor, weight, context_length, context_start, stride, padding, level: as passed to the op.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, D) under the index of `tensor`, (K * D, M) and (P, D), each in the dtype of its
        argument; None in place of a `padding` that is None.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_conv`; or `upstream`
            has another shape or index than the result.

    >>> import numpy as np
    >>> words = LoDTensor(np.array([[1.0], [2.0], [3.0]]), [[2, 1]])
    >>> rows, weight, _ = sequence_conv_grad(
    ...     np.ones((3, 1)), words, [[1.0], [10.0]], context_length=2, context_start=0
    ... )
    >>> rows.data.ravel().tolist(), weight.ravel().tolist()
    ([1.0, 11.0, 1.0], [6.0, 2.0])
    """
    op = "sequence_conv_grad"
    given = conv_arguments(
        tensor, weight, context_length, context_start, stride, padding, level, op
    )
    offsets = strided_offsets(given.offsets, stride)
    lod = tensor.lod if stride == 1 else (*tensor.lod.levels[: given.level], offsets)
    flow = upstream_of(upstream, (offsets.item(-1), given.weight.shape[1]), op, lod)
    run = on(backend, segment_conv_grad, size_bytes=tensor.nbytes)
    rows, matrix, extra = run(
        *(given.data, given.offsets, given.weight, working(flow, op)),
        context_start=context_start,
        stride=stride,
        padding=given.padding,
    )
    if extra is not None and padding is not None:
        extra = as_dtype(extra, as_array(padding).dtype)
    return (
        tensor._with_rows(as_dtype(rows, tensor.dtype)),
        as_dtype(matrix, as_array(weight).dtype),
        extra,
    )


@types_explained
def sequence_row_conv_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    weight: npt.ArrayLike,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> tuple[LoDTensor, Array]:
    """Return the gradients of `sequence_row_conv` for `tensor` and `weight`.

    Args:
        upstream: the gradient of the result, in the shape of the rows.
        tensor, weight, level: as passed to the op.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor` and (K, D), each in the dtype of its argument.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_row_conv`; or `upstream`
            has another shape or index than the result.

    >>> import numpy as np
    >>> words = LoDTensor(np.array([[1.0], [2.0], [3.0]]), [[2, 1]])
    >>> rows, weight = sequence_row_conv_grad(np.ones((3, 1)), words, [[1.0], [10.0]])
    >>> rows.data.ravel().tolist(), weight.ravel().tolist()
    ([1.0, 11.0, 1.0], [6.0, 2.0])
    """
    op = "sequence_row_conv_grad"
    data, offsets, matrix = row_conv_arguments(tensor, weight, level, op)
    shape = tensor.data.shape
    flow = working(upstream_of(upstream, shape, op, tensor.lod), op)
    run = on(backend, segment_row_conv_grad, size_bytes=tensor.nbytes)
    rows, grad = run(data, offsets, matrix, flow.reshape(data.shape))
    return (
        tensor._with_rows(as_dtype(rows.reshape(shape), tensor.dtype)),
        as_dtype(grad, as_array(weight).dtype),
    )
