"""Gradients of pool.py.

sum   dx[r] = dy[s]             sqrt  dy[s] / sqrt(n)
mean  dx[r] = dy[s] / n         first, last, max, min   dy[s] to the row taken, else 0
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.ops.arguments import require_order, segments, zero
from lodcli.kernels.ops.dtypes import in_working_dtype
from lodcli.kernels.ops.pooling.pool import segment_max_index, segment_min_index
from lodcli.kernels.ops.rows import per_row, row_width
from lodcli.kernels.ops.upstream import Upstream, rows_of, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_sum_grad(
    upstream: Upstream, tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the gradient of `sequence_sum` for `tensor`.

    Args:
        upstream: (S, ...), the gradient of the result.
        tensor, level: as passed to the op; of the tensor only its index and shape are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> words = LoDTensor(np.array([1.0, 2.0, 3.0]), [[2, 0, 1]])
    >>> sequence_sum_grad([5.0, 7.0, 9.0], words).data.tolist()
    [5.0, 5.0, 9.0]
    """
    return _spread(segment_sum_grad, upstream, tensor, level, backend)


@types_explained
def sequence_mean_grad(
    upstream: Upstream, tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the gradient of `sequence_mean`. See `sequence_sum_grad`."""
    return _spread(segment_mean_grad, upstream, tensor, level, backend)


@types_explained
def sequence_sqrt_grad(
    upstream: Upstream, tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the gradient of `sequence_sqrt`. See `sequence_sum_grad`."""
    return _spread(segment_sqrt_grad, upstream, tensor, level, backend)


@types_explained
def sequence_first_grad(
    upstream: Upstream, tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the gradient of `sequence_first`. See `sequence_sum_grad`."""
    return _spread(segment_first_grad, upstream, tensor, level, backend)


@types_explained
def sequence_last_grad(
    upstream: Upstream, tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the gradient of `sequence_last`. See `sequence_sum_grad`."""
    return _spread(segment_last_grad, upstream, tensor, level, backend)


@types_explained
def sequence_max_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    index: LoDTensor | Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_max`, and of the values of `sequence_max_index`.

    Args:
        upstream: (S, ...), the gradient of the values.
        tensor, level: as passed to the op; with `index` only the tensor's index and shape are read.
        index: (S, ...) int64, the rows that `sequence_max_index` returned. None: `backend`
            finds them again.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`: the gradient in the rows
        of the maxima, zeros elsewhere.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `upstream` or `index` has another shape than the result, or `index` has
            a row that does not exist.

    >>> words = LoDTensor(np.array([1.0, 7.0, 3.0]), [[2, 1]])
    >>> sequence_max_grad([5.0, 9.0], words).data.tolist()
    [0.0, 5.0, 9.0]
    """
    return _to_taken(
        "sequence_max_grad", segment_max_index, upstream, tensor, level, index, backend
    )


@types_explained
def sequence_min_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    index: LoDTensor | Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_min` and `sequence_min_index`. See `sequence_max_grad`."""
    return _to_taken(
        "sequence_min_grad", segment_min_index, upstream, tensor, level, index, backend
    )


def _spread(
    reference: Callable[[Array, Offsets], Array],
    upstream: Upstream,
    tensor: LoDTensor,
    level: int | str,
    backend: Backend,
) -> LoDTensor:
    op = reference.__name__.replace("segment", "sequence")
    flow, offsets = _pooled(upstream, tensor, level, op)
    # Sized by the result, which may have far more rows than the upstream gradient.
    size = tensor.rows * (flow.nbytes // max(1, flow.shape[0]))
    return tensor._with_rows(on(backend, reference, size_bytes=size)(flow, offsets))


def _to_taken(
    op: str,
    reference: Callable[..., tuple[Array, Offsets]],
    upstream: Upstream,
    tensor: LoDTensor,
    level: int | str,
    index: LoDTensor | Array | None,
    backend: Backend,
) -> LoDTensor:
    flow, offsets = _pooled(upstream, tensor, level, op)
    if index is None:
        data = tensor.data
        require_order(data.dtype, op)
        find = on(backend, reference, size_bytes=data.nbytes)
        taken = find(data, offsets, pad_value=zero(data.dtype))[1]
        back = on("auto", segment_taken_grad, size_bytes=flow.nbytes)
        return tensor._with_rows(back(flow, taken, offsets))
    rows, taken = tensor.rows, rows_of(index)
    if taken.shape != flow.shape:
        raise ShapeMismatchError(f"{op}: index: expected shape {flow.shape}, found {taken.shape}")
    if taken.dtype.kind not in "iu":
        raise InvalidDataError(f"{op}: index must hold whole numbers, found {taken.dtype}")
    if taken.size and bool(((taken < -1) | (taken >= rows)).any()):
        raise ShapeMismatchError(f"{op}: index names a row outside 0 to {rows - 1}")
    put = on("auto", segment_max_grad, size_bytes=flow.nbytes)
    return tensor._with_rows(put(flow, taken, rows))


def _pooled(
    upstream: Upstream, tensor: LoDTensor, level: int | str, op: str
) -> tuple[Array, Offsets]:
    """Return the rows of the upstream gradient, one for each sequence, and the offsets."""
    offsets = segments(tensor, level, op)
    shape = (offsets.size - 1, *tensor.row_shape)
    return upstream_of(upstream, shape, op, tensor.lod.above(level)), offsets


def segment_sum_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return upstream[s] for every row of segment s: (S, ...) to (N, ...)."""
    return np.repeat(upstream, offsets_to_lengths(offsets), axis=0)


def segment_mean_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return upstream[s] / n for every row: (S, ...) to (N, ...)."""
    return segment_sum_grad(divided_rows(upstream, offsets, root=False), offsets)


def segment_sqrt_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return upstream[s] / sqrt(n) for every row: (S, ...) to (N, ...)."""
    return segment_sum_grad(divided_rows(upstream, offsets, root=True), offsets)


def segment_first_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return zeros but upstream[s] in the first row of every segment."""
    result = np.zeros((int(offsets[-1]), *upstream.shape[1:]), upstream.dtype)
    full = offsets[:-1] < offsets[1:]
    result[offsets[:-1][full]] = upstream[full]
    return result


def segment_last_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return zeros but upstream[s] in the last row of every segment."""
    result = np.zeros((int(offsets[-1]), *upstream.shape[1:]), upstream.dtype)
    full = offsets[:-1] < offsets[1:]
    result[offsets[1:][full] - 1] = upstream[full]
    return result


def segment_max_grad(upstream: Array, index: Array, rows: int) -> Array:
    """Return zeros but upstream[s, d] in row index[s, d] of column d; -1 is no row."""
    width = row_width(upstream.shape)
    # An extra last row takes the writes of -1. Segments share no other row: no write is lost.
    result = np.zeros((rows + 1, width), upstream.dtype)
    taken = index.reshape(len(index), width)
    result[taken, np.arange(width)] = upstream.reshape(taken.shape)
    return result[:rows].reshape(rows, *upstream.shape[1:])


def segment_taken_grad(upstream: Array, index: Array, offsets: Offsets) -> Array:
    """See `segment_max_grad`; index[s, d] is a row of segment s, as max and min give it, or -1."""
    return segment_max_grad(upstream, index, int(offsets[-1]))


@np.errstate(all="ignore")
def divided_rows(upstream: Array, offsets: Offsets, *, root: bool) -> Array:
    """Return every row divided by the length of its segment, or by the square root of the length.

    The dtype is that of `upstream`, or float64 for integers.
    """
    lengths = np.maximum(offsets_to_lengths(offsets), 1).astype(np.float64)
    by = np.sqrt(lengths) if root else lengths
    dtype = upstream.dtype if upstream.dtype.kind not in "iub" else np.dtype(np.float64)
    rows = in_working_dtype(upstream) / per_row(by, upstream.ndim)
    return rows.astype(dtype)
