"""Sequences of a level that are equal, found by their hashes."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import IO

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.index.checks import Array, Offsets

# Number of hashes that are compared at a time, 32 bytes each. More hashes take several passes over
# a temporary file.
MOST_AT_ONCE = 2_000_000
MOST_GROUPS, MOST_ITEMS = 5, 8
_HASH_BYTES = 16


@dataclass(frozen=True)
class Group:
    """Equal sequences.

    Attributes:
        count: how many there are.
        items: the numbers of the first ones.
    """

    count: int
    items: tuple[int, ...]


@dataclass(frozen=True)
class Duplicates:
    """Equal sequences of a level.

    Attributes:
        level: its number.
        sequences: how many there are.
        duplicates: how many equal an earlier one.
        groups: the largest ones, the most frequent sequence first.
    """

    level: int
    sequences: int
    duplicates: int
    groups: tuple[Group, ...]


def duplicates(source: IndexedSource, spec: TensorSpec, level: int) -> Duplicates:
    """Return which sequences of a level have the same bytes and the same levels below.

    Two sequences count as equal if 128 bits of their hashes (BLAKE2b) are. Memory holds the index,
    a block of rows and MOST_AT_ONCE hashes; a temporary file (TMPDIR) holds the others.
    """
    count = source.lods[spec.name].count(level)
    with tempfile.TemporaryFile(prefix="lod-") as file:
        for digest in _hashes(source, spec, level):
            file.write(digest)
        passes = -(-count // MOST_AT_ONCE)
        extra = 0
        largest: list[Group] = []
        for number in range(passes):
            more, groups = _repeated(*_part(file, number, passes))
            extra += more
            largest = heapq.nsmallest(
                MOST_GROUPS, [*largest, *groups], key=lambda one: (-one.count, one.items)
            )
    return Duplicates(level, count, extra, tuple(largest))


def _hashes(source: IndexedSource, spec: TensorSpec, level: int) -> Iterator[bytes]:
    """Yield the hash of every sequence of a level; long ones are read in parts."""
    lod = source.lods[spec.name]
    bounds = [np.arange(lod.count(level) + 1)]
    for offsets in lod.levels[level:]:
        bounds.append(offsets[bounds[-1]])
    *inner, rows = bounds[1:]
    lengths = [np.diff(offsets) for offsets in lod.levels[level + 1 :]]
    masks = [
        source.read_mask(spec.name, number, 0, lod.count(number))
        for number in range(level, lod.n_levels)
    ]
    valid = [(place, one) for place, one in zip(bounds, masks, strict=False) if one is not None]
    step = max(1, BATCH_BYTES // max(1, spec.row_bytes))
    block, mask, first, last = np.empty(0), None, 0, 0
    for item, (start, stop) in enumerate(pairwise(rows.tolist())):
        found = blake2b(digest_size=_HASH_BYTES)
        for places, below in zip(inner, lengths, strict=True):
            found.update(below[places[item] : places[item + 1]].tobytes())
            found.update(b"/")
        for places, there in valid:
            found.update(there[places[item] : places[item + 1]].tobytes())
        while start < stop:
            if not first <= start < last:
                first, last = start, min(start + step, int(rows[-1]))
                block = source.read_rows(spec.name, first, last)
                mask = source.read_mask(spec.name, lod.n_levels, first, last)
            end = min(stop, last)
            found.update(block[start - first : end - first].tobytes())
            if mask is not None:
                found.update(mask[start - first : end - first].tobytes())
            start = end
        yield found.digest()


def _part(file: IO[bytes], number: int, passes: int) -> tuple[Array, Offsets]:
    """Return the hashes of one pass, (K, 2) uint64, and the numbers of their items."""
    file.seek(0)
    size = max(1, MOST_AT_ONCE // 4) * _HASH_BYTES
    kept, items, first = [], [], 0
    while raw := file.read(size):
        digests = np.frombuffer(raw, np.uint64).reshape(-1, 2)
        chosen = np.flatnonzero(digests[:, 0] % np.uint64(passes) == number)
        kept.append(digests[chosen])
        items.append(chosen + first)
        first += len(digests)
    return np.concatenate(kept), np.concatenate(items)


def _repeated(digests: Array, items: Offsets) -> tuple[int, Iterator[Group]]:
    """Return how many hashes are repeated, and the groups of equal ones."""
    order = np.lexsort((items, digests[:, 1], digests[:, 0]))
    digests, items = digests[order], items[order]
    new = np.ones(len(items), bool)
    new[1:] = (digests[1:] != digests[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    counts = np.diff(np.append(starts, len(items)))
    frequent = np.flatnonzero(counts > 1)
    best = frequent[np.lexsort((items[starts[frequent]], -counts[frequent]))][:MOST_GROUPS]
    groups = (
        Group(
            int(counts[one]),
            tuple(items[starts[one] : starts[one] + min(counts[one], MOST_ITEMS)].tolist()),
        )
        for one in best
    )
    return len(items) - len(starts), groups
