"""See norms.py. Adjacent threads read one row, for any number of columns: norms.cu."""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import at_once, blocks, by_row, c_type, is_narrow, run, shares
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import common_dtype, working_dtype

# Minimum of rows per unit, and maximum of blocks: the last block adds the sums of all.
HEIGHT, MOST_PARTS = 64, 2048


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
        dtype = _feature_dtype(rows, weight, bias)
        scale, shift = _feature(weight, dtype), _feature(bias, dtype)
        many = at_once(rows.shape[1], rows, scale[0], shift[0], out)
        kernel = f"norm_rows<{_types(rows.dtype, dtype)}, {kind}, {many}>"
        args = (rows, *scale, *shift, *rows.shape, float(epsilon), out)
        run("norms", kernel, *by_row(len(rows), rows.shape[1], many), *args)
    return out


def _gradients(
    kind: str, upstream: Array, data: Array, weight: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    dtype = data.dtype
    if upstream.dtype != dtype:  # the wider one, so that neither is rounded
        dtype = common_dtype(working_dtype(dtype), upstream.dtype)
    work = working_dtype(dtype)
    rows, flow = (cupy.ascontiguousarray(one.astype(dtype, copy=False)) for one in (data, upstream))
    count, width = rows.shape
    out = cupy.empty(rows.shape, dtype)
    if not rows.size:
        return out, cupy.zeros(width, work), cupy.zeros(width, work)
    means, scales = cupy.empty(count, work), cupy.empty(count, work)
    of_weight = _feature_dtype(rows, weight)
    scale = _feature(weight, of_weight)
    many = at_once(width, rows, flow, scale[0], out)
    dealt = is_narrow(width * rows.itemsize)
    columns = 1 if dealt else many
    _, units = shares(count, width, columns, HEIGHT, dealt=dealt)[1]
    height = max(HEIGHT, blocks(count, MOST_PARTS * units))
    grid, block = shares(count, width, columns, height, dealt=dealt)
    parts, sums = cupy.empty((2, grid[0], width), work), cupy.empty((2, width), work)
    arrivals = cupy.empty(math.prod(grid[1:]), np.uint32)
    args = (flow, rows, *scale, count, width, float(epsilon), out, means, scales)
    kernel = f"norm_grad_rows<{_types(dtype, of_weight)}, {kind}, {many}>"
    run("norms", kernel, *by_row(count, width, many), *args, arrivals, arrivals.size)
    given = (flow, rows, means, scales, count, width, height, int(dealt), parts, arrivals, sums)
    kernel = f"norm_grad_columns<{c_type(dtype, 'normalising')}, {columns}>"
    run("norms", kernel, grid, block, *given)
    weights, biases = sums
    return out, weights, biases


def _types(dtype: np.dtype[Any], of_weight: np.dtype[Any]) -> str:
    return f"{c_type(dtype, 'normalising')}, {c_type(of_weight, 'normalising')}"


def _feature_dtype(rows: Array, *given: Array | None) -> np.dtype[Any]:
    """Return the dtype that weight and bias are read in: that of the rows if possible."""
    narrow = all(one is None or one.dtype == rows.dtype for one in given)
    return rows.dtype if narrow else working_dtype(rows.dtype)


def _feature(given: Array | None, dtype: np.dtype[Any]) -> tuple[Array, int]:
    """Return a weight or bias as kernel arguments, and whether it was given."""
    if given is None:
        return cupy.empty(0, dtype), 0
    return cupy.ascontiguousarray(given.astype(dtype, copy=False)), 1
