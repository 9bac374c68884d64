"""Softmax over the rows of every sequence, column by column.

y[r] = exp(x[r] - m) / sum of exp(x[q] - m) over the rows q of r's sequence
log  y[r] = x[r] - m - log(that sum)        m: the greatest x[q], so that nothing overflows
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.common import is_half, require_float, result_array, segments
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def sequence_softmax(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the softmax over the rows of every sequence, for each column of its own.

    Args:
        tensor: data (N, ...), floating numbers, at least one level.
        level: the level whose sequences each sum to 1; by default the finest.
        out: where the rows are written, of the result's shape and dtype; by default a new
            array. It may not share memory with what is read.
        backend: "numpy", "numba" or "auto".

    Returns:
        Data and index of the same shape and dtype; float16 and bfloat16 pass through float32.

    Raises:
        SelectionError: no such level.
        InvalidDataError: no floating numbers; `out` does not fit.

    >>> words = LoDTensor(np.array([0.0, 0.0, 1000.0]), [[2, 1]])
    >>> sequence_softmax(words).data.tolist()
    [0.5, 0.5, 1.0]
    """
    return _applied(segment_softmax, tensor, level, out, backend)


def sequence_log_softmax(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the logarithm of `sequence_softmax`, without taking one of a tiny number.

    >>> sequence_log_softmax(LoDTensor([0.0, 0.0, 7.0], [[2, 1]])).data.round(2).tolist()
    [-0.69, -0.69, 0.0]
    """
    return _applied(segment_log_softmax, tensor, level, out, backend)


def sequence_softmax_grad(
    upstream: npt.ArrayLike,
    result: Array,
    lod: LoD,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> Array:
    """Return the gradient of `sequence_softmax` from its result: (N, ...) to (N, ...)."""
    return _gradient(segment_softmax_grad, upstream, result, lod, level, backend)


def sequence_log_softmax_grad(
    upstream: npt.ArrayLike,
    result: Array,
    lod: LoD,
    *,
    level: int | str = -1,
    backend: Backend = "auto",
) -> Array:
    """Return the gradient of `sequence_log_softmax` from its result: (N, ...) to (N, ...)."""
    return _gradient(segment_log_softmax_grad, upstream, result, lod, level, backend)


def _applied(
    reference: Callable[..., Array],
    tensor: LoDTensor,
    level: int | str,
    out: Array | None,
    backend: Backend,
) -> LoDTensor:
    name = reference.__name__.replace("segment", "sequence")
    offsets = segments(tensor, level, name)
    require_float(tensor.data, name)
    kernel = on(backend, reference, size_bytes=tensor.nbytes)
    return tensor.with_data(kernel(tensor.data, offsets, out=out))


def _gradient(
    reference: Callable[[Array, Array, Offsets], Array],
    upstream: npt.ArrayLike,
    result: Array,
    lod: LoD,
    level: int | str,
    backend: Backend,
) -> Array:
    name, flow = reference.__name__.replace("segment", "sequence"), as_array(upstream)
    if flow.shape != result.shape or result.shape[0] != lod.rows:
        raise ShapeMismatchError(
            f"{name}: upstream of shape {flow.shape}, result of shape {result.shape} and an "
            f"index over {lod.rows} rows do not belong together"
        )
    return on(backend, reference, size_bytes=result.nbytes)(flow, result, lod.absolute(level))


def segment_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return the softmax of every segment and column: (N, ...) to (N, ...)."""
    result = result_array(out, data.shape, data.dtype, data)
    powers = np.exp(_shifted(data, offsets))
    result[...] = powers / _over_rows(np.add, powers, offsets)
    return result


def segment_log_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return the logarithm of the softmax of every segment: (N, ...) to (N, ...)."""
    result = result_array(out, data.shape, data.dtype, data)
    shifted = _shifted(data, offsets)
    total = _over_rows(np.add, np.exp(shifted), offsets)
    result[...] = shifted - np.log(total)
    return result


def segment_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """Return y * (dy - sum of dy * y over the segment): (N, ...) to (N, ...)."""
    y, flow = _wide(result), _wide(upstream)
    found: Array = y * (flow - _over_rows(np.add, flow * y, offsets))
    return found.astype(result.dtype)


def segment_log_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """Return dy - exp(y) * (sum of dy over the segment): (N, ...) to (N, ...)."""
    flow = _wide(upstream)
    found: Array = flow - np.exp(_wide(result)) * _over_rows(np.add, flow, offsets)
    return found.astype(result.dtype)


def _wide(data: Array) -> Array:
    return data.astype(np.float32) if is_half(data.dtype) else data


def _shifted(data: Array, offsets: Offsets) -> Array:
    wide = _wide(data)
    with np.errstate(invalid="ignore"):  # an infinity minus itself is NaN, as it should be
        shifted: Array = wide - _over_rows(np.maximum, wide, offsets)
    return shifted


def _over_rows(ufunc: np.ufunc, rows: Array, offsets: Offsets) -> Array:
    """Return ufunc.reduce of every segment, repeated for each of its rows."""
    full = offsets[:-1] < offsets[1:]
    if not full.any():
        return rows
    lengths = (offsets[1:] - offsets[:-1])[full]
    return np.repeat(ufunc.reduceat(rows, offsets[:-1][full], axis=0), lengths, axis=0)
