"""Softmax over the rows of every sequence, column by column.

y[r] = exp(x[r] - m) / sum of exp(x[q] - m) over the rows q of r's sequence
log  y[r] = x[r] - m - log(that sum)        m: the greatest x[q], so that nothing overflows
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import require_float, segments
from lodcli.kernels.ops.dtypes import common_dtype, in_working_dtype
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.ops.upstream import Upstream, rows_of, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_softmax(
    tensor: LoDTensor, *, level: int | str = -1, out: Array | None = None, backend: Backend = "auto"
) -> LoDTensor:
    """Return the softmax over the rows of every sequence, separately for each column.

    Args:
        tensor: data (N, ...), floating-point, at least one level.
        level: the level of the sequences, each of which sums to 1; by default the finest.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data and index of the same shape and dtype; float16 and bfloat16 are computed in float32.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are not floating-point numbers; or `out` is invalid.

    >>> words = LoDTensor(np.array([0.0, 0.0, 1000.0]), [[2, 1]])
    >>> sequence_softmax(words).data.tolist()
    [0.5, 0.5, 1.0]
    """
    return _applied(segment_softmax, tensor, level, out, backend)


@types_explained
def sequence_log_softmax(
    tensor: LoDTensor, *, level: int | str = -1, out: Array | None = None, backend: Backend = "auto"
) -> LoDTensor:
    """Return the logarithm of `sequence_softmax`, also where the softmax underflows to 0.

    Args:
        tensor, out, backend: as for `sequence_softmax`.
        level: the level whose sequences are normalized; by default the finest.

    >>> sequence_log_softmax(LoDTensor([0.0, 0.0, 7.0], [[2, 1]])).data.round(2).tolist()
    [-0.69, -0.69, 0.0]
    """
    return _applied(segment_log_softmax, tensor, level, out, backend)


@types_explained
def sequence_softmax_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    result: LoDTensor | Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_softmax` for `tensor`.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, level: as passed to the op; with `result` only its index and shape are read.
        result: (N, ...), what `sequence_softmax` returned. None: it is computed again.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of the result.

    Raises:
        SelectionError, InvalidDataError: as `sequence_softmax`.
        ShapeMismatchError: `upstream` or `result` has another shape than the rows.

    >>> words = LoDTensor(np.array([0.0, 0.0, 1000.0]), [[2, 1]])
    >>> sequence_softmax_grad([4.0, 0.0, 1.0], words).data.tolist()
    [1.0, -1.0, 0.0]
    """
    return _gradient(
        *(sequence_softmax, segment_softmax_grad), upstream, tensor, level, result, backend
    )


@types_explained
def sequence_log_softmax_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    result: LoDTensor | Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_log_softmax`. See `sequence_softmax_grad`."""
    return _gradient(
        *(sequence_log_softmax, segment_log_softmax_grad), upstream, tensor, level, result, backend
    )


def _applied(
    reference: Callable[..., Array],
    tensor: LoDTensor,
    level: int | str,
    out: Array | None,
    backend: Backend,
) -> LoDTensor:
    name = reference.__name__.replace("segment", "sequence")
    offsets = segments(tensor, level, name)
    data = tensor.data
    require_float(data, name)
    kernel = on(backend, reference, size_bytes=data.nbytes)
    return tensor._with_rows(kernel(data, offsets, out=out))


def _gradient(
    forward: Callable[..., LoDTensor],
    reference: Callable[[Array, Array, Offsets], Array],
    upstream: Upstream,
    tensor: LoDTensor,
    level: int | str,
    result: LoDTensor | Array | None,
    backend: Backend,
) -> LoDTensor:
    op = reference.__name__.replace("segment", "sequence")
    offsets = segments(tensor, level, op)
    shape = tensor.data.shape
    flow = upstream_of(upstream, shape, op, tensor.lod, real=True)
    y = rows_of(forward(tensor, level=level, backend=backend) if result is None else result)
    if y.shape != shape:
        raise ShapeMismatchError(f"{op}: result: expected shape {shape}, found {y.shape}")
    require_float(y, f"{op}: result")
    return tensor._with_rows(on(backend, reference, size_bytes=y.nbytes)(flow, y, offsets))


@np.errstate(all="ignore")
def segment_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return the softmax of every segment and column: (N, ...) to (N, ...)."""
    result = result_array(out, data.shape, data.dtype, data)
    powers = np.exp(_shifted(data, offsets))
    result[...] = powers / _over_rows(np.add, powers, offsets)
    return result


@np.errstate(all="ignore")
def segment_log_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return the logarithm of the softmax of every segment: (N, ...) to (N, ...)."""
    result = result_array(out, data.shape, data.dtype, data)
    shifted = _shifted(data, offsets)
    total = _over_rows(np.add, np.exp(shifted), offsets)
    result[...] = shifted - np.log(total)
    return result


@np.errstate(all="ignore")
def segment_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """Return y * (dy - sum of dy * y over the segment): (N, ...) to (N, ...)."""
    y, flow = in_working_dtype(result), in_working_dtype(upstream)
    found: Array = y * (flow - _over_rows(np.add, flow * y, offsets))
    return found.astype(result.dtype)


@np.errstate(all="ignore")
def segment_log_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """Return dy - exp(y) * (sum of dy over the segment): (N, ...) to (N, ...)."""
    y, flow = in_working_dtype(result), in_working_dtype(upstream)
    # In the narrower dtype, the power of e could underflow, and the sum overflow.
    dtype = common_dtype(y.dtype, flow.dtype)
    y, flow = y.astype(dtype, copy=False), flow.astype(dtype, copy=False)
    found: Array = flow - np.exp(y) * _over_rows(np.add, flow, offsets)
    return found.astype(result.dtype)


def _shifted(data: Array, offsets: Offsets) -> Array:
    wide = in_working_dtype(data)
    with np.errstate(invalid="ignore"):  # infinity - infinity is NaN, as intended
        shifted: Array = wide - _over_rows(np.maximum, wide, offsets)
    return shifted


def _over_rows(ufunc: np.ufunc, rows: Array, offsets: Offsets) -> Array:
    """Return the reduction of every segment, repeated for each of its rows."""
    full = offsets[:-1] < offsets[1:]
    if not full.any():
        return rows
    lengths = (offsets[1:] - offsets[:-1])[full]
    return np.repeat(ufunc.reduceat(rows, offsets[:-1][full], axis=0), lengths, axis=0)
