"""Sequences of a level that are equal, found by their hashes."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain, pairwise
from typing import IO

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.order.stable import stable_order
from lodcli.reports.inspection import Duplicates, Group

# Number of hashes that are compared at a time, 32 bytes each. More hashes take several passes over
# a temporary file.
MOST_AT_ONCE = 2_000_000
MOST_HASHED = 100_000  # sequences at a time
SHORT = 64  # bytes of a sequence up to which NumPy hashes many faster than BLAKE2b each
MOST_GROUPS, MOST_ITEMS = 5, 8
_HASH_BYTES = 16


def duplicates(source: IndexedSource, spec: TensorSpec, level: int) -> Duplicates:
    """Return which sequences of a level have the same bytes and the same levels below.

    Two sequences count as equal if 128 bits of their hashes are. Memory holds the index, a block of
    rows and MOST_AT_ONCE hashes; a temporary file (TMPDIR) holds the others.
    """
    count = source.lods[spec.name].count(level)
    with tempfile.TemporaryFile(prefix="lod-") as file:
        for digests in _hashes(source, spec, level):
            file.write(digests)
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
    """Yield the hashes of the sequences of a level, those of many sequences at a time."""
    lod = source.lods[spec.name]
    count = lod.count(level)
    bounds = [np.arange(count + 1)]
    for offsets in lod.levels[level:]:
        bounds.append(offsets[bounds[-1]])
    *inner, rows = bounds
    # Hashed before the rows, unless rows of some bytes alone show how many items there are.
    heads: list[tuple[Array, Offsets]] = []
    if len(inner) > 1 or not spec.row_bytes:
        heads += zip(map(np.diff, lod.levels[level:]), inner, strict=True)
    for number, places in enumerate(inner, level):
        mask = source.read_mask(spec.name, number, 0, lod.count(number))
        heads += [] if mask is None else [(mask, places)]
    step = max(1, BATCH_BYTES // max(1, spec.row_bytes))
    keys = np.random.default_rng().integers(0, 2**64, (2 + SHORT // 4, 4), np.uint64)
    first = 0
    while first < count:
        last = int(np.searchsorted(rows, rows[first] + step, "right")) - 1
        last = min(max(last, first + 1), first + MOST_HASHED)
        start, stop = int(rows[first]), int(rows[last])
        end = min(start + step, stop)
        columns = [(values[at[first] : at[last]], at[first : last + 1]) for values, at in heads]
        bounds_here = np.minimum(rows[first : last + 1], end)
        columns += [(values, bounds_here) for values in _read(source, spec, start, end)]
        raw, ends = _joined(columns)
        if end < stop:  # a single sequence
            found = blake2b(raw, digest_size=_HASH_BYTES)
            for start in range(end, stop, step):
                for values in _read(source, spec, start, min(start + step, stop)):
                    found.update(values.tobytes())
            yield found.digest()
        else:
            yield _hashed(raw, ends, keys)
        first = last


def _read(source: IndexedSource, spec: TensorSpec, start: int, stop: int) -> Iterator[Array]:
    """Yield rows, and their mask if they have one."""
    yield source.read_rows(spec.name, start, stop)
    if spec.nullable:
        mask = source.read_mask(spec.name, len(spec.levels), start, stop)
        yield np.ones(stop - start, np.bool_) if mask is None else mask


def _joined(columns: list[tuple[Array, Offsets]]) -> tuple[bytes, Offsets]:
    """Return the bytes of each sequence one after another, and where each begins.

    Args:
        columns: values, and their bounds by sequence; those of all columns are joined.
    """
    raws = [values.tobytes() for values, _ in columns]
    ends = [
        (bounds - bounds[0]) * (len(raw) // max(1, len(values)))
        for raw, (values, bounds) in zip(raws, columns, strict=True)
    ]
    if len(raws) == 1:
        return raws[0], ends[0]
    cut = [
        [raw[start:end] for start, end in pairwise(bounds.tolist())]
        for raw, bounds in zip(raws, ends, strict=True)
    ]
    return b"".join(chain.from_iterable(zip(*cut, strict=True))), np.sum(ends, axis=0)


def _hashed(raw: bytes, ends: Offsets, keys: Array) -> bytes:
    """Return 128-bit hashes of sequences of bytes: multilinear with random keys; BLAKE2b if long.

    References:
        Lemire and Kaser, Strongly universal string hashing is fast, 2014.
    """
    lengths = np.diff(ends)
    short = lengths <= SHORT
    found = np.empty((lengths.size, 4), "<u4")
    some = lengths[short]
    padded = np.zeros((some.size, -(-int(some.max(initial=0)) // 4) * 4), np.uint8)
    padded[np.arange(padded.shape[1]) < some[:, None]] = np.frombuffer(raw, np.uint8)[
        np.repeat(short, lengths)
    ]
    words = np.column_stack([some, padded.view("<u4")]).astype(np.uint64)
    found[short] = (words @ keys[1 : 1 + words.shape[1]] + keys[0]) >> np.uint64(32)
    long = zip(ends[:-1][~short].tolist(), ends[1:][~short].tolist(), strict=True)
    digests = b"".join(
        blake2b(raw[start:end], digest_size=_HASH_BYTES).digest() for start, end in long
    )
    found[~short] = np.frombuffer(digests, "<u4").reshape(-1, 4)
    return found.tobytes()


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
    first, second = digests.T
    order = stable_order(first)
    new = _changes(first, order)
    if (new != new | _changes(second, order)).any():  # hashes of which only one half is equal
        order = stable_order(first, second)
        new = _changes(first, order) | _changes(second, order)
    items = items[order]
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


def _changes(halves: Array, order: Offsets) -> Array:
    """Return whether each number differs from the one before it in this order, (K,) bool."""
    halves = halves[order]
    return np.concatenate([[True], halves[1:] != halves[:-1]])[: halves.size]
