"""See sort.py. cupy sorts one 64-bit key of segment and value if it fits.

Keys are unsigned integers, which cupy sorts digit by digit and stably; one kernel makes them.
Floating numbers it sorts so only in one column, with a NaN of negative sign before all others;
complex ones it compares.
"""

from __future__ import annotations

from typing import NamedTuple

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import WORDS, Grid, blocks, flat_rows, on_device, run
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import comparable
from lodcli.kernels.ops.common import is_float
from lodcli.kernels.ops.ids.ids_cupy import segment_compress
from lodcli.kernels.ops.joining.expand_cupy import segment_broadcast
from lodcli.kernels.ops.scatter.scatter_cupy import segment_scatter
from lodcli.kernels.ops.slicing.slice_cupy import segment_slice

THREADS, COLUMNS = 256, 16  # as in sort.cu
MOST_BLOCKS = 65535  # along the second axis of a grid


def segment_numbers(offsets: Offsets) -> Array:
    """Return the segment of every row, (N,) int64, worked out on the device."""
    return segment_broadcast(cupy.arange(offsets.size - 1, dtype=np.int64), offsets)


def segment_order(data: Array, offsets: Offsets, descending: bool) -> Array:
    """See sort.py."""
    if not data.size:
        nothing: Array = cupy.zeros(data.shape, np.int64)
        return nothing
    if data.dtype.kind == "c":
        return _complex_order(data, segment_numbers(offsets), descending)
    values = flat_rows(data)
    rows, columns = values.shape
    keys = _room_for_keys(rows, columns, values.itemsize, offsets.size - 1)
    keys.put(values, offsets, descending=descending)
    places: Array = cupy.empty(data.shape, np.int64)
    grid = _grid(rows, columns)
    run("sort", "sort_places", grid, (THREADS,), keys.order(), rows, columns, places)
    return places


def _complex_order(values: Array, numbers: Array, descending: bool) -> Array:
    if descending:
        # Ascending from the last row to the first: equal values then end in their order.
        turned = _complex_order(values[::-1], numbers[-1] - numbers[::-1], False)
        return len(values) - 1 - turned[::-1]
    order = cupy.argsort(values, axis=0)
    again = cupy.argsort(numbers[order], axis=0)
    result: Array = cupy.take_along_axis(order, again, axis=0)
    return result


def segment_best(order: Array, offsets: Offsets, bounds: Offsets) -> tuple[Array, Array]:
    """See sort.py."""
    rows = segment_slice(order, offsets[:-1], bounds)
    starts = segment_broadcast(cupy.asarray(offsets[:-1]), bounds)
    return rows, rows - starts.reshape(-1, *[1] * (rows.ndim - 1))


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Array, Offsets]:
    """See sort.py."""
    values = data[segment_order(data, offsets, False)]
    new = _differs(comparable(values)[:, None], segment_numbers(offsets))
    found, bounds = segment_compress(values, offsets, new)
    starts = cupy.append(cupy.flatnonzero(new), len(data))
    return found, cupy.diff(starts).astype(np.int64, copy=False), bounds


def segment_first_of_equal(data: Array, offsets: Offsets, adjacent: bool) -> Array:
    """See sort.py."""
    rows = flat_rows(comparable(data))
    if rows.dtype.kind == "c":
        rows = rows.view(np.dtype(f"float{rows.itemsize * 4}"))
    numbers = segment_numbers(offsets)
    if adjacent:
        return _differs(rows, numbers)
    # The last key first: each sorting keeps the order of those before.
    order = cupy.arange(len(rows))
    for key in (*_ranks(rows)[::-1], numbers):
        order = order[cupy.argsort(key[order])]
    kept: Array = cupy.empty(len(rows), np.bool_)
    kept[order] = _differs(rows[order], numbers[order])
    return kept


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Array:
    """See sort.py: one merge for all segments, equal ones in the order they are put in."""
    first, place = (len(values), 0) if side == "left" else (0, len(data))
    keys = _room_for_keys(len(data) + len(values), 1, data.itemsize, offsets.size - 1)
    keys.put(flat_rows(data), offsets, first, descending=False)
    keys.put(flat_rows(values), bounds, place, descending=False)
    order = keys.order()
    ours = (order >= first) & (order < first + len(data))
    before = cupy.empty(order.size, np.int64)
    before[order] = cupy.cumsum(ours, dtype=np.int64)
    result: Array = before[place : place + len(values)]
    result -= segment_broadcast(on_device(offsets[:-1]), bounds)
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


class _Keys(NamedTuple):
    """Where keys of some tensors go, all columns one behind the other.

    Attributes:
        keys: (D, N) unsigned.
        owners: (D, N) unsigned, of column and segment; None where keys hold these as well.
    """

    keys: Array
    owners: Array | None

    def put(self, values: Array, offsets: Offsets, first: int = 0, *, descending: bool) -> None:
        """Write those of values (n, D) from column `first` on."""
        rows, columns = values.shape
        if not values.size:
            return
        shape = _grid(rows, columns), (THREADS,)
        stride = self.keys.shape[1]
        index = (on_device(offsets), offsets.size - 1, rows, columns)
        shift = 0 if self.owners is not None else 8 * values.itemsize
        _launch_ranks(values, index, descending, shift, self.keys[:, first:], stride)
        if self.owners is not None:
            kernel = f"sort_owners<{WORDS[self.owners.itemsize]}>"
            run("sort", kernel, *shape, *index, stride, self.owners[:, first:])

    def order(self) -> Array:
        """Return (D * N,) the stable order of all keys."""
        order: Array = cupy.argsort(self.keys.reshape(-1))
        if self.owners is not None:
            order = order[cupy.argsort(self.owners.reshape(-1)[order])]
        return order


def _room_for_keys(rows: int, columns: int, value_bytes: int, segments: int) -> _Keys:
    """Return room for keys, the shortest that hold all: the fewer digits, the quicker."""
    bits = (columns * segments).bit_length()
    needed = 8 * value_bytes + bits
    if needed <= 64:
        return _Keys(cupy.empty((columns, rows), np.uint32 if needed <= 32 else np.uint64), None)
    owners = cupy.empty((columns, rows), np.uint32 if bits <= 32 else np.uint64)
    return _Keys(cupy.empty((columns, rows), np.dtype(f"u{value_bytes}")), owners)


def _grid(rows: int, columns: int) -> Grid:
    return blocks(rows, THREADS), min(blocks(columns, COLUMNS), MOST_BLOCKS)


def _ranks(rows: Array) -> Array:
    """Return unsigned integers of the same size and order, (N, D) to (D, N)."""
    made = cupy.empty(rows.shape[::-1], np.dtype(f"u{rows.itemsize}"))
    if rows.size:
        index = (cupy.empty(0, np.int64), 1, *rows.shape)
        _launch_ranks(rows, index, False, 0, made, made.shape[1])
    return made  # type: ignore[no-any-return]


def _launch_ranks(
    values: Array,
    index: tuple[Array, int, int, int],
    descending: bool,
    shift: int,
    keys: Array,
    stride: int,
) -> None:
    """See sort_keys in sort.cu: NaN of either sign is last, -0.0 is equal to 0.0."""
    dtype, (_, _, rows, columns) = values.dtype, index
    infinity, kind = 0, "SIGNED" if dtype.kind == "i" else "UNSIGNED"
    if is_float(dtype):
        bits = np.array(np.inf).astype(dtype).view(np.dtype(f"u{dtype.itemsize}"))
        infinity, kind = int(bits), "FLOATING"
    kernel = f"sort_keys<{WORDS[dtype.itemsize]}, {WORDS[keys.itemsize]}, {kind}>"
    grid = _grid(rows, columns)
    rest = (infinity, int(descending), shift, stride, keys)
    run("sort", kernel, grid, (THREADS,), cupy.ascontiguousarray(values), *index, *rest)


def _differs(rows: Array, numbers: Array) -> Array:
    """Return where a row (N, D), or its segment, is not that of the row before."""
    result: Array = cupy.ones(len(rows), np.bool_)
    here, last = rows[1:], rows[:-1]
    equal = (here == last) | ((here != here) & (last != last))
    result[1:] = ~equal.all(axis=1) | (numbers[1:] != numbers[:-1])
    return result
