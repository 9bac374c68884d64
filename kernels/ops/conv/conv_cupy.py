"""See conv.py. The context of rows is gathered in blocks, then multiplied: conv.cu."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import blocks, c_type, flat_rows, on_device, run, tiles
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.conv.conv import strided_offsets

# Size limit of the gathered contexts.
CONTEXT_BYTES = 1 << 28
HEIGHT = 8
# Minimum of rows or segments that a unit sums; maximum of blocks whose sums the last block adds.
PART_HEIGHT, MOST_PARTS = 64, 512


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
    count, segments, out = data.shape[0], offsets.size - 1, cupy.empty(data.shape, dtype)
    if not out.size:
        of_padding = None if extra is None else cupy.zeros(extra.shape, dtype)
        return out, cupy.zeros(weight.shape, dtype), of_padding
    of_padding = None if extra is None else cupy.empty(extra.shape, dtype)
    (tiled, across), block = tiles(count, width, HEIGHT)
    height, behind = _parts(segments if of_padding is not None else 0, block[1])
    arrivals = cupy.empty(across if behind else 0, np.uint32)
    given = (rows, offsets, kept, matrix, extra, context_start, stride, 0, int(kept[-1]))
    context = _context(*given, arrivals)
    grad_weight = context.T @ flow
    back = cupy.ascontiguousarray(flow @ matrix.T)
    to = out if of_padding is None else of_padding
    parts = cupy.empty((behind, *to.shape), dtype)
    kernel, grid = f"conv_grad_rows<{c_type(dtype, 'conv')}>", (tiled + behind, across)
    index = (on_device(offsets), on_device(kept), segments, count)
    args = (back, *index, width, length, context_start, stride, HEIGHT, out, tiled)
    run("conv", kernel, grid, block, *args, to.shape[0], height, parts, arrivals, to)
    return out, grad_weight, of_padding


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
    shape = weight.shape
    if not rows.size:
        return _row_conv(flow, offsets, weight, -1), cupy.zeros(shape, dtype)
    (_, across), block = tiles(count, width, PART_HEIGHT)
    height, behind = _parts(count, block[1])
    arrivals = cupy.empty(across, np.uint32)
    of_data = _row_conv(flow, offsets, weight, -1, arrivals)
    parts, out = cupy.empty((behind, len(weight), width), dtype), cupy.empty(shape, dtype)
    args = (flow, rows, on_device(offsets), offsets.size - 1, count, width, len(weight), height)
    kernel = f"row_conv_grad_weight<{c_type(dtype, 'row_conv')}>"
    run("conv", kernel, (behind, across), block, *args, parts, arrivals, out)
    return of_data, out


def _parts(count: int, units: int) -> tuple[int, int]:
    """Return the number of rows or segments that a unit sums, and the number of blocks."""
    height = max(PART_HEIGHT, blocks(count, MOST_PARTS * units))
    return height, blocks(count, height * units)


def _row_conv(
    data: Array, offsets: Offsets, weight: Array, step: int, arrivals: Array | None = None
) -> Array:
    """Return the rows; sets `arrivals` to 0."""
    dtype = np.result_type(data.dtype, weight.dtype)
    rows, scales = (flat_rows(one.astype(dtype, copy=False)) for one in (data, weight))
    count, width = rows.shape
    out: Array = cupy.empty(rows.shape, dtype)
    if rows.size:
        counts = cupy.empty(0, np.uint32) if arrivals is None else arrivals
        kernel = f"row_conv<{c_type(dtype, 'row_conv')}>"
        args = (rows, on_device(offsets), offsets.size - 1, *rows.shape, scales, len(weight), step)
        grid = tiles(count, width, HEIGHT)
        run("conv", kernel, *grid, *args, HEIGHT, out, counts, counts.size)
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
    arrivals: Array | None = None,
) -> Array:
    """Return the contexts of computed rows first..stop: (rows, length * width).

    Sets `arrivals` to 0.
    """
    count, width = stop - first, data.shape[1]
    out: Array = cupy.empty((count, weight.shape[0]), data.dtype)
    if out.size:
        extra = cupy.empty(0, data.dtype) if padding is None else flat_rows(padding)
        counts = cupy.empty(0, np.uint32) if arrivals is None else arrivals
        run(
            *("conv", f"conv_context<{c_type(data.dtype, 'conv')}>", *tiles(count, width, HEIGHT)),
            *(flat_rows(data), on_device(offsets), on_device(kept), offsets.size - 1, first),
            *(count, width, weight.shape[0] // width, start, stride, HEIGHT, extra),
            *(int(padding is not None), out, counts, counts.size),
        )
    return out
