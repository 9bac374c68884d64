"""Prefix sums and products of the rows within each sequence.

    cumsum    y[lo+t] = x[lo] + .. + x[lo+t]       exclusive: .. + x[lo+t-1], 0 first
    cumprod   y[lo+t] = x[lo] * .. * x[lo+t]       exclusive: .. * x[lo+t-1], 1 first

`reverse` counts from the sequence's end: y[lo+t] = x[lo+t] + .. + x[hi-1].
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.ops.arguments import require_float, segment_numbers, segments
from lodcli.kernels.ops.dtypes import summed_dtype, working_dtype
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_cumsum(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    exclusive: bool = False,
    reverse: bool = False,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the sum of every row and those before it in its sequence.

    Args:
        tensor: data (N, ...), any dtype, at least one level.
        level: the level whose sequences are summed; by default the finest.
        exclusive: leave the row itself out; the first row of a sequence is then 0.
        reverse: sum from the end of the sequence.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, ...) under the same index. Floats keep their dtype (float16 and bfloat16
        are summed in float32); integers and booleans give int64, unsigned ones uint64,
        and wrap around where that overflows.

    Raises:
        SelectionError: there is no such level.

    >>> tensor = LoDTensor(np.array([1, 2, 3, 4]), [[3, 1]])
    >>> sequence_cumsum(tensor).data.tolist()
    [1, 3, 6, 4]
    >>> sequence_cumsum(tensor, exclusive=True, reverse=True).data.tolist()
    [5, 3, 0, 0]
    """
    return _applied(segment_cumsum, tensor, level, exclusive, reverse, backend)


@types_explained
def sequence_cumprod(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    exclusive: bool = False,
    reverse: bool = False,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the product of every row and those before it; see `sequence_cumsum`.

    Args:
        tensor, backend: as for `sequence_cumsum`.
        level: the level whose sequences are multiplied; by default the finest.
        exclusive: leave the row itself out; the first row of a sequence is then 1.
        reverse: multiply from the end of the sequence.

    >>> sequence_cumprod(LoDTensor(np.array([2, 3, 4, 5]), [[3, 1]])).data.tolist()
    [2, 6, 24, 5]
    """
    return _applied(segment_cumprod, tensor, level, exclusive, reverse, backend)


@types_explained
def sequence_cumsum_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    exclusive: bool = False,
    reverse: bool = False,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_cumsum` for `tensor`: a cumsum in the other direction.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, level, exclusive, reverse: as passed to the op; of the tensor only its index and
            shape are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, dtype as `sequence_cumsum` gives.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> words = LoDTensor(np.zeros(3), [[2, 1]])
    >>> sequence_cumsum_grad([1.0, 2.0, 4.0], words).data.tolist()
    [3.0, 2.0, 4.0]
    """
    op = "sequence_cumsum_grad"
    offsets = segments(tensor, level, op)
    flow = upstream_of(upstream, tensor.data.shape, op, tensor.lod)
    run = on(backend, segment_cumsum, size_bytes=flow.nbytes)
    return tensor._with_rows(run(flow, offsets, exclusive=exclusive, reverse=not reverse))


@types_explained
def sequence_cumprod_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    exclusive: bool = False,
    reverse: bool = False,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_cumprod` for `tensor`, also where rows are zero.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, level, exclusive, reverse: as passed to the op, floating point.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, its dtype, computed in float64.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: `tensor` is not floating point.
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> sequence_cumprod_grad([1.0, 1.0], LoDTensor(np.array([3.0, 0.0]), [[2]])).data.tolist()
    [1.0, 3.0]
    """
    op, data = "sequence_cumprod_grad", tensor.data
    offsets = segments(tensor, level, op)
    require_float(data, op)
    flow = upstream_of(upstream, data.shape, op, tensor.lod, real=True)
    run = on(backend, segment_cumprod_grad, size_bytes=data.nbytes)
    return tensor._with_rows(run(flow, data, offsets, exclusive=exclusive, reverse=reverse))


def _applied(
    reference: Callable[..., Array],
    tensor: LoDTensor,
    level: int | str,
    exclusive: bool,
    reverse: bool,
    backend: Backend,
) -> LoDTensor:
    offsets = segments(tensor, level, reference.__name__.replace("segment", "sequence"))
    run = on(backend, reference, size_bytes=tensor.nbytes)
    return tensor._with_rows(run(tensor.data, offsets, exclusive=exclusive, reverse=reverse))


# -- NumPy -----------------------------------------------------------------------------


@np.errstate(all="ignore")
def segment_cumsum(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """Return the running sum of every segment and column: (N, ...) to (N, ...)."""
    return _scan(np.add, data, offsets, exclusive, reverse)


@np.errstate(all="ignore")
def segment_cumprod(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """Return the running product of every segment and column: (N, ...) to (N, ...)."""
    return _scan(np.multiply, data, offsets, exclusive, reverse)


@np.errstate(all="ignore")
def segment_cumprod_grad(
    upstream: Array, data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool
) -> Array:
    """Return the gradient of the running product, (N, ...).

    With y the running product and z the first row of a column of a segment that holds 0:
    row k < z gets (sum of dy[i] y[i] for i >= k) / x[k]; row z the same with x[z] = 1;
    rows after z nothing, for each of their products has the factor x[z].
    """
    if reverse:
        turned = segment_cumprod_grad(
            upstream[::-1], data[::-1], _turned(offsets), exclusive=exclusive, reverse=False
        )
        return turned[::-1]
    # float64, because y may leave the range of float32 where the gradient does not.
    flow, x = upstream.astype(np.float64), data.astype(np.float64)
    if exclusive:
        flow = _shifted(flow[::-1], _turned(offsets), 0)[::-1]
    zero = x == 0
    # Integers: subtracting the count before the segment is exact.
    before = np.zeros((len(x) + 1, *x.shape[1:]), np.int64)
    np.cumsum(zero, axis=0, out=before[1:])
    earlier = before[:-1] - before[offsets[segment_numbers(offsets)]]
    first = zero & (earlier == 0)
    whole = flow * _scanned(np.multiply, x, offsets)
    without = flow * _scanned(np.multiply, np.where(first, 1.0, x), offsets)
    if exclusive:  # no result has the factor of the last row: not 0 times infinity, NaN
        last = offsets[1:][offsets[:-1] < offsets[1:]] - 1
        whole[last] = without[last] = 0
    ends = [
        segment_cumsum(part, offsets, exclusive=False, reverse=True) for part in (whole, without)
    ]
    result = np.where(zero, 0.0, ends[0] / np.where(zero, 1.0, x))
    return np.where(first, ends[1], result).astype(data.dtype)


def _scan(ufunc: np.ufunc, data: Array, offsets: Offsets, exclusive: bool, reverse: bool) -> Array:
    if reverse:
        return _scan(ufunc, data[::-1], _turned(offsets), exclusive, False)[::-1]
    dtype = summed_dtype(data.dtype)
    found = _scanned(ufunc, data.astype(working_dtype(dtype)), offsets)
    if exclusive:
        found = _shifted(found, offsets, ufunc.identity)
    return found.astype(dtype, copy=False)


def _turned(offsets: Offsets) -> Offsets:
    """Return the offsets of the segments in reverse order of rows."""
    result: Offsets = offsets[-1] - offsets[::-1]
    return result


def _shifted(rows: Array, offsets: Offsets, first: float) -> Array:
    """Return rows shifted by one within each segment, with `first` as the first row."""
    result = np.empty_like(rows)
    result[1:] = rows[:-1]
    result[offsets[:-1][offsets[:-1] < offsets[1:]]] = first
    return result


def _scanned(ufunc: np.ufunc, rows: Array, offsets: Offsets) -> Array:
    """Return the running results of every segment, in the order of its rows.

    Not as differences of one running total over all segments: rounding errors would depend on
    the other segments, and a NaN would spread to all later ones. Nor by doubling distances:
    1e-200, 1e200, 1e200 has finite products only from left to right.
    """
    result = rows.copy()
    lengths = offsets_to_lengths(offsets)
    # At most sqrt(N) segments are longer than sqrt(N); they are processed one by one. The
    # others advance together, in at most sqrt(N) steps. In total at most 2 sqrt(N) rounds.
    limit = math.isqrt(len(rows))
    for s in np.flatnonzero(lengths > limit):
        part = result[offsets[s] : offsets[s + 1]]
        ufunc.accumulate(part, axis=0, out=part)
    short = np.flatnonzero((lengths > 1) & (lengths <= limit))
    short = short[np.argsort(lengths[short], kind="stable")]
    starts, stops = offsets[short], lengths[short]
    for t in range(1, int(stops[-1]) if stops.size else 1):
        here = starts[np.searchsorted(stops, t, side="right") :] + t
        result[here] = ufunc(result[here - 1], result[here])
    return result
