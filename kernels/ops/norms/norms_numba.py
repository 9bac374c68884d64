"""See ops/norms.py. A row is read twice while it is in the cache; nothing is kept beside it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.simd.row_copies import rows_a_piece


def rows_layer_norm(data: Array, weight: Array, bias: Array, epsilon: float) -> Array:
    """See ops/norms.py."""
    out = np.empty_like(data)
    _forward(data, weight, bias, epsilon, True, out)
    return out


def rows_rms_norm(data: Array, weight: Array, epsilon: float) -> Array:
    """See ops/norms.py."""
    out = np.empty_like(data)
    _forward(data, weight, np.zeros_like(weight), epsilon, False, out)
    return out


def rows_layer_norm_grad(
    upstream: Array, data: Array, weight: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """See ops/norms.py."""
    return _gradients(upstream, data, weight, epsilon, centred=True)


def rows_rms_norm_grad(
    upstream: Array, data: Array, weight: Array, epsilon: float
) -> tuple[Array, Array]:
    """See ops/norms.py."""
    return _gradients(upstream, data, weight, epsilon, centred=False)[:2]


def _gradients(
    upstream: Array, data: Array, weight: Array, epsilon: float, *, centred: bool
) -> tuple[Array, Array, Array]:
    rows = rows_a_piece(data.shape[1] * data.itemsize)
    pieces = -(-len(data) // rows)
    out = np.empty_like(data)
    # Cut at fixed places and joined in order: the same sums whatever the threads.
    scale, shift = np.zeros((2, pieces, weight.size))
    flow = upstream.astype(data.dtype, copy=False)
    _backward(flow, data, weight, epsilon, centred, out, scale, shift, rows)
    return out, scale.sum(axis=0).astype(data.dtype), shift.sum(axis=0).astype(data.dtype)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _measure(row: Any, epsilon: float, centred: bool) -> Any:
    """Return the mean that is taken off a row, and one over the root of what is left."""
    mean, square = 0.0, 0.0
    if centred:
        for k in range(row.size):
            mean += row[k]
        mean /= row.size
    for k in range(row.size):
        square += (row[k] - mean) ** 2
    return mean, 1 / math.sqrt(square / row.size + epsilon)


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _forward(x: Any, weight: Any, bias: Any, epsilon: float, centred: bool, out: Any) -> None:
    for r in numba.prange(x.shape[0]):
        mean, over = _measure(x[r], epsilon, centred)
        for k in range(x.shape[1]):
            out[r, k] = (x[r, k] - mean) * over * weight[k] + bias[k]


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _backward(
    upstream: Any,
    x: Any,
    weight: Any,
    epsilon: float,
    centred: bool,
    out: Any,
    scale: Any,
    shift: Any,
    rows: int,
) -> None:
    width = x.shape[1]
    for piece in numba.prange(scale.shape[0]):
        for r in range(piece * rows, min((piece + 1) * rows, x.shape[0])):
            mean, over = _measure(x[r], epsilon, centred)
            flow, shared = 0.0, 0.0
            for k in range(width):
                z, g = (x[r, k] - mean) * over, upstream[r, k] * weight[k]
                flow += g
                shared += g * z
                scale[piece, k] += upstream[r, k] * z
                shift[piece, k] += upstream[r, k]
            flow = flow / width if centred else 0.0
            for k in range(width):
                z, g = (x[r, k] - mean) * over, upstream[r, k] * weight[k]
                out[r, k] = over * (g - flow - z * (shared / width))
