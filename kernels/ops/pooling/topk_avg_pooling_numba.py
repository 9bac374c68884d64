"""See ops/topk_avg_pooling.py. Keeps the largest values of a row, sorted, instead of sorting it."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.runtime.jit_numba import njit


def segment_topk_avg_pooling(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
) -> Array:
    """See ops/topk_avg_pooling.py."""
    out = np.zeros((int(row_offsets[-1]), channel_num * topks.size), data.dtype)
    most = _most(topks, column_offsets)
    _forward(
        np.ascontiguousarray(data), offsets, row_offsets, column_offsets, topks, channel_num,
        np.zeros(most, np.int64), out,
    )  # fmt: skip
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
    """See ops/topk_avg_pooling.py."""
    out = np.zeros(data.shape, grad.dtype)
    most = _most(topks, column_offsets)
    _backward(
        np.ascontiguousarray(data), offsets, row_offsets, column_offsets, topks, channel_num,
        np.ascontiguousarray(grad), np.zeros(most, np.int64), out,
    )  # fmt: skip
    return out


def _most(topks: Offsets, column_offsets: Offsets) -> int:
    """Return how many values of a row can ever be asked for."""
    return min(int(topks.max()), int(np.diff(column_offsets).max(initial=0)))


@njit(cache=True, nogil=True)
def _largest(data, first, count, places):  # type: ignore[no-untyped-def]
    """Fill `places` with the largest of count values, largest first; return how many."""
    held = 0
    for place in range(first, first + count):
        value = data[place]
        at = held
        # Behind equal ones, which come first; a NaN behind everything.
        while at > 0:
            other = data[places[at - 1]]
            if not (value > other or (other != other and value == value)):
                break
            at -= 1
        if at < places.size:
            held = min(held + 1, places.size)
            for back in range(held - 1, at, -1):
                places[back] = places[back - 1]
            places[at] = place
    return held


@njit(cache=True, nogil=True)
def _forward(data, offsets, row_offsets, column_offsets, topks, channels, places, out):  # type: ignore[no-untyped-def]
    for i in range(offsets.size - 1):
        rows = row_offsets[i + 1] - row_offsets[i]
        columns = column_offsets[i + 1] - column_offsets[i]
        for channel in range(channels):
            for row in range(rows):
                first = offsets[i] + (channel * rows + row) * columns
                held = _largest(data, first, columns, places)
                for j in range(topks.size):
                    total = data.dtype.type(0)
                    for m in range(min(topks[j], held)):
                        total += data[places[m]]
                    at = channel * topks.size + j
                    out[row_offsets[i] + row, at] = total / data.dtype.type(topks[j])


@njit(cache=True, nogil=True)
def _backward(data, offsets, row_offsets, column_offsets, topks, channels, grad, places, out):  # type: ignore[no-untyped-def]
    for i in range(offsets.size - 1):
        rows = row_offsets[i + 1] - row_offsets[i]
        columns = column_offsets[i + 1] - column_offsets[i]
        for channel in range(channels):
            for row in range(rows):
                first = offsets[i] + (channel * rows + row) * columns
                held = _largest(data, first, columns, places)
                for j in range(topks.size):
                    at = channel * topks.size + j
                    share = grad[row_offsets[i] + row, at] / grad.dtype.type(topks[j])
                    for m in range(min(topks[j], held)):
                        out[places[m]] += share
