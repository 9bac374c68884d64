"""See sort.py. cupy sorts one 64-bit key of segment and value if it fits.

Keys are unsigned integers, which cupy sorts digit by digit and stably. Floating numbers it sorts so
only in one column, with a NaN of negative sign before all others; complex ones it compares.
"""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import on_device
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import comparable
from lodcli.kernels.ops.ids.ids_cupy import segment_compress
from lodcli.kernels.ops.joining.expand_cupy import segment_broadcast
from lodcli.kernels.ops.scatter.scatter_cupy import segment_scatter


def segment_numbers(offsets: Offsets) -> Array:
    """Return the segment of every row, (N,) int64, worked out on the device."""
    return segment_broadcast(cupy.arange(offsets.size - 1, dtype=np.int64), offsets)


def segment_order(data: Array, offsets: Offsets, descending: bool) -> Array:
    """See sort.py."""
    values, numbers = comparable(data), segment_numbers(offsets)
    if not values.size:
        nothing: Array = cupy.zeros(values.shape, np.int64)
        return nothing
    if values.dtype.kind == "c":
        return _complex_order(values, numbers, descending)
    ranks = _ranks(values)
    ranks = (~ranks if descending else ranks).reshape(len(values), -1)
    return _order(ranks, numbers, offsets.size - 1).reshape(values.shape)


def _complex_order(values: Array, numbers: Array, descending: bool) -> Array:
    if descending:
        # Ascending from the last row to the first: equal values then end in their order.
        turned = _complex_order(values[::-1], numbers[-1] - numbers[::-1], False)
        return len(values) - 1 - turned[::-1]
    order = cupy.argsort(values, axis=0)
    again = cupy.argsort(numbers[order], axis=0)
    result: Array = cupy.take_along_axis(order, again, axis=0)
    return result


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Array, Offsets]:
    """See sort.py."""
    values = data[segment_order(data, offsets, False)]
    new = _differs(comparable(values)[:, None], segment_numbers(offsets))
    found, bounds = segment_compress(values, offsets, new)
    starts = cupy.append(cupy.flatnonzero(new), len(data))
    return found, cupy.diff(starts).astype(np.int64, copy=False), bounds


def segment_first_of_equal(data: Array, offsets: Offsets, adjacent: bool) -> Array:
    """See sort.py."""
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
        order = order[cupy.argsort(_ranks(key[order]))]
    kept: Array = cupy.empty(len(rows), np.bool_)
    kept[order] = _differs(rows[order], numbers[order])
    return kept


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Array:
    """See sort.py: one merge for all segments, equal ones in the order they are put in."""
    parts = [values, data] if side == "left" else [data, values]
    cuts = [bounds, offsets] if side == "left" else [offsets, bounds]
    numbers = cupy.concatenate([segment_numbers(cut) for cut in cuts])
    ranks = _ranks(comparable(cupy.concatenate(parts)))
    order = _order(ranks[:, None], numbers, offsets.size - 1)[:, 0]
    first = 0 if side == "right" else len(values)
    ours = (order >= first) & (order < first + len(data))
    before = cupy.empty(order.size, np.int64)
    before[order] = cupy.cumsum(ours, dtype=np.int64)
    mine = before[: len(values)] if side == "left" else before[len(data) :]
    result: Array = mine - segment_broadcast(on_device(offsets[:-1]), bounds)
    return result


def segment_histogram(data: Array, offsets: Offsets, edges: Array) -> Array:
    """See sort.py. What lies in no bin is counted in one more, which is left out."""
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


def _ranks(values: Array) -> Array:
    """Return unsigned integers of the same size and order: NaN last, -0.0 equal to 0.0."""
    size = values.dtype.itemsize
    word = np.dtype(f"u{size}").type
    bits: Array = values.view(word)
    sign, whole = word(1 << (8 * size - 1)), word((1 << 8 * size) - 1)
    if values.dtype.kind != "f":
        turned: Array = bits ^ sign if values.dtype.kind == "i" else bits
        return turned
    # Of negative numbers the greater bits are the smaller number.
    ranks = cupy.where(bits >= sign, ~bits, bits | sign)
    ranks = cupy.where(values == 0, sign, ranks)
    result: Array = cupy.where(values != values, whole, ranks)
    return result


def _order(ranks: Array, numbers: Array, count: int) -> Array:
    """Return the rows of every column in their order within `count` segments: (N, D) to (N, D).

    Columns are sorted as segments of their own, all at once.
    """
    rows, columns = ranks.shape
    keys = cupy.ascontiguousarray(ranks.T).reshape(-1)
    starts = cupy.arange(columns)[:, None]
    owners = (starts * count + numbers).reshape(-1)
    value_bits = 8 * ranks.dtype.itemsize
    bits = (columns * count).bit_length()
    if value_bits + bits <= 64:
        word = np.uint32 if value_bits + bits <= 32 else np.uint64
        order = cupy.argsort((owners.astype(word) << word(value_bits)) | keys)
    else:
        order = cupy.argsort(keys)
        # The shorter the key, the fewer digits are sorted by.
        owners = owners.astype(np.uint32) if bits <= 32 else owners
        order = order[cupy.argsort(owners[order])]
    places = order.reshape(columns, rows) - starts * rows
    result: Array = cupy.ascontiguousarray(places.T)
    return result


def _differs(rows: Array, numbers: Array) -> Array:
    """Return where a row (N, D), or its segment, is not that of the row before."""
    result: Array = cupy.ones(len(rows), np.bool_)
    here, last = rows[1:], rows[:-1]
    equal = (here == last) | ((here != here) & (last != last))
    result[1:] = ~equal.all(axis=1) | (numbers[1:] != numbers[:-1])
    return result
