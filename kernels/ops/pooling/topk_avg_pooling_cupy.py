"""See topk_avg_pooling.py. Every row of every matrix is sorted as a segment."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import on_device
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.ops.joining.expand_cupy import segment_broadcast
from lodcli.kernels.ops.scan.scan_cupy import segment_cumsum
from lodcli.kernels.ops.sorting.sort_cupy import segment_numbers, segment_order


def segment_topk_avg_pooling(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
) -> Array:
    """See topk_avg_pooling.py."""
    cells, places = _cells(row_offsets, column_offsets, channel_num)
    count = int(row_offsets[-1]) * channel_num
    out: Array = cupy.zeros((count, topks.size), data.dtype)
    lengths = np.diff(cells)
    full = np.flatnonzero(lengths)
    if full.size:
        # Not descending: a NaN counts as smaller than any number.
        sums = segment_cumsum(
            data[segment_order(-data, cells, False)], cells, exclusive=False, reverse=False
        )
        last = np.minimum(topks, lengths[full, None]) - 1 + cells[full, None]
        ks = cupy.asarray(topks.astype(data.dtype))
        out[cupy.asarray(places[full])] = sums[cupy.asarray(last)] / ks
    return out.reshape(int(row_offsets[-1]), channel_num * topks.size)


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
    cells, places = _cells(row_offsets, column_offsets, channel_num)
    shares = grad.reshape(int(row_offsets[-1]) * channel_num, topks.size)
    shares = shares[cupy.asarray(places)] / cupy.asarray(topks.astype(grad.dtype))
    order = segment_order(-data, cells, False)
    ranks = cupy.arange(len(data)) - segment_broadcast(on_device(cells[:-1]), cells)
    numbers = segment_numbers(cells)
    ranked = cupy.zeros(len(data), grad.dtype)
    # The m-th largest value is in every sum of more than m.
    for j, k in enumerate(topks.tolist()):
        ranked += cupy.where(ranks < k, shares[:, j][numbers], 0)
    out: Array = cupy.empty(len(data), grad.dtype)
    out[order] = ranked
    return out


def _cells(
    row_offsets: Offsets, column_offsets: Offsets, channel_num: int
) -> tuple[Offsets, Offsets]:
    """Return the offsets of the matrix rows in the values, and which row of the result
    (rows * channels) each goes to."""
    rows, columns = np.diff(row_offsets), np.diff(column_offsets)
    of = np.repeat(np.arange(rows.size), rows * channel_num)
    cells = lengths_to_offsets(columns[of], level=0)
    within = ranges(np.zeros_like(rows), lengths_to_offsets(rows * channel_num, level=0))
    channel, row = np.divmod(within, np.maximum(1, rows[of]))
    return cells, (row_offsets[:-1][of] + row) * channel_num + channel
