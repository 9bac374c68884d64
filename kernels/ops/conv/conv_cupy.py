"""See conv.py. The context of rows is gathered in blocks, then multiplied: conv.cu."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, c_type, flat_rows, on_device, run, tiles
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.conv.conv import strided_offsets

# Contexts of this many bytes are held at a time.
CONTEXT_BYTES = 1 << 28
HEIGHT, PART_HEIGHT = 8, 64


def segment_conv(
    data: Array,
    offsets: Offsets,
    weight: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> Array:
    """See conv.py."""
    dtype = np.result_type(data.dtype, weight.dtype)
    rows, matrix = data.astype(dtype, copy=False), weight.astype(dtype, copy=False)
    extra = None if padding is None else padding.astype(dtype, copy=False)
    kept = strided_offsets(offsets, stride)
    count = int(kept[-1])
    out: Array = cupy.empty((count, weight.shape[1]), dtype)
    step = max(1, CONTEXT_BYTES // max(1, weight.shape[0] * dtype.itemsize))
    for first in range(0, count, step):
        stop = min(first + step, count)
        context = _context(rows, offsets, kept, matrix, extra, context_start, stride, first, stop)
        cupy.matmul(context, matrix, out=out[first:stop])
    return out


def segment_conv_grad(
    data: Array,
    offsets: Offsets,
    weight: Array,
    grad: Array,
    *,
    context_start: int,
    stride: int,
    padding: Array | None,
) -> tuple[Array, Array, Array | None]:
    """See conv.py."""
    dtype = np.result_type(data.dtype, weight.dtype, grad.dtype)
    rows, matrix, flow = (one.astype(dtype, copy=False) for one in (data, weight, grad))
    extra = None if padding is None else padding.astype(dtype, copy=False)
    kept, width = strided_offsets(offsets, stride), data.shape[1]
    length = weight.shape[0] // width if width else 1
    context = _context(rows, offsets, kept, matrix, extra, context_start, stride, 0, int(kept[-1]))
    grad_weight = context.T @ flow
    back = cupy.ascontiguousarray(flow @ matrix.T)
    value, where = c_type(dtype, "conv"), (on_device(offsets), on_device(kept))
    grad_rows = cupy.empty(data.shape, dtype)
    shape = (width, length, context_start, stride)
    if grad_rows.size:
        args = (back, *where, offsets.size - 1, data.shape[0], *shape, HEIGHT, grad_rows)
        kernel = f"conv_grad_rows<{value}>"
        run("conv", kernel, *tiles(data.shape[0], width, HEIGHT), *args)
    if extra is None:
        return grad_rows, grad_weight, None
    segments = offsets.size - 1
    parts = cupy.empty((blocks(segments, PART_HEIGHT), *extra.shape), dtype)
    if parts.size:
        args = (back, *where, segments, extra.shape[0], *shape, PART_HEIGHT, parts)
        kernel = f"conv_grad_padding<{value}>"
        run("conv", kernel, *tiles(segments, width, PART_HEIGHT), *args)
    return grad_rows, grad_weight, parts.sum(axis=0)


def segment_row_conv(data: Array, offsets: Offsets, weight: Array) -> Array:
    """See conv.py."""
    return _row_conv(data, offsets, weight, 1)


def segment_row_conv_grad(
    data: Array, offsets: Offsets, weight: Array, grad: Array
) -> tuple[Array, Array]:
    """See conv.py."""
    dtype = np.result_type(grad.dtype, weight.dtype)
    rows, flow = (
        flat_rows(data.astype(dtype, copy=False)),
        flat_rows(grad.astype(dtype, copy=False)),
    )
    count, width = rows.shape
    length = weight.shape[0]
    parts = cupy.empty((blocks(count, PART_HEIGHT), length, width), dtype)
    if rows.size:
        kernel = f"row_conv_grad_weight<{c_type(dtype, 'row_conv')}>"
        args = (flow, rows, on_device(offsets), offsets.size - 1, count, width, length)
        run("conv", kernel, *tiles(count, width, PART_HEIGHT), *args, PART_HEIGHT, parts)
    return _row_conv(flow, offsets, weight, -1), parts.sum(axis=0)


def _row_conv(data: Array, offsets: Offsets, weight: Array, step: int) -> Array:
    dtype = np.result_type(data.dtype, weight.dtype)
    rows, scales = (flat_rows(one.astype(dtype, copy=False)) for one in (data, weight))
    count, width = rows.shape
    out: Array = cupy.empty(rows.shape, dtype)
    if rows.size:
        kernel = f"row_conv<{c_type(dtype, 'row_conv')}>"
        args = (rows, on_device(offsets), offsets.size - 1, *rows.shape, scales, len(weight), step)
        run("conv", kernel, *tiles(count, width, HEIGHT), *args, HEIGHT, out)
    return out


def _context(
    data: Array,
    offsets: Offsets,
    kept: Offsets,
    weight: Array,
    padding: Array | None,
    start: int,
    stride: int,
    first: int,
    stop: int,
) -> Array:
    """Return what surrounds rows first..stop of those computed: (rows, length * width)."""
    count, width = stop - first, data.shape[1]
    out: Array = cupy.empty((count, weight.shape[0]), data.dtype)
    if out.size:
        extra = cupy.empty(0, data.dtype) if padding is None else flat_rows(padding)
        run(
            *("conv", f"conv_context<{c_type(data.dtype, 'conv')}>", *tiles(count, width, HEIGHT)),
            *(flat_rows(data), on_device(offsets), on_device(kept), offsets.size - 1, first),
            *(count, width, weight.shape[0] // width, start, stride, HEIGHT, extra),
            *(int(padding is not None), out),
        )
    return out
