"""See pool_grad.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    THREADS,
    WORDS,
    at_once,
    blocks,
    c_type,
    flat_rows,
    is_narrow,
    on_device,
    run,
    shares,
)
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.rows import real_columns

EVERY, MEAN, ROOT, FIRST, LAST = range(5)
HEIGHT = 16


def segment_sum_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return _spread(upstream, offsets, EVERY)


def segment_mean_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return _spread(upstream, offsets, MEAN)


def segment_sqrt_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return _spread(upstream, offsets, ROOT)


def segment_first_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return _spread(upstream, offsets, FIRST)


def segment_last_grad(upstream: Array, offsets: Offsets) -> Array:
    """See pool_grad.py."""
    return _spread(upstream, offsets, LAST)


def segment_taken_grad(upstream: Array, index: Array, offsets: Offsets) -> Array:
    """See pool_grad.py. Every row is written once, including zeros."""
    rows = int(offsets[-1])
    result: Array = cupy.empty((rows, *upstream.shape[1:]), upstream.dtype)
    index = index.astype(np.int64, copy=False)
    flow, taken, out = (flat_rows(one) for one in (upstream, index, result))
    width = flow.shape[1]
    dealt = is_narrow(width * flow.itemsize)
    many = 1 if dealt else at_once(width, flow, taken, out, most=4)
    if out.size:
        shape = shares(rows, width, many, HEIGHT, dealt=dealt)
        where = (on_device(offsets), offsets.size - 1, rows, width, HEIGHT, int(dealt))
        kernel = f"pool_taken<{WORDS[flow.itemsize]}, {many}>"
        run("pool_grad", kernel, *shape, flow, taken, *where, out)
    return result


def segment_max_grad(upstream: Array, index: Array, rows: int) -> Array:
    """See pool_grad.py."""
    flow, taken = flat_rows(upstream), cupy.ascontiguousarray(index, np.int64)
    width = flow.shape[1]
    result: Array = cupy.zeros((rows, *upstream.shape[1:]), upstream.dtype)
    kernel = f"pool_scatter<{WORDS[flow.itemsize]}>"
    grid = (blocks(flow.size, THREADS),)
    run("pool_grad", kernel, grid, (THREADS,), flow, taken, flow.size, width, result)
    return result


def _spread(upstream: Array, offsets: Offsets, how: int) -> Array:
    if how in (MEAN, ROOT) and not is_float(upstream.dtype) and upstream.dtype.kind != "c":
        upstream = upstream.astype(np.float64)  # integers are divided as in the reference
    rows, segments = int(offsets[-1]), offsets.size - 1
    result: Array = cupy.empty((rows, *upstream.shape[1:]), upstream.dtype)
    if not result.size:
        return result
    flow, out = real_columns(flat_rows(upstream)), real_columns(result)
    width = flow.shape[1]
    wide = "float" if is_float(flow.dtype) and flow.dtype.itemsize < 8 else "double"
    dealt = is_narrow(width * flow.itemsize)
    many = 1 if dealt else at_once(width, flow, out)
    kernel = f"pool_spread<{c_type(flow.dtype, 'pooling')}, {wide}, {many}>"
    shape = shares(rows, width, many, HEIGHT, dealt=dealt)
    args = (flow, on_device(offsets), segments, rows, width, HEIGHT, int(dealt), how, out)
    run("pool_grad", kernel, *shape, *args)
    return result
