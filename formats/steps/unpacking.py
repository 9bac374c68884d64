"""Converts a tensor to time steps, with only a part of them in memory.

Of a tensor in memory, blocks of steps are gathered. Of one in a file, a first pass over the index
counts the rows of each step. Chunks of steps that fit into memory become buckets in a temporary
file: one pass over the rows distributes them, and each bucket is read back and put in the order of
its steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import naming_source
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import StreamedArray, TensorSpec, find
from lodcli.formats.steps.buckets import buckets, item_ranges
from lodcli.formats.steps.chunks import Chunk, Steps
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.items import find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.gather import taken
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.time_steps import STEP_LEVEL, IndexMap, index_map_of, to_steps


def unpacked(
    source: IndexedSource, name: str, level: int | str, label: str, *, in_order: bool
) -> StreamedArray:
    """Return the sequences of a level as time steps; see `TensorArray.unpack`.

    Args:
        source: the open file; its rows are read when those of the result are requested.
        level: the level whose sequences run in parallel.
        label: name of the file in messages.
        in_order: whether the sequences stay in their order; else the longest are first.

    Raises:
        SelectionError: no such level.
    """
    return _Unpacking(source, name, level, label, in_order=in_order).array()


def unpacked_in_memory(
    spec: TensorSpec, tensor: LoDTensor, level: int | str, *, in_order: bool
) -> StreamedArray:
    """Return the sequences of a level as time steps; see `TensorArray.unpack`.

    Memory holds no second copy of the rows: each block of steps is gathered when it is requested.

    Args:
        tensor: without nulls.
        level: the level whose sequences run in parallel.
        in_order: whether the sequences stay in their order; else the longest are first.

    Raises:
        SelectionError: no such level.
    """
    index_map = index_map_of(tensor.lod, level, not in_order)
    below, data = tensor.lod.below(index_map.level), tensor.data
    items, sizes = index_map.steps()
    index, ends = below, _item_ends(below, items.size)
    if below.n_levels:
        found = find_items(below, items)
        index, ends = found.lod, found.bounds
    lod = LoD._trusted((sizes, *index.levels), (STEP_LEVEL, *index.names))

    def blocks() -> Iterator[Array]:
        parts = cuts([ends], [spec.row_bytes], BATCH_BYTES)
        yield from ahead(taken(data, below, items[start:stop], 0)[0] for start, stop in parts)

    return StreamedArray(tensor.dtype, tensor.row_shape, lod, index_map, blocks)


class _Unpacking:
    def __init__(
        self, source: IndexedSource, name: str, level: int | str, label: str, *, in_order: bool
    ) -> None:
        self._source = source
        self._label = label
        self._spec = find(source.schema, name)
        lod = source.lods[self._spec.name]
        self._map = index_map_of(lod, level, not in_order)
        self._below = lod.below(self._map.level)
        self._offsets = self._map.outer.levels[-1]
        self._ends = _item_ends(self._below, int(self._offsets[-1]))
        self._rank = np.empty_like(self._map.order)
        self._rank[self._map.order] = np.arange(self._rank.size)
        self._steps = Steps(self._map, self._step_rows(), self._spec.row_bytes)

    def array(self) -> StreamedArray:
        """Return the result."""
        sizes = lengths_to_offsets(self._map.step_sizes, level=0)
        below = self._below
        if below.n_levels:
            below = find_items(below, self._map.items).lod
        lod = LoD((sizes, *below.levels), (STEP_LEVEL, *below.names))
        spec = self._spec
        return StreamedArray(spec.dtype, spec.row_shape, lod, self._map, self._named)

    def _step_rows(self) -> Offsets:
        """Return the number of rows of each step."""
        sizes = self._map.step_sizes
        if not self._below.n_levels:
            return sizes
        rows = np.zeros_like(sizes)
        for start, stop in item_ranges(self._ends, self._spec.row_bytes):
            lengths = np.diff(np.asarray(self._ends[start : stop + 1]))
            np.add.at(rows, self._places(start, stop)[1], lengths)
        return rows

    def _places(self, start: int, stop: int) -> tuple[Offsets, Offsets]:
        """Return the sequence and the step of items start..stop."""
        first = int(np.searchsorted(self._offsets, start, "right")) - 1
        last = int(np.searchsorted(self._offsets, stop, "left"))
        borders = np.clip(self._offsets[first : last + 1], start, stop)
        sequence = np.repeat(np.arange(first, last), np.diff(borders))
        return sequence, np.arange(start, stop) - self._offsets[sequence]

    def _buckets(self, start: int, stop: int) -> Offsets:
        """Return the bucket of each of items start..stop."""
        sequence, step = self._places(start, stop)
        steps = self._steps
        found: Offsets = steps.first_bucket[step] + self._rank[sequence] // steps.bucket_ranks[step]
        return found

    def _named(self) -> Iterator[Array]:
        """Yield the rows; errors name the file that is read."""
        with naming_source(self._label):
            yield from self._blocks()

    def _blocks(self) -> Iterator[Array]:
        """Yield the rows of the steps, a chunk at a time."""
        spec = self._spec
        rows = np.zeros(self._steps.chunk_count, np.int64)
        parts = list(item_ranges(self._ends, spec.row_bytes))
        for start, stop in parts:
            lengths = np.diff(np.asarray(self._ends[start : stop + 1]))
            np.add.at(rows, self._buckets(start, stop), lengths)
        with buckets(spec, rows) as spool:
            for start, stop, data in ahead(self._read(parts)):
                ends = np.asarray(self._ends[start : stop + 1]) - self._ends[start]
                spool.distribute(data, ends, self._buckets(start, stop))
            chunks = enumerate(self._steps.chunks())
            yield from ahead(self._ordered(chunk, spool.read(number)) for number, chunk in chunks)

    def _read(self, parts: list[tuple[int, int]]) -> Iterator[tuple[int, int, Array]]:
        for start, stop in parts:
            first, last = int(self._ends[start]), int(self._ends[stop])
            yield start, stop, self._source.read_rows(self._spec.name, first, last)

    def _ordered(self, chunk: Chunk, data: Array) -> Array:
        """Return the rows of a bucket, stored in the order of the file, in the order of steps."""
        sequences = self._map.order[chunk.ranks]
        by_file = np.argsort(sequences)
        bounds = lengths_to_offsets(self._steps.clipped(chunk)[by_file], level=0)
        levels: tuple[Offsets, ...] = ()
        if self._below.n_levels:
            items = ranges(self._offsets[sequences[by_file]] + chunk.start, bounds)
            levels = find_items(self._below, items).lod.levels
        order = np.empty_like(by_file)
        order[by_file] = np.arange(by_file.size)
        tensor = LoDTensor(data, LoD((bounds, *levels)))
        return to_steps(tensor, IndexMap(order, LoD([bounds]))).data


def _item_ends(below: LoD, count: int) -> Offsets | range:
    """Return the offsets of the items, in rows.

    Without levels below, the items are rows, and a range takes less memory than an array, which
    could be larger than the rows.
    """
    return below.absolute(0) if below.n_levels else range(count + 1)
