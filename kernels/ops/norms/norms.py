"""Normalises every row over its features, independent of its sequence.

    layer_norm   y = (x - mean x) / sqrt(var x + epsilon) * w + b
    rms_norm     y = x / sqrt(mean x^2 + epsilon) * w

With z the row before w and b, g = dy w, and r = 1 / sqrt(..), the gradients are

    layer_norm   dx = r (g - mean g - z mean(g z)),   dw = sum over rows of dy z,   db = of dy
    rms_norm     dx = r (g - z mean(g z)),            dw = sum over rows of dy z
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, OptionError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.arguments import require_float, require_shape
from lodcli.kernels.ops.dtypes import working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.rows import row_width
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_layer_norm(
    tensor: LoDTensor,
    *,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    epsilon: float = 1e-5,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every row with mean 0 and variance 1 over its features, scaled and shifted.

    Args:
        tensor: data (N, ...), floating point, with or without levels. All the D values of
            a row are its features.
        weight: factors of the features, an array of a row's shape; by default 1.
        bias: summands of the features, an array of a row's shape; by default 0.
        epsilon: added to the variance, whose divisor is D; above 0.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, ...), same dtype, under the same index. float16 and bfloat16 are worked
        out in float32.

    Raises:
        InvalidDataError: the rows are not floating-point, or `epsilon` is not above 0.
        ShapeMismatchError: `weight` or `bias` has another shape.

    References:
        Ba, Kiros and Hinton (2016), "Layer Normalization".

    >>> tensor = LoDTensor(np.array([[1.0, 3.0], [5.0, 5.0]]), [[2]])
    >>> sequence_layer_norm(tensor, bias=[10.0, 20.0]).data.round(3).tolist()
    [[9.0, 21.0], [10.0, 20.0]]
    """
    op = "sequence_layer_norm"
    _check(tensor.data, epsilon, op)
    w, b = _feature(weight, tensor, "weight", op), _feature(bias, tensor, "bias", op)
    run = on(backend, rows_layer_norm, size_bytes=tensor.nbytes)
    return _rewrapped(run(_matrix(tensor.data), w, b, epsilon), tensor)


@types_explained
def sequence_rms_norm(
    tensor: LoDTensor,
    *,
    weight: npt.ArrayLike | None = None,
    epsilon: float = 1e-5,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every row divided by its root mean square, scaled. See `sequence_layer_norm`.

    Args:
        tensor, backend: as for `sequence_layer_norm`.
        weight: factors of the features, an array of a row's shape; by default 1.
        epsilon: added to the mean square; above 0.

    References:
        Zhang and Sennrich (2019), "Root Mean Square Layer Normalization".

    >>> tensor = LoDTensor(np.array([[1.0, -7.0], [0.0, 0.0]]), [[2]])
    >>> sequence_rms_norm(tensor).data.round(3).tolist()
    [[0.2, -1.4], [0.0, 0.0]]
    """
    op = "sequence_rms_norm"
    _check(tensor.data, epsilon, op)
    w = _feature(weight, tensor, "weight", op)
    run = on(backend, rows_rms_norm, size_bytes=tensor.nbytes)
    return _rewrapped(run(_matrix(tensor.data), w, epsilon), tensor)


@types_explained
def sequence_layer_norm_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    weight: npt.ArrayLike | None = None,
    bias: npt.ArrayLike | None = None,
    epsilon: float = 1e-5,
    backend: Backend = "auto",
) -> tuple[LoDTensor, Array, Array]:
    """Return the gradients of `sequence_layer_norm` for `tensor`, `weight` and `bias`.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, weight, bias, epsilon: as passed to the op; of the bias only its shape is read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor` and two arrays of a row's shape, also where weight
        or bias are None; all of the dtype of the tensor.

    Raises:
        InvalidDataError, ShapeMismatchError: as `sequence_layer_norm`; or `upstream` has
            another shape or index than the rows.
    """
    op = "sequence_layer_norm_grad"
    data = tensor.data
    _check(data, epsilon, op)
    if bias is not None:
        require_shape(as_array(bias).shape, data.shape[1:], f"{op}: bias")
    flow = _matrix(upstream_of(upstream, data.shape, op, tensor.lod, real=True))
    w = _feature(weight, tensor, "weight", op)
    run = on(backend, rows_layer_norm_grad, size_bytes=data.nbytes)
    rows, scale, shift = run(flow, _matrix(data), w, epsilon)
    return _rewrapped(rows, tensor), _like_row(scale, tensor), _like_row(shift, tensor)


@types_explained
def sequence_rms_norm_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    weight: npt.ArrayLike | None = None,
    epsilon: float = 1e-5,
    backend: Backend = "auto",
) -> tuple[LoDTensor, Array]:
    """Return the gradients of `sequence_rms_norm` for `tensor` and `weight`.

    See `sequence_layer_norm_grad`.
    """
    op = "sequence_rms_norm_grad"
    data = tensor.data
    _check(data, epsilon, op)
    flow = _matrix(upstream_of(upstream, data.shape, op, tensor.lod, real=True))
    w = _feature(weight, tensor, "weight", op)
    run = on(backend, rows_rms_norm_grad, size_bytes=data.nbytes)
    rows, scale = run(flow, _matrix(data), w, epsilon)
    return _rewrapped(rows, tensor), _like_row(scale, tensor)


def _check(data: Array, epsilon: float, op: str) -> None:
    require_float(data, op)
    # Not epsilon <= 0, which a NaN would pass.
    if not epsilon > 0:
        raise OptionError(f"{op}: epsilon must be above 0, found {epsilon}")


def _feature(given: npt.ArrayLike | None, tensor: LoDTensor, what: str, op: str) -> Array | None:
    """Return a weight or bias as (D,), in the dtype of the rows or of the computation; or None."""
    if given is None:
        return None
    array = as_array(given)
    if not is_float(array.dtype) and array.dtype.kind not in "iu":
        raise InvalidDataError(f"{op}: {what} must be real numbers, found {array.dtype}")
    require_shape(array.shape, tensor.row_shape, f"{op}: {what}")
    dtype = tensor.dtype if array.dtype == tensor.dtype else working_dtype(tensor.dtype)
    array = as_dtype(array, dtype)
    return array if array.ndim == 1 else array.reshape(-1)


def _matrix(data: Array) -> Array:
    if data.ndim == 2:  # fast path
        return data
    return data.reshape(data.shape[0], row_width(data.shape))


def _like_row(row: Array, tensor: LoDTensor) -> Array:
    shape = tensor.row_shape
    return as_dtype(row if len(shape) == 1 else row.reshape(shape), tensor.dtype)


def _rewrapped(rows: Array, tensor: LoDTensor) -> LoDTensor:
    shape = tensor.row_shape
    rows = rows if len(shape) == 1 else rows.reshape(rows.shape[0], *shape)
    return tensor._with_rows(as_dtype(rows, tensor.dtype))


# -- NumPy -----------------------------------------------------------------------------


@np.errstate(all="ignore")
def rows_layer_norm(data: Array, weight: Array | None, bias: Array | None, epsilon: float) -> Array:
    """Return the normalised rows: (N, D), (D,) and (D,) to (N, D), computed in float64.

    For float16 and bfloat16 the result may be float32. A weight of None is 1, a bias of None 0.
    """
    z, _ = _normed(_centred(data), epsilon)
    return (_scaled(z, weight) + (0 if bias is None else bias)).astype(working_dtype(data.dtype))


@np.errstate(all="ignore")
def rows_rms_norm(data: Array, weight: Array | None, epsilon: float) -> Array:
    """Return the rows over their root mean square: (N, D) and (D,) to (N, D)."""
    z, _ = _normed(data.astype(np.float64), epsilon)
    return _scaled(z, weight).astype(working_dtype(data.dtype))


@np.errstate(all="ignore")
def rows_layer_norm_grad(
    upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    """Return the gradients for the rows (N, D), the weight (D,) and the bias (D,)."""
    flow = upstream.astype(np.float64)
    z, r = _normed(_centred(data), epsilon)
    g = _scaled(flow, weight)
    rows = r * (g - _mean(g) - z * _mean(g * z))
    dtype = working_dtype(data.dtype)
    return (
        rows.astype(dtype),
        (flow * z).sum(axis=0).astype(dtype),
        flow.sum(axis=0).astype(dtype),
    )


@np.errstate(all="ignore")
def rows_rms_norm_grad(
    upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array]:
    """Return the gradients for the rows (N, D) and the weight (D,)."""
    flow = upstream.astype(np.float64)
    z, r = _normed(data.astype(np.float64), epsilon)
    g = _scaled(flow, weight)
    rows = r * (g - z * _mean(g * z))
    dtype = working_dtype(data.dtype)
    return rows.astype(dtype), (flow * z).sum(axis=0).astype(dtype)


def _scaled(rows: Array, weight: Array | None) -> Array:
    return rows if weight is None else rows * weight


def _mean(rows: Array) -> Array:
    # Not mean(), which warns about rows without features.
    result: Array = rows.sum(axis=1, keepdims=True) / max(1, rows.shape[1])
    return result


def _centred(data: Array) -> Array:
    rows = data.astype(np.float64)
    return rows - _mean(rows)


def _normed(rows: Array, epsilon: float) -> tuple[Array, Array]:
    """Return the rows divided by their root mean square, and its reciprocal (N, 1)."""
    r: Array = 1 / np.sqrt(_mean(rows * rows) + epsilon)
    return rows * r, r
