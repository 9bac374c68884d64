"""The items of one level of a file, read in ranges, by increasing numbers, or in any order.

Memory holds the index of the level and a few batches, however large the file is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from lodcli.formats.arrays.budget import batch_bytes, require_items_fit, require_sizes_fit
from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, StoredRows
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema, TensorSpec
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import joined_items, part_indexes, taken, taken_indexes
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import (
    Array,
    Offsets,
    lengths_to_offsets,
    offsets_to_lengths,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.row_ranges import rows_of_ranges
from lodcli.kernels.runtime import buffers as memory
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

# Items at most this far apart are read together, with the bytes between them.
NEAR_BYTES = 256 << 10
# Items whose sizes are computed at a time.
_ITEMS = 1 << 16


class Items:
    """The items of one level, with all tensors that share them."""

    def __init__(self, source: IndexedSource, shared: Shared) -> None:
        self.source = source
        self.shared = shared
        self._nulls: dict[str, Nulls] = {}
        self._row_bytes = [spec.row_bytes for spec in shared.specs]
        first = shared.specs[0]
        count = [*(one.items for one in first.levels), first.rows][shared.level]
        assert count is not None
        self.count = count

    @cached_property
    def schema(self) -> Schema:
        """The tensors with the items as outermost level, all counts known."""
        return self.counted(slice(0, self.count))

    @cached_property
    def lods(self) -> Mapping[str, LoD]:
        """The index of each tensor from this level inwards; the first access reads them."""
        level, cut, found = self.shared.level, dict[tuple[str, ...], LoD](), dict[str, LoD]()
        for spec in self.shared.specs:
            lod = self.source.lods[spec.name]
            below = lod.below(level - 1) if level else lod
            found[spec.name] = cut.setdefault(tuple(one.key for one in spec.levels), below)
        return found

    @cached_property
    def _ends(self) -> Mapping[str, Offsets | range]:
        # Not an array: without levels every row is an item, and there may be too many.
        return {
            name: lod.absolute(0) if lod.n_levels else range(self.count + 1)
            for name, lod in self.lods.items()
        }

    @cached_property
    def bytes(self) -> Offsets:
        """The offsets of the items in bytes of all tensors together, (count + 1,)."""
        total = np.zeros(self.count + 1, np.int64)
        for ends, size in zip(self._ends.values(), self._row_bytes, strict=True):
            total += _array(ends) * size
        return total

    def fitting_sizes(self, items: Offsets) -> Offsets:
        """Return the bytes of each of these items of all tensors together, (K,).

        Raises:
            TooLargeError: one exceeds the memory budget.
        """
        # Of many items, those of all in the order of the file, and then these: of each tensor, the
        # offsets of items in any order are anywhere in memory.
        many = 2 * items.size >= self.count
        found = np.zeros(self.count if many else items.size, np.int64)
        for first in range(0, found.size, _ITEMS):
            some = slice(first, first + _ITEMS)
            for ends, size in zip(self._ends.values(), self._row_bytes, strict=True):
                if isinstance(ends, range):
                    found[some] += size
                elif many:
                    found[some] += offsets_to_lengths(ends[first : first + _ITEMS + 1]) * size
                else:
                    found[some] += (ends[items[some] + 1] - ends[items[some]]) * size
        if many:
            found = found[items]
        with naming(listing(self._ends)):
            require_sizes_fit(found, items)
        return found

    def counted(self, chosen: slice | Offsets) -> Schema:
        """Return the schema of only these items."""
        return tuple(self._counted(spec, chosen) for spec in self.shared.schema)

    def _counted(self, spec: TensorSpec, chosen: slice | Offsets) -> TensorSpec:
        index = self.lods[spec.name].levels
        counts = [0] * (len(index) + 1)
        for starts, stops in _ranges(chosen):
            for depth, offsets in enumerate(index):
                counts[depth] += int((stops - starts).sum())
                starts, stops = offsets[starts], offsets[stops]
            counts[-1] += int((stops - starts).sum())
        *items, rows = counts
        levels = (replace(one, items=n) for one, n in zip(spec.levels, items, strict=True))
        return replace(spec, levels=tuple(levels), rows=rows)

    def nulls(self, name: str) -> Nulls:
        """Return the nulls of all items of a tensor, which stay in memory like the index."""
        if name not in self._nulls:
            self._nulls[name] = self.source.read_nulls(name, self.shared.level, 0, self.count)
        return self._nulls[name]

    def ends(self, name: str) -> Offsets:
        """Return the offsets of the items in rows of a tensor, (count + 1,)."""
        return _array(self._ends[name])

    def held_rows(self, name: str) -> Array | None:
        """Return all rows of a tensor, read-only, if they are in memory; else None."""
        return self.source.held_rows(name)

    def rows(self, name: str) -> Array:
        """Return all rows of a tensor; read-only if they were in memory already."""
        held = self.held_rows(name)
        if held is not None:
            return held
        return self.source.read_rows(name, 0, int(self._ends[name][-1]))

    def stored(self, name: str) -> StoredRows | None:
        """Return the position of the rows of a tensor in the file; see Source."""
        return self.source.stored_rows(name)

    def read(self, start: int, stop: int) -> dict[str, LoDTensor]:
        """Return items start..stop."""
        found = {}
        for name, lod, rows in part_indexes(self.lods, start, stop):
            data, nulls = self.source.read_items(name, self.shared.level, start, stop, rows)
            found[name] = LoDTensor(data, lod, nulls=nulls)
        return found

    def range(
        self, start: int, stop: int, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[dict[str, LoDTensor]]:
        """Yield items start..stop in batches; at least one."""
        parts = zip(self._ends.values(), self._row_bytes, strict=True)
        size_bytes = sum((int(ends[stop]) - int(ends[start])) * size for ends, size in parts)
        # A generator: the index is read with the first batch, which some callers never need.
        yield from ahead(self._range(start, stop, limit_bytes), size_bytes + 8 * (stop - start))

    def _range(self, start: int, stop: int, limit_bytes: int) -> Iterator[dict[str, LoDTensor]]:
        ends = [one[start : stop + 1] for one in self._ends.values()]
        with naming(listing(self._ends)):
            require_items_fit(ends, self._row_bytes, start)
        for begin, end in cuts(ends, self._row_bytes, limit_bytes):
            yield self.read(start + begin, start + end)

    def picked(self, items: Offsets) -> Iterator[dict[str, LoDTensor]]:
        """Yield these items, (K,) int64 and increasing, in batches; at least one."""
        return ahead(self._picked(items))

    def gather(self, items: Offsets) -> dict[str, LoDTensor]:
        """Return these items, (K,) int64, in any order; they may repeat."""
        if (items[1:] > items[:-1]).all():
            return joined_items(list(self._picked(items)))
        ascending, places = np.unique(items, return_inverse=True)
        return taken(joined_items(list(self._picked(ascending))), places)

    def _picked(self, items: Offsets) -> Iterator[dict[str, LoDTensor]]:
        if not items.size:
            yield self.read(0, 0)
            return
        ends = lengths_to_offsets(self.fitting_sizes(items), level=0)
        # Half, because memory holds a batch, and the bytes read with those between items.
        for first, last in cuts([ends], [1], BATCH_BYTES // 2):
            yield self._taken(items[first:last])

    def _taken(self, items: Offsets) -> dict[str, LoDTensor]:
        """Return these items, (K,) int64 and increasing; at least one."""
        runs = list(self._runs(items, batch_bytes(BATCH_BYTES)))
        if len(runs) == 1:
            start, stop = items.item(0), items.item(-1) + 1
            batch = self.read(start, stop)
            return batch if stop - start == items.size else taken(batch, items - start)
        found = {}
        indexes = taken_indexes(self.lods, items)
        for spec, (name, places, index) in zip(self.shared.specs, indexes, strict=True):
            lod, ends, dtype = self.lods[name], self._ends[name], spec.dtype.newbyteorder("=")
            data = memory.empty((places.bounds.item(-1), *spec.row_shape), dtype)
            parts = [(places.starts, places.bounds, data)]
            for starts, bounds in _levels(lod, index, items) if spec.nullable else ():
                parts.append((starts, bounds, np.ones(bounds.item(-1), np.bool_)))
            for first, last in runs:
                start, stop = items.item(first), items.item(last - 1) + 1
                rows = slice(int(ends[start]), int(ends[stop]))
                read, nulls = self.source.read_items(name, self.shared.level, start, stop, rows)
                # Without nulls there are no masks.
                for (starts, bounds, out), part in zip(parts, (read, *nulls.masks), strict=False):
                    if part is None:
                        continue
                    low, high = bounds.item(first), bounds.item(last)
                    if len(part) != high - low:
                        begins = starts[first:last] - starts[first]
                        part = rows_of_ranges(part, begins, bounds[first : last + 1] - low)
                    out[low:high] = part
            found[name] = LoDTensor(data, index, nulls=Nulls.of([out for *_, out in parts[1:]]))
        return found

    def _runs(self, items: Offsets, limit_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield ranges first..last of the items that are read together: not far apart or too many.

        Args:
            items: (K,), increasing.
            limit_bytes: of a run, with the bytes between items; a single item may exceed it.
        """
        first = 0
        while first < items.size:
            # Limits the number of items: those without bytes still take memory for their index.
            some = items[first : first + limit_bytes // 8]
            starts, stops = self._places(some), self._places(some + 1)
            far = np.flatnonzero(starts[1:] - stops[:-1] > NEAR_BYTES) + 1
            for begin, end in pairwise([0, *far.tolist(), some.size]):
                while begin < end:
                    limit = starts.item(begin) + limit_bytes
                    last = begin + int(np.searchsorted(stops[begin:end], limit, "right"))
                    last = max(last, begin + 1)
                    if begin and last == some.size < items.size - first:
                        break  # the run may continue
                    yield first + begin, first + last
                    begin = last
            first += begin

    def _places(self, items: Offsets) -> Offsets:
        """Return the bytes of all tensors together before each of these items, (K,)."""
        found = np.zeros(items.size, np.int64)
        for ends, size in zip(self._ends.values(), self._row_bytes, strict=True):
            found += (items if isinstance(ends, range) else ends[items]) * size
        return found


def _levels(lod: LoD, index: LoD, items: Offsets) -> Iterator[tuple[Offsets, Offsets]]:
    """Yield `starts` and `bounds` of chosen items, see FoundItems, in each level and the rows."""
    starts, bounds = items, np.arange(items.size + 1)
    yield starts, bounds
    for above, below in zip(lod.levels, index.levels, strict=True):
        starts, bounds = above[starts], below[bounds]
        yield starts, bounds


def _array(ends: Offsets | range) -> Offsets:
    """Return offsets as an array; from a range, np.asarray makes an object of each first."""
    return np.arange(ends.start, ends.stop) if isinstance(ends, range) else ends


def _ranges(chosen: slice | Offsets) -> Iterator[tuple[Offsets, Offsets]]:
    """Yield the first and the next item after each range of items; of numbers, of some at a time.

    So memory holds no further arrays of all numbers.
    """
    if isinstance(chosen, slice):
        yield np.array([chosen.start]), np.array([chosen.stop])
        return
    for first in range(0, chosen.size, _ITEMS):
        some = chosen[first : first + _ITEMS]
        yield some, some + 1
