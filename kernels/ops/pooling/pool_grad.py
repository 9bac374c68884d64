"""Gradients of pool.py: what a row's share was of the row that its sequence became.

sum   dx[r] = dy[s]             sqrt  dy[s] / sqrt(n)
mean  dx[r] = dy[s] / n         first, last, max, min   dy[s] to the row taken, else 0
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.common import is_half
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on


def sequence_sum_grad(
    upstream: npt.ArrayLike, lod: LoD, *, level: int | str = -1, backend: Backend = "auto"
) -> Array:
    """Return the gradient of `sequence_sum` for its rows.

    Args:
        upstream: (S, ...), the gradient of the result.
        lod: the index of the tensor that was pooled.
        level: the level that was pooled.
        backend: "numpy", "numba" or "auto".

    Returns:
        (N, ...), the dtype of `upstream`.

    Raises:
        SelectionError: no such level.
        ShapeMismatchError: `upstream` has not one row for each sequence.

    >>> sequence_sum_grad([5.0, 7.0, 9.0], LoD.from_lengths([[2, 0, 1]])).tolist()
    [5.0, 5.0, 9.0]
    """
    return _spread(segment_sum_grad, upstream, lod, level, backend)


def sequence_mean_grad(
    upstream: npt.ArrayLike, lod: LoD, *, level: int | str = -1, backend: Backend = "auto"
) -> Array:
    """Return the gradient of `sequence_mean`. See `sequence_sum_grad`."""
    return _spread(segment_mean_grad, upstream, lod, level, backend)


def sequence_sqrt_grad(
    upstream: npt.ArrayLike, lod: LoD, *, level: int | str = -1, backend: Backend = "auto"
) -> Array:
    """Return the gradient of `sequence_sqrt`. See `sequence_sum_grad`."""
    return _spread(segment_sqrt_grad, upstream, lod, level, backend)


def sequence_first_grad(
    upstream: npt.ArrayLike, lod: LoD, *, level: int | str = -1, backend: Backend = "auto"
) -> Array:
    """Return the gradient of `sequence_first`. See `sequence_sum_grad`."""
    return _spread(segment_first_grad, upstream, lod, level, backend)


def sequence_last_grad(
    upstream: npt.ArrayLike, lod: LoD, *, level: int | str = -1, backend: Backend = "auto"
) -> Array:
    """Return the gradient of `sequence_last`. See `sequence_sum_grad`."""
    return _spread(segment_last_grad, upstream, lod, level, backend)


def sequence_max_grad(upstream: npt.ArrayLike, index: Array, rows: int) -> Array:
    """Return the gradient of `sequence_max` or `sequence_min`: to the rows they took.

    Args:
        upstream: (S, ...), the gradient of the result.
        index: (S, ...) int64, the rows that `sequence_max_index` gave.
        rows: N, the rows of the tensor that was pooled.

    Raises:
        ShapeMismatchError: the shapes differ, or a row is not there.
    """
    flow = as_array(upstream)
    if flow.shape != index.shape:
        raise ShapeMismatchError(
            f"sequence_max_grad: upstream has shape {flow.shape}, index {index.shape}"
        )
    if index.size and bool(((index < -1) | (index >= rows)).any()):
        raise ShapeMismatchError(f"sequence_max_grad: index names a row outside 0 to {rows - 1}")
    return on("auto", segment_max_grad)(flow, index, rows)


def _spread(
    reference: Callable[[Array, Offsets], Array],
    upstream: npt.ArrayLike,
    lod: LoD,
    level: int | str,
    backend: Backend,
) -> Array:
    flow = as_array(upstream)
    name = reference.__name__.replace("segment", "sequence")
    if flow.ndim == 0 or flow.shape[0] != lod.count(level):
        raise ShapeMismatchError(
            f"{name}: upstream needs {lod.count(level)} rows, one a sequence; "
            f"found shape {flow.shape}"
        )
    offsets = lod.absolute(level)
    # By the rows that come out: there may be far more of them.
    size = int(offsets[-1]) * (flow.nbytes // max(1, flow.shape[0]))
    return on(backend, reference, size_bytes=size)(flow, offsets)


def segment_sum_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return upstream[s] for every row of segment s: (S, ...) to (N, ...)."""
    return np.repeat(upstream, np.diff(offsets), axis=0)


def segment_mean_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return upstream[s] / n for every row: (S, ...) to (N, ...)."""
    return segment_sum_grad(divided_rows(upstream, np.diff(offsets).astype(np.float64)), offsets)


def segment_sqrt_grad(upstream: Array, offsets: Offsets) -> Array:
    """Return upstream[s] / sqrt(n) for every row: (S, ...) to (N, ...)."""
    return segment_sum_grad(divided_rows(upstream, np.sqrt(np.diff(offsets))), offsets)


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
    width = int(np.prod(upstream.shape[1:]))
    result = np.zeros((rows, width), upstream.dtype)
    taken = index.reshape(len(index), width)
    segment, column = np.nonzero(taken >= 0)
    # No two segments share a row, so nothing is written twice.
    result[taken[segment, column], column] = upstream.reshape(taken.shape)[segment, column]
    return result.reshape(rows, *upstream.shape[1:])


def divided_rows(upstream: Array, by: npt.NDArray[np.float64]) -> Array:
    """Return every row over its own number, in the dtype of `upstream` or float64."""
    wide = upstream.astype(np.float32) if is_half(upstream.dtype) else upstream
    divisors = np.maximum(by, 1).reshape(-1, *[1] * (upstream.ndim - 1))
    dtype = upstream.dtype if upstream.dtype.kind not in "iub" else np.dtype(np.float64)
    result: Array = (wide / divisors).astype(dtype)
    return result
