"""Reorders items, also more than fit into memory.

Items in memory are copied from there, in batches. Large items of a file that fits into the page
cache are read one by one, in place. Otherwise one pass over the file distributes the items to
buckets on disk, one for each part of the result; then each bucket is read back and put in order in
memory. All reads and writes are then sequential, whereas reading items one by one would read a
whole block for each.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import pairwise, product

import numpy as np

from lodcli.formats.arrays.byte_blocks import flat_bytes
from lodcli.formats.core.errors import naming_os
from lodcli.formats.core.format import StoredRows
from lodcli.formats.items.items import Items
from lodcli.formats.items.stored_items import StoredItems
from lodcli.formats.items.taking import part, taken, taken_indexes
from lodcli.formats.storage.pread import read_array
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.slicing.row_ranges import rows_at
from lodcli.kernels.order.stable import stable_order
from lodcli.kernels.platform import files, machine
from lodcli.kernels.runtime import buffers as memory
from lodcli.kernels.runtime.memory_budget import at_most
from lodcli.kernels.tensor.gather import gather_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS

# Items of at most this total size are reordered in memory.
IN_MEMORY_BYTES = 64 << 20
BUCKET_BYTES = 16 << 20
# Size of the items distributed at a time: large, so that each bucket is written in long pieces.
PASS_BYTES = 16 << 20
# Items of this size on average are read one by one: reading one costs as much as distributing it.
LARGE_ITEM_BYTES = 4 << 10
# Tensors of at most this total size stay in memory while others are read in place.
SMALL_BYTES = 16 << 20
# Items whose sizes are added at a time.
_ITEMS = 1 << 16


def reordered(items: Items, order: Offsets) -> Iterator[dict[str, LoDTensor]]:
    """Yield items of a file in an order, in batches; at least one.

    Only tensors that were checked when they came into memory have marks, which tell `marked` so.

    Args:
        items: of a file.
        order: (K,) int64, the items in the new order, without repetitions.
    """
    parts = _parts(items, order)
    if parts is None:
        yield _in_memory(items, order)
        return
    found = _in_place(items)
    yield from ahead(map(found.taken, parts) if found else _spooled(items, parts))


def _parts(items: Items, order: Offsets) -> list[Offsets] | None:
    """Return the items of each bucket; None if all of them may be in memory."""
    sizes = items.fitting_sizes(order)
    sizes += 8  # in the index of a bucket
    ends = np.cumsum(sizes, out=sizes)  # in place: one array less of all items
    total = int(ends[-1]) if ends.size else 0
    if total <= at_most(IN_MEMORY_BYTES, 4):
        return None
    # A bucket begins at the first item that begins at or after a multiple of its size.
    multiples = np.arange(0, total, at_most(BUCKET_BYTES, 16))
    borders = np.unique([0, *(np.searchsorted(ends, multiples[1:]) + 1), order.size])
    return [order[first:last] for first, last in pairwise(borders.tolist())]


def _in_place(items: Items) -> _InPlace | None:
    """Return a reader of the items in place, or None if that would take longer."""
    held, small, large, small_bytes, all_bytes = {}, [], {}, 0, 0
    for spec in items.schema:
        rows = items.held_rows(spec.name)
        if rows is not None:
            held[spec.name] = rows
            continue
        size = (spec.rows or 0) * spec.row_bytes
        all_bytes += size
        stored = items.stored(spec.name)
        if small_bytes + size <= at_most(SMALL_BYTES, 16):
            small.append(spec.name)
            small_bytes += size
        # Not booleans: StoredItems verifies checksums, but not that each is 0 or 1.
        elif stored is None or spec.dtype == np.bool_ or size < LARGE_ITEM_BYTES * items.count:
            return None
        else:
            large[spec.name] = stored
    # Otherwise the system would read a block for every item.
    if 2 * all_bytes > (machine.available_bytes() or 0):
        return None
    held |= {name: items.rows(name) for name in small}
    return _InPlace(items, held.__getitem__, large)


class _InPlace:
    """Items read in place.

    Args:
        items: of a file.
        rows: returns all rows of another tensor.
        large: the positions of the rows of the tensors that are read in place.
    """

    def __init__(
        self, items: Items, rows: Callable[[str], Array], large: dict[str, StoredRows]
    ) -> None:
        self._items = items
        self._rows = rows
        self._large = {}
        for spec in items.schema:
            if spec.name in large:
                ends = items.ends(spec.name) * spec.row_bytes
                self._large[spec.name] = StoredItems(large[spec.name], ends)

    def taken(self, wanted: Offsets) -> dict[str, LoDTensor]:
        """Return these items."""
        found = {}
        indexes = taken_indexes(self._items.lods, wanted)
        for spec, (name, places, index) in zip(self._items.schema, indexes, strict=True):
            if name not in self._large:
                # No variable holds the rows while those of the next tensor are read.
                data = (
                    gather_items(self._rows(name), places)
                    if index.n_levels
                    else rows_at(self._rows(name), wanted)
                )
            else:
                rows = places.bounds.item(-1)
                # From the buffer pool, which does not hold smaller blocks.
                size = rows * spec.row_bytes
                block = memory.empty((max(size, memory.LEAST_BYTES),), np.dtype(np.uint8))[:size]
                self._large[name].read(wanted, block)
                data = block.view(spec.dtype.newbyteorder("=")).reshape(rows, *spec.row_shape)
            nulls = self._items.nulls(name).taken(self._items.lods[name], wanted)
            marks = NO_MARKS if self._items.held_rows(name) is None else spec.marks
            found[name] = LoDTensor(data, index, marks, nulls)
        return found


def _spooled(items: Items, parts: list[Offsets]) -> Iterator[dict[str, LoDTensor]]:
    with (
        naming_os(tempfile.gettempdir()),
        tempfile.TemporaryFile(prefix="lod-", buffering=0) as file,
    ):
        spool = _Spool(file.fileno(), items, parts)
        spool.distribute()
        for number, wanted in enumerate(parts):
            order = stable_order(wanted)
            places = np.empty_like(order)
            places[order] = np.arange(order.size)
            yield taken(spool.read(number, wanted[order]), places)


def _in_memory(items: Items, order: Offsets) -> dict[str, LoDTensor]:
    if order.size == items.count:  # all, none twice
        return _InPlace(items, items.rows, {}).taken(order)
    return items.gather(order)


class _Spool:
    """Buckets in one file: each has the rows of every tensor, in the order of the source file."""

    def __init__(self, fd: int, items: Items, parts: list[Offsets]) -> None:
        self._fd = fd
        self._items = items
        # The bucket of each item, in the order of the file; -1 for unwanted ones.
        self._bucket = np.full(items.count, -1, np.int32)
        for number, part_items in enumerate(parts):
            self._bucket[part_items] = number
        ends = [items.ends(spec.name) if spec.levels else None for spec in items.schema]
        sizes = np.zeros((len(items.schema), len(parts) + 1), np.int64)
        for first in range(0, items.count, _ITEMS):
            some = self._bucket[first : first + _ITEMS] + 1
            for rows, own in zip(sizes, ends, strict=True):
                # As floats, which are exact: there are less than 2**53 rows.
                lengths = None if own is None else np.diff(own[first : first + _ITEMS + 1])
                rows += np.bincount(some, lengths, len(parts) + 1).astype(np.int64)
        row_bytes = np.array([spec.row_bytes for spec in items.schema])
        sizes = sizes[:, 1:].T * row_bytes
        starts = (np.cumsum(sizes) - sizes.ravel()).tolist()
        names = [spec.name for spec in items.schema]
        self._next = dict(zip(product(range(len(parts)), names), starts, strict=True))
        self._start = dict(self._next)

    def distribute(self) -> None:
        """Write every item to its bucket."""
        first = 0
        for batch in self._items.range(0, self._items.count, at_most(PASS_BYTES, 16)):
            count = len(next(iter(batch.values())))
            bucket = self._bucket[first : first + count]
            first += count
            order = stable_order(bucket)
            order = order[np.searchsorted(bucket[order], 0) :]
            sorted_batch, bucket = taken(batch, order), bucket[order]
            borders = [0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), order.size]
            for start, stop in pairwise(borders):
                if start < stop:
                    self._append(int(bucket[start]), part(sorted_batch, start, stop))

    def _append(self, number: int, tensors: dict[str, LoDTensor]) -> None:
        for name, tensor in tensors.items():
            data = flat_bytes(np.ascontiguousarray(tensor.values)).data
            position = self._next[number, name]
            self._next[number, name] = files.write_all_at(self._fd, data, position)

    def read(self, number: int, ascending: Offsets) -> dict[str, LoDTensor]:
        """Return the items of a bucket in the order of the file."""
        found = {}
        indexes = taken_indexes(self._items.lods, ascending)
        for spec, (name, places, index) in zip(self._items.schema, indexes, strict=True):
            shape = (places.bounds.item(-1), *spec.row_shape)
            dtype = spec.dtype.newbyteorder("=")
            data = read_array(self._fd, shape, dtype, self._start[number, name])
            nulls = self._items.nulls(name).taken(self._items.lods[name], ascending)
            found[name] = LoDTensor(data, index, nulls=nulls)
        return found
