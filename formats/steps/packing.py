"""Converts time steps to sequences: the inverse of `unpacking`.

Of steps in memory, batches of outermost items are gathered. Of those in a file, ranges of outermost
items that fit into memory become buckets in a temporary file: one pass over the steps distributes
their items, and each bucket is read back and put in the order of its sequences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lodcli.formats.arrays.batch_parts import check_array
from lodcli.formats.arrays.budget import require_items_fit
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import LevelKeys, StoredArray, TensorSpec, find
from lodcli.formats.steps.buckets import ITEM_BYTES, buckets, limit_bytes
from lodcli.formats.steps.chunks import Steps, in_step_order
from lodcli.formats.steps.stored import stored_index_map
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.items import find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.gather import taken
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.time_steps import IndexMap, from_steps, places_in_steps

Batches = Iterator[Mapping[str, LoDTensor]]


def packed(source: ContainerSource, name: str) -> tuple[TensorSpec, Batches]:
    """Return a TensorArray's sequences: their spec, and batches of them.

    Args:
        source: the open file; its rows are read with the first batch.

    Raises:
        InvalidDataError: the steps do not match the index map.
        TooLargeError: an item does not fit into the memory budget.
    """
    packing = _Packing(source, find(source.schema, name))
    return packing.result, packing.batches()


def packed_in_memory(stored: StoredArray, name: str) -> tuple[TensorSpec, Batches]:
    """Return the sequences of a TensorArray: their spec, and batches of them.

    Memory holds no second copy of the rows: each batch is gathered when it is requested.

    Raises:
        ShapeMismatchError: the steps do not match the index map.
    """
    steps, outer = stored.array.steps, stored.index_map.outer
    below, data = steps.lod.below(0), steps.data
    places = places_in_steps(steps.lod, stored.index_map)
    lod, tops = outer, outer.absolute(0)
    ends = tops  # of each outermost item, in rows
    if below.n_levels:
        found = find_items(below, places)
        lod = LoD._trusted([*outer.levels, *found.levels], (*outer.names, *found.names))
        ends = found.bounds[tops]
    spec = TensorSpec(name, steps.dtype, steps.row_shape, LevelKeys().specs(lod), steps.rows)

    def batches() -> Batches:
        for start, stop in cuts([ends], [spec.row_bytes], BATCH_BYTES):
            rows, index = taken(data, below, places[tops[start] : tops[stop]], 0)
            own = outer.items(0, start, stop)[0]
            levels = [*own.levels, *index.levels]
            yield {name: LoDTensor(rows, LoD._trusted(levels, spec.level_names))}

    return spec, ahead(batches())


class _Packing:
    """Packs one TensorArray."""

    def __init__(self, source: ContainerSource, spec: TensorSpec) -> None:
        self._source = source
        self._spec = spec
        assert spec.rows is not None
        lod = source.lods[spec.name]
        self._map = stored_index_map(source, spec)
        with naming(spec.name):
            check_array(lod.levels[0], self._map)
        self._steps = Steps(self._map, np.diff(lod.absolute(0)), spec.row_bytes)
        self._below = lod.below(0)
        outer, result = self._map.outer, self._map.outer
        ends: Offsets | range = range(spec.rows + 1)
        self._ends = ends  # offsets of the items of the steps, in rows
        self._place = np.zeros(0, np.int64)  # position of each item in the steps
        if self._below.n_levels:
            items = self._map.items
            self._place = np.empty_like(items)
            self._place[items] = np.arange(items.size)
            below = find_items(self._below, self._place).lod
            self._ends, ends = self._below.absolute(0), below.absolute(0)
            names = (*outer.names, *below.names)
            result = LoD._trusted([*outer.levels, *below.levels], names)
        # For each outermost item: its first item, and its first row.
        tops = outer.absolute(0)
        rows = tops if isinstance(ends, range) else ends[tops]
        with naming(spec.name):
            require_items_fit([rows], [spec.row_bytes])
        self._parts = list(cuts([rows, tops], [spec.row_bytes, ITEM_BYTES], limit_bytes()))
        self._rows = np.array([rows[stop] - rows[start] for start, stop in self._parts])
        levels = LevelKeys().specs(result)
        self.result = TensorSpec(spec.name, spec.dtype, spec.row_shape, levels, spec.rows)

    def _sequences(self) -> Offsets:
        """Return the first sequence of each part, and the total number."""
        found = np.array([0, *(stop for _, stop in self._parts)])
        for offsets in self._map.outer.levels[:-1]:
            found = offsets[found]
        return found

    def batches(self) -> Batches:
        """Yield whole outermost items."""
        sequences = self._sequences()
        part_of = np.repeat(np.arange(len(self._parts)), np.diff(sequences))
        order = self._map.order
        # The sequences of each part, in the order of the steps.
        by_part = order[np.argsort(part_of[order], kind="stable")]
        with buckets(self._spec, self._rows) as spool:
            for data, ends, sequence in ahead(self._read()):
                spool.distribute(data, ends, part_of[sequence])
            borders = sequences.tolist()

            def parts() -> Batches:
                for number, (start, stop) in enumerate(self._parts):
                    first, last = borders[number], borders[number + 1]
                    tensor = self._joined(spool.read(number), first, last, by_part[first:last])
                    outer = self._map.outer.items(0, start, stop)[0]
                    lod = LoD((*outer.levels, *tensor.lod.levels[1:]), self.result.level_names)
                    yield {self._spec.name: LoDTensor(tensor.data, lod)}

            yield from ahead(parts())

    def _read(self) -> Iterator[tuple[Array, Offsets, Offsets]]:
        """Yield rows of the steps, the offsets of their items, and the sequence of each item."""
        stop = 0
        for chunk in self._steps.chunks():
            places = in_step_order(self._steps.clipped(chunk))
            start, stop = stop, stop + places.size
            ends = np.asarray(self._ends[start : stop + 1])
            data = self._source.read_rows(self._spec.name, int(ends[0]), int(ends[-1]))
            yield data, ends - ends[0], self._map.order[chunk.ranks[places]]

    def _joined(self, data: Array, first: int, last: int, order: Offsets) -> LoDTensor:
        """Return sequences first..last, from rows in the order of the steps."""
        offsets = self._map.outer.levels[-1][first : last + 1]
        index_map = IndexMap(order - first, LoD([offsets - offsets[0]]))
        sizes = lengths_to_offsets(index_map.step_sizes, level=0)
        levels: tuple[Offsets, ...] = ()
        if self._below.n_levels:
            places = np.sort(self._place[int(offsets[0]) : int(offsets[-1])])
            levels = find_items(self._below, places).lod.levels
        return from_steps(LoDTensor(data, LoD((sizes, *levels))), index_map)
