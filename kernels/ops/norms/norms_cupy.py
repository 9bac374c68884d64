"""See norms.py. Adjacent threads read one row: norms.cu."""

from __future__ import annotations

import cupy

from lodcli.kernels.cuda.launch import at_once, blocks, c_type, is_narrow, run, shares
from lodcli.kernels.index.checks import Array

THREADS, LANES, HEIGHT = 256, 32, 64


def rows_layer_norm(data: Array, weight: Array, bias: Array, epsilon: float) -> Array:
    """See norms.py."""
    return _normed("LAYER", data, weight, bias, epsilon)


def rows_rms_norm(data: Array, weight: Array, epsilon: float) -> Array:
    """See norms.py."""
    return _normed("RMS", data, weight, weight, epsilon)


def rows_layer_norm_grad(
    upstream: Array, data: Array, weight: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    """See norms.py."""
    return _gradients("LAYER", upstream, data, weight, epsilon)


def rows_rms_norm_grad(
    upstream: Array, data: Array, weight: Array, epsilon: float
) -> tuple[Array, Array]:
    """See norms.py."""
    return _gradients("RMS", upstream, data, weight, epsilon)[:2]


def _normed(kind: str, data: Array, weight: Array, bias: Array, epsilon: float) -> Array:
    rows: Array = cupy.ascontiguousarray(data)
    out: Array = cupy.empty(rows.shape, rows.dtype)
    if rows.size:
        many = at_once(rows.shape[1], rows, weight, bias, out)
        kernel = f"norm_rows<{c_type(rows.dtype, 'normalising')}, {kind}, {many}>"
        args = (rows, weight, bias, *rows.shape, float(epsilon), out)
        run("norms", kernel, *_by_row(rows, many), *args)
    return out


def _gradients(
    kind: str, upstream: Array, data: Array, weight: Array, epsilon: float
) -> tuple[Array, Array, Array]:
    rows = cupy.ascontiguousarray(data)
    flow = cupy.ascontiguousarray(upstream.astype(rows.dtype, copy=False))
    count, width = rows.shape
    out = cupy.empty(rows.shape, rows.dtype)
    if not rows.size:
        return out, cupy.zeros(width, rows.dtype), cupy.zeros(width, rows.dtype)
    value = c_type(rows.dtype, "normalising")
    means, scales = cupy.empty(count, rows.dtype), cupy.empty(count, rows.dtype)
    many = at_once(width, rows, flow, weight, out)
    args = (flow, rows, weight, count, width, float(epsilon), out, means, scales)
    run("norms", f"norm_grad_rows<{value}, {kind}, {many}>", *_by_row(rows, many), *args)
    if dealt := is_narrow(width * rows.itemsize):
        many = 1
    grid, block = shares(count, width, many, HEIGHT, dealt=dealt)
    parts = cupy.empty((2, grid[0] * block[1], width), rows.dtype)
    columns = (flow, rows, means, scales, count, width, HEIGHT, int(dealt), parts)
    run("norms", f"norm_grad_columns<{value}, {many}>", grid, block, *columns)
    weights, biases = parts.sum(axis=1)
    return out, weights, biases


def _by_row(rows: Array, many: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return grid and block: a power of two of threads a row, at most a warp."""
    lanes = min(LANES, 1 << (rows.shape[1] // many - 1).bit_length())
    return (blocks(rows.shape[0], THREADS // lanes),), (lanes, THREADS // lanes)
