"""Time steps in chunks that fit into memory: several steps, or a part of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from lodcli.formats.steps.buckets import ITEM_BYTES, limit_bytes
from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.time_steps import IndexMap


class Chunk(NamedTuple):
    """Several steps, or the part of one step that belongs to some sequences.

    Attributes:
        start, stop: range of the steps.
        ranks: (K,) int64, the positions in the map's order of the sequences that have step `start`.
    """

    start: int
    stop: int
    ranks: Offsets


class Steps:
    """The time steps of an index map.

    Args:
        step_rows: (T,) the number of rows of each step.

    Attributes:
        lengths: (S,) of the sequences, in the order of the map.
        sizes: (T,) the number of items of each step.
        first_bucket, bucket_ranks: (T,) each: the chunk of a step's item is `first_bucket` of the
            step, plus the rank of its sequence divided by `bucket_ranks`.
    """

    def __init__(self, index_map: IndexMap, step_rows: Offsets, row_bytes: int) -> None:
        self.lengths: Offsets = index_map.outer.lengths(-1)[index_map.order]
        self.sizes = index_map.step_sizes
        count, limit = self.lengths.size, limit_bytes()
        is_sorted = bool((self.lengths[1:] <= self.lengths[:-1]).all())
        # If sequences are sorted by length, those that have a step are the first ones.
        self._ranks = self.sizes if is_sorted else np.full_like(self.sizes, count)
        bytes_of = step_rows * row_bytes + self.sizes * ITEM_BYTES
        ends = lengths_to_offsets(bytes_of, level=0)
        self.first_bucket = np.zeros_like(self.sizes)
        self.bucket_ranks = np.full_like(self.sizes, max(1, count))
        self._spans: list[tuple[int, int, int]] = []  # range of steps, and number of chunks
        start = bucket = 0
        while start < self.sizes.size:
            stop = int(np.searchsorted(ends, ends[start] + limit, "right")) - 1
            parts = 1
            if stop <= start:
                stop = start + 1
                ranks = int(self._ranks[start])
                worst = int(bytes_of[start]) * ranks // int(self.sizes[start])
                self.bucket_ranks[start] = -(-ranks // -(-worst // limit))
                parts = -(-ranks // int(self.bucket_ranks[start]))
            self.first_bucket[start:stop] = bucket
            self._spans.append((start, stop, parts))
            start, bucket = stop, bucket + parts
        self.chunk_count = bucket

    def chunks(self) -> Iterator[Chunk]:
        """Yield all chunks in the order of the steps."""
        for start, stop, parts in self._spans:
            ranks, step = int(self._ranks[start]), int(self.bucket_ranks[start])
            for first in range(0, parts * step, step):
                some = self.lengths[first : min(first + step, ranks)]
                yield Chunk(start, stop, np.flatnonzero(some > start) + first)

    def clipped(self, chunk: Chunk) -> Offsets:
        """Return the number of items that each sequence has in the chunk, (K,)."""
        found: Offsets = np.minimum(self.lengths[chunk.ranks], chunk.stop) - chunk.start
        return found


def in_step_order(lengths: Offsets) -> Offsets:
    """Return the sequence of every item, step by step, for sequences of these lengths.

    >>> in_step_order(np.array([3, 1, 2])).tolist()
    [0, 1, 2, 0, 2, 0]
    """
    if not lengths.size or int(lengths.max()) == 1:
        return np.flatnonzero(lengths)
    bounds = lengths_to_offsets(lengths, level=0)
    items = IndexMap(np.arange(lengths.size), LoD([bounds])).items
    return np.repeat(np.arange(lengths.size), lengths)[items]
