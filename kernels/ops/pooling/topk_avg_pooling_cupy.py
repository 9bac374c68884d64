"""See topk_avg_pooling.py. Every row of every matrix is sorted as a segment."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import THREADS, blocks, c_type, on_device, run
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.ops.sorting.sort_cupy import order_of


def segment_topk_avg_pooling(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
) -> Array:
    """See topk_avg_pooling.py."""
    out: Array = cupy.empty((int(row_offsets[-1]), channel_num * topks.size), data.dtype)
    index = (row_offsets, column_offsets, topks, channel_num)
    _run("topk_averages", data, offsets, *index, data, out)
    return out


def segment_topk_avg_pooling_grad(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
    grad: Array,
) -> Array:
    """See topk_avg_pooling.py."""
    out: Array = cupy.empty(data.shape, grad.dtype)
    index = (row_offsets, column_offsets, topks, channel_num)
    _run("topk_averages_grad", data, offsets, *index, cupy.ascontiguousarray(grad), out)
    return out


def _run(
    kernel: str,
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
    values: Array,
    out: Array,
) -> None:
    """Write every value of `out`, from `values` and the sorted order of each matrix row."""
    rows, columns = offsets_to_lengths(row_offsets), offsets_to_lengths(column_offsets)
    cells = lengths_to_offsets(columns.repeat(rows * channel_num), level=0)
    # Not descending: a NaN counts as smaller than any number.
    order = order_of(data, cells, "NEGATED") if data.size else cupy.empty(0, np.int64)
    index = [on_device(each) for each in (offsets, row_offsets, column_offsets)]
    args = (values, order, *index, offsets.size - 1, on_device(topks), topks.size, channel_num)
    grid = (blocks(out.size, THREADS),)
    kernel = f"{kernel}<{c_type(out.dtype, 'topk_avg_pooling')}>"
    run("topk_avg_pooling", kernel, grid, (THREADS,), *args, out.size, out)
