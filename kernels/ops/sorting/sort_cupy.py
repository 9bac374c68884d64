"""See sort.py. A block sorts short segments in its shared memory: sort.cu.

For longer segments cupy sorts one 64-bit key of segment and value, if both fit. Keys are unsigned
integers, made by one kernel, for which cupy uses a stable radix sort. For floating-point numbers it
does so only in one column, and sorts negative NaN before all others; complex numbers it compares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np

from lodcli.kernels.cuda.first_row import first_row
from lodcli.kernels.cuda.launch import (
    MOST_BLOCKS,
    WORDS,
    Grid,
    blocks,
    c_type,
    flat_rows,
    on_device,
    run,
    shortest_and_longest,
)
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.arguments import comparable
from lodcli.kernels.ops.ids.ids_cupy import (
    Marks,
    compressed,
    kept_bounds,
    room_for_marks,
    segment_compress,
    trimmed,
)
from lodcli.kernels.ops.joining.expand_cupy import segment_broadcast
from lodcli.kernels.ops.rows import real_columns

THREADS, COLUMNS, SORTERS, VALUES = 256, 16, 512, 2048  # as in sort.cu
# Rows of a segment that a block sorts; columns as wide as a memory transaction.
LONG, COLUMNS_AT_ONCE = 1024, 8
ORDERS = ("ASCENDING", "DESCENDING", "NEGATED")


def segment_numbers(offsets: Offsets) -> Array:
    """Return the segment of every row, (N,) int64, computed on the device."""
    return segment_broadcast(cupy.arange(offsets.size - 1, dtype=np.int64), offsets)


def segment_order(
    data: Array, offsets: Offsets, descending: bool, bounds: Offsets | None = None
) -> Array:
    """See sort.py."""
    if not data.size:
        nothing: Array = cupy.zeros(data.shape, np.int64)
        return nothing
    if data.dtype.kind == "c":
        return _complex_order(data, segment_numbers(offsets), descending)
    return order_of(data, offsets, "DESCENDING" if descending else "ASCENDING")


def order_of(data: Array, offsets: Offsets, order: str) -> Array:
    """Return the source row of each row of the sorted columns: real (N, ...) to (N, ...).

    Args:
        data: one or more values per row.
        offsets: (S+1,).
        order: "ASCENDING", "DESCENDING", or "NEGATED": floats as if negated.
    """
    values = flat_rows(data)
    rows, columns = values.shape
    places: Array = cupy.empty(data.shape, np.int64)
    longest = shortest_and_longest(offsets)[1]
    if longest <= LONG:
        _sort_short(values, offsets, longest, order, places)
        return places
    keys = _room_for_keys(rows, columns, values.itemsize, offsets.size - 1)
    keys.put(values, offsets, order)
    grid = _grid(rows, columns)
    run("sort", "sort_places", grid, (THREADS,), keys.order(), rows, columns, places)
    return places


def _sort_short(values: Array, offsets: Offsets, longest: int, order: str, out: Array) -> None:
    """See sort_short in sort.cu. A block has room for at least twice `longest` rows."""
    rows, columns = values.shape
    most = min(columns, COLUMNS_AT_ONCE, VALUES // (2 * longest))
    shift = most.bit_length() - 1
    height = (VALUES >> shift) - longest + 1
    grid = (blocks(rows, height) * blocks(columns, 1 << shift),)
    kernel, infinity = _ranked("sort_short", values.dtype)
    index = (on_device(offsets), offsets.size - 1, rows, columns)
    rest = (infinity, ORDERS.index(order), longest, height, shift, out)
    run("sort", kernel, grid, (SORTERS,), values, *index, *rest)


def _complex_order(values: Array, numbers: Array, descending: bool) -> Array:
    if descending:
        # Ascending, from last row to first: equal values then end up in order.
        turned = _complex_order(values[::-1], numbers[-1] - numbers[::-1], False)
        return len(values) - 1 - turned[::-1]
    order = cupy.argsort(values, axis=0)
    again = cupy.argsort(numbers[order], axis=0)
    result: Array = cupy.take_along_axis(order, again, axis=0)
    return result


def segment_picked(data: Array, rows: Array) -> Array:
    """See sort.py."""
    found: Array = cupy.take_along_axis(data, rows, axis=0)
    return found


def segment_places(order: Array, offsets: Offsets) -> Array:
    """See sort.py."""
    return _best(order, order, offsets, offsets, has_values=False)[1]


def segment_best(
    data: Array, order: Array, offsets: Offsets, bounds: Offsets
) -> tuple[Array, Array]:
    """See sort.py."""
    return _best(data, order, offsets, bounds, has_values=True)


def _best(
    data: Array, order: Array, offsets: Offsets, bounds: Offsets, *, has_values: bool
) -> tuple[Array, Array]:
    places = cupy.empty((int(bounds[-1]), *order.shape[1:]), np.int64)
    values = cupy.empty(places.shape if has_values else 0, data.dtype)
    if places.size:
        rows, columns = flat_rows(places).shape
        given = (flat_rows(data), order, on_device(offsets), on_device(bounds), offsets.size - 1)
        args = (*given, rows, columns, int(has_values), values, places)
        run("sort", f"sort_best<{WORDS[data.itemsize]}>", _grid(rows, columns), (THREADS,), *args)
    return values, places


def segment_unsorted(best: Array, order: Array, offsets: Offsets, bounds: Offsets) -> Array:
    """See sort.py."""
    out: Array = cupy.empty(order.shape, best.dtype)
    if out.size:
        rows, columns = flat_rows(out).shape
        given = (flat_rows(best), order, on_device(offsets), on_device(bounds), offsets.size - 1)
        kernel = f"sort_back<{WORDS[best.itemsize]}>"
        run("sort", kernel, _grid(rows, columns), (THREADS,), *given, rows, columns, out)
    return out


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Array, Offsets]:
    """See sort.py."""
    order = segment_order(data, offsets, False)
    marks = _differs(data[:, None], offsets, order)
    values, counts = cupy.empty(data.shape, data.dtype), cupy.empty(data.shape, np.int64)
    bounds = cupy.empty(offsets.size, np.int64)
    given = (cupy.ascontiguousarray(data), order, *marks.placed_by(offsets), bounds)
    kernel = f"sort_runs<{WORDS[data.itemsize]}>"
    run("sort", kernel, marks.grid, (THREADS,), *given, values, counts)
    there = kept_bounds(bounds, len(data))
    return trimmed(values, there), trimmed(counts, there), there


def segment_deduplicate(
    data: Array, offsets: Offsets, bounds: Offsets, adjacent: bool
) -> tuple[Array, Offsets]:
    """See sort.py."""
    rows = real_columns(flat_rows(data))
    if adjacent:
        return compressed(data, bounds, _differs(rows, offsets))
    # The last key first: each sort is stable.
    order = cupy.arange(len(rows))
    for key in (*_ranks(rows)[::-1], segment_numbers(offsets)):
        order = order[cupy.argsort(key[order])]
    return segment_compress(data, bounds, _differs(rows, offsets, order, by_row=True).kept)


def segment_first_fall(data: Array, offsets: Offsets) -> int:
    """See sort.py. This waits for the device."""
    kernel, infinity = _ranked("sort_falls", data.dtype)
    given = (cupy.ascontiguousarray(data), on_device(offsets), offsets.size - 1, infinity)
    return first_row("sort", kernel, len(data), *given)


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Array:
    """See sort.py. A thread does a binary search for each value."""
    rows = len(values)
    out: Array = cupy.empty(rows, np.int64)
    kernel, infinity = _ranked("sort_search", data.dtype)
    given = (cupy.ascontiguousarray(data), on_device(offsets), cupy.ascontiguousarray(values))
    rest = (on_device(bounds), bounds.size - 1, rows, infinity, int(side == "right"), out)
    run("sort", kernel, (blocks(rows, THREADS),), (THREADS,), *given, *rest)
    return out


def segment_histogram(data: Array, offsets: Offsets, edges: Array) -> Array:
    """See sort.py. A thread does a binary search in the edges for each value."""
    rows, segments, bins = len(data), offsets.size - 1, edges.size - 1
    dtype = np.result_type(comparable(data[:0]).dtype, comparable(edges).dtype)
    values = cupy.ascontiguousarray(comparable(data).astype(dtype, copy=False))
    cuts = cupy.asarray(comparable(edges).astype(dtype))
    counts: Array = cupy.zeros((segments, bins), np.int64)
    args = (values, on_device(offsets), segments, rows, cuts, bins, counts)
    kernel = f"sort_bins<{c_type(dtype, 'a histogram')}>"
    run("sort", kernel, (blocks(rows, THREADS),), (THREADS,), *args)
    return counts


class _Keys(NamedTuple):
    """Arrays for the keys of some tensors, with all columns concatenated.

    Attributes:
        keys: (D, N) unsigned.
        owners: (D, N) unsigned, column and segment; None if the keys include them.
    """

    keys: Array
    owners: Array | None

    def put(self, values: Array, offsets: Offsets, order: str) -> None:
        """Write the keys of values (N, D)."""
        rows, columns = values.shape
        shape = _grid(rows, columns), (THREADS,)
        index = (on_device(offsets), offsets.size - 1, rows, columns)
        shift = 0 if self.owners is not None else 8 * values.itemsize
        _launch_ranks(values, index, order, shift, self.keys)
        if self.owners is not None:
            kernel = f"sort_owners<{WORDS[self.owners.itemsize]}>"
            run("sort", kernel, *shape, *index, rows, self.owners)

    def order(self) -> Array:
        """Return the stable order of all keys, (D * N,)."""
        order: Array = cupy.argsort(self.keys.reshape(-1))
        if self.owners is not None:
            order = order[cupy.argsort(self.owners.reshape(-1)[order])]
        return order


def _room_for_keys(rows: int, columns: int, value_bytes: int, segments: int) -> _Keys:
    """Return arrays for keys, in the narrowest dtype: radix sort then has fewer digits."""
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
        _launch_ranks(rows, index, "ASCENDING", 0, made)
    return made  # type: ignore[no-any-return]


def _launch_ranks(
    values: Array, index: tuple[Array, int, int, int], order: str, shift: int, keys: Array
) -> None:
    """See sort_keys in sort.cu."""
    _, _, rows, columns = index
    kernel, infinity = _ranked("sort_keys", values.dtype, WORDS[keys.itemsize])
    rest = (infinity, ORDERS.index(order), shift, keys.shape[1], keys)
    shape = _grid(rows, columns), (THREADS,)
    run("sort", kernel, *shape, cupy.ascontiguousarray(values), *index, *rest)


def _ranked(kernel: str, dtype: np.dtype[Any], *types: str) -> tuple[str, int]:
    """Return a kernel that compares values of a dtype by rank_of, and the bits of infinity.

    NaN of either sign is last; -0.0 equals 0.0.
    """
    infinity, kind = 0, "SIGNED" if dtype.kind == "i" else "UNSIGNED"
    if is_float(dtype):
        bits = np.array(np.inf).astype(dtype).view(np.dtype(f"u{dtype.itemsize}"))
        infinity, kind = int(bits), "FLOATING"
    return f"{kernel}<{', '.join((WORDS[dtype.itemsize], *types, kind))}>", infinity


def _differs(
    rows: Array, offsets: Offsets, order: Array | None = None, *, by_row: bool = False
) -> Marks:
    """Mark rows (N, D) that differ from the previous row, or belong to another segment.

    Args:
        rows: real.
        offsets: (S+1,).
        order: (N,), the sorted rows of each segment; None for the given order.
        by_row: True: marks are at the original rows, not in `order`; tiles must not be used.
    """
    count, columns = rows.shape
    marks = room_for_marks(count)
    kernel, infinity = _ranked("sort_differs", rows.dtype)
    ordered = 0 if order is None else 2 if by_row else 1
    given = (cupy.ascontiguousarray(rows), on_device(offsets) if order is None else order, ordered)
    index = (on_device(offsets), offsets.size - 1, count, columns)
    rest = (infinity, marks.height, marks.kept, marks.tiles)
    run("sort", kernel, marks.grid, (THREADS,), *given, *index, *rest)
    return marks
