"""See ops/order.py. Sorted by cupy, which is stable: by value, then by segment."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_cupy.expand import segment_broadcast
from lodcli.kernels.on_cupy.ids import segment_compress
from lodcli.kernels.on_cupy.launch import on_device
from lodcli.kernels.on_cupy.scatter import segment_scatter
from lodcli.kernels.ops.arguments import comparable


def segment_numbers(offsets: Offsets) -> Array:
    """Return the segment of every row, (N,) int64, worked out on the device."""
    return segment_broadcast(cupy.arange(offsets.size - 1, dtype=np.int64), offsets)


def segment_order(data: Array, offsets: Offsets, descending: bool) -> Array:
    """See ops/order.py."""
    if descending:
        # Ascending from the last row to the first: equal values then end in their order.
        turned = segment_order(data[::-1], offsets[-1] - offsets[::-1], False)
        return len(data) - 1 - turned[::-1]
    numbers = segment_numbers(offsets)
    order = _argsort(data)
    again = cupy.argsort(numbers[order], axis=0)
    result: Array = cupy.take_along_axis(order, again, axis=0)
    return result


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Array, Offsets]:
    """See ops/order.py."""
    values = data[segment_order(data, offsets, False)]
    new = _differs(comparable(values)[:, None], segment_numbers(offsets))
    found, bounds = segment_compress(values, offsets, new)
    starts = cupy.append(cupy.flatnonzero(new), len(data))
    return found, cupy.diff(starts).astype(np.int64, copy=False), bounds


def segment_first_of_equal(data: Array, offsets: Offsets, adjacent: bool) -> Array:
    """See ops/order.py."""
    rows = comparable(data)
    rows = cupy.ascontiguousarray(rows).reshape(len(rows), int(np.prod(rows.shape[1:])))
    if rows.dtype.kind == "c":
        rows = rows.view(np.dtype(f"float{rows.itemsize * 4}"))
    numbers = segment_numbers(offsets)
    if adjacent:
        return _differs(rows, numbers)
    # The last key first: each sorting keeps the order of those before.
    order = cupy.arange(len(rows))
    for key in (*rows.T[::-1], numbers):
        order = order[_argsort(key[order])]
    kept: Array = cupy.empty(len(rows), np.bool_)
    kept[order] = _differs(rows[order], numbers[order])
    return kept


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Array:
    """See ops/order.py: one merge for all segments, equal ones in the order they are put in."""
    parts = [values, data] if side == "left" else [data, values]
    cuts = [bounds, offsets] if side == "left" else [offsets, bounds]
    numbers = cupy.concatenate([segment_numbers(cut) for cut in cuts])
    order = _argsort(cupy.concatenate(parts))
    order = order[cupy.argsort(numbers[order])]
    first = 0 if side == "right" else len(values)
    ours = (order >= first) & (order < first + len(data))
    before = cupy.empty(order.size, np.int64)
    before[order] = cupy.cumsum(ours, dtype=np.int64)
    mine = before[: len(values)] if side == "left" else before[len(data) :]
    result: Array = mine - segment_broadcast(on_device(offsets[:-1]), bounds)
    return result


def segment_histogram(data: Array, offsets: Offsets, edges: Array) -> Array:
    """See ops/order.py. What lies in no bin is counted in one more, which is left out."""
    bins, count = edges.size - 1, offsets.size - 1
    dtype = np.result_type(comparable(data[:0]).dtype, comparable(edges).dtype)
    values, cuts = comparable(data).astype(dtype), cupy.asarray(comparable(edges).astype(dtype))
    place = cupy.searchsorted(cuts, values, side="right") - 1
    place = cupy.where(values == cuts[-1], bins - 1, place)
    place = cupy.where((place < 0) | (place >= bins), bins, place).astype(np.int64)
    boxes = cupy.zeros((count, bins + 1), np.int64)
    counts = segment_scatter(boxes, place, cupy.ones(len(values), np.int64), offsets)
    result: Array = cupy.ascontiguousarray(counts[:, :bins])
    return result


def _argsort(data: Array) -> Array:
    """Return the stable order of every column; NaN is greater than every number."""
    values = comparable(data)
    if values.dtype == np.bool_:
        values = values.view(np.uint8)
    result: Array = cupy.argsort(values, axis=0)
    return result


def _differs(rows: Array, numbers: Array) -> Array:
    """Return where a row (N, D), or its segment, is not that of the row before."""
    result: Array = cupy.ones(len(rows), np.bool_)
    here, last = rows[1:], rows[:-1]
    equal = (here == last) | ((here != here) & (last != last))
    result[1:] = ~equal.all(axis=1) | (numbers[1:] != numbers[:-1])
    return result
