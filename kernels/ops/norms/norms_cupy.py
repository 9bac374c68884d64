"""See norms.py. Adjacent threads read one row: norms.cu."""

from __future__ import annotations

import cupy

from lodcli.kernels.cuda.launch import at_once, by_row, c_type, is_narrow, run, shares
from lodcli.kernels.index.checks import Array

HEIGHT = 64


def rows_layer_norm(data: Array, weight: Array | None, bias: Array | None, epsilon: float) -> Array:
    """See norms.py."""
    return _normed("LAYER", data, weight, bias, epsilon)


def rows_rms_norm(data: Array, weight: Array | None, epsilon: float) -> Array:
    """See norms.py."""
    return _normed("RMS", data, weight, None, epsilon)


def rows_layer_norm_grad(
    upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    """See norms.py."""
    return _gradients("LAYER", upstream, data, weight, epsilon)


def rows_rms_norm_grad(
    upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array]:
    """See norms.py."""
    return _gradients("RMS", upstream, data, weight, epsilon)[:2]


def _normed(
    kind: str, data: Array, weight: Array | None, bias: Array | None, epsilon: float
) -> Array:
    rows: Array = cupy.ascontiguousarray(data)
    out: Array = cupy.empty(rows.shape, rows.dtype)
    if rows.size:
        scale, shift = _feature(weight, rows), _feature(bias, rows)
        many = at_once(rows.shape[1], rows, scale[0], shift[0], out)
        kernel = f"norm_rows<{c_type(rows.dtype, 'normalising')}, {kind}, {many}>"
        args = (rows, *scale, *shift, *rows.shape, float(epsilon), out)
        run("norms", kernel, *by_row(len(rows), rows.shape[1], many), *args)
    return out


def _gradients(
    kind: str, upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    rows = cupy.ascontiguousarray(data)
    flow = cupy.ascontiguousarray(upstream.astype(rows.dtype, copy=False))
    count, width = rows.shape
    out = cupy.empty(rows.shape, rows.dtype)
    if not rows.size:
        return out, cupy.zeros(width, rows.dtype), cupy.zeros(width, rows.dtype)
    value = c_type(rows.dtype, "normalising")
    means, scales = cupy.empty(count, rows.dtype), cupy.empty(count, rows.dtype)
    scale = _feature(weight, rows)
    many = at_once(width, rows, flow, scale[0], out)
    args = (flow, rows, *scale, count, width, float(epsilon), out, means, scales)
    run("norms", f"norm_grad_rows<{value}, {kind}, {many}>", *by_row(count, width, many), *args)
    if dealt := is_narrow(width * rows.itemsize):
        many = 1
    grid, block = shares(count, width, many, HEIGHT, dealt=dealt)
    parts = cupy.empty((2, grid[0] * block[1], width), rows.dtype)
    columns = (flow, rows, means, scales, count, width, HEIGHT, int(dealt), parts)
    run("norms", f"norm_grad_columns<{value}, {many}>", grid, block, *columns)
    weights, biases = parts.sum(axis=1)
    return out, weights, biases


def _feature(given: Array | None, rows: Array) -> tuple[Array, int]:
    """Return a weight or bias as a launch takes it, and whether it was given."""
    if given is None:
        return cupy.empty(0, rows.dtype), 0
    return cupy.ascontiguousarray(given), 1
