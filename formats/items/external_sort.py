"""Sort of items by keys: in memory if they fit, else sorted runs are written to disk, and merged.

Memory holds one run while runs are written, and some blocks of each run while they are merged.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, NamedTuple

import numpy as np

from lodcli.formats.arrays.budget import KEPT_SHARE, batch_bytes, keeping
from lodcli.formats.arrays.byte_blocks import flat_bytes
from lodcli.formats.arrays.held import HeldBatches
from lodcli.formats.core.batching import cut_items
from lodcli.formats.core.errors import naming_os
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.marks import marked
from lodcli.formats.core.schema import Schema, rekeyed, tensor_of
from lodcli.formats.items import keys
from lodcli.formats.items.taking import item_count, joined_items, part, taken
from lodcli.formats.storage.pread import read_array
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.platform import files
from lodcli.kernels.runtime.memory_budget import at_most, memory_budget
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

RUN_BYTES = 24 << 20
BLOCK_BYTES = 256 << 10
# Memory that an item takes while it is sorted, besides its tensors: its place, keys and others.
_ITEM_BYTES = 48
# Of a run: before items that need not be kept are left out for the first time.
_PASS_SHARE = 16
# Runs merged at a time; more are first merged to longer runs.
MOST_RUNS = 128

Tensors = dict[str, LoDTensor]
Keep = Literal["first", "last"]


class InMemory(NamedTuple):
    """Items in memory, to be put in order of their keys."""

    whole: Tensors
    names: Sequence[str]
    keep: Keep | None

    def batches(self) -> Iterator[Tensors]:
        """Yield the items in order, in batches; at least one."""
        return taken_in_batches(self.whole, self.order())

    def order(self) -> Offsets:
        """Return the items in order, (K,) int64; with `keep` only those to keep."""
        if self.keep is None:
            return keys.ordered(self._columns())
        order, starts = self.groups()
        if not order.size:
            return order
        return order[starts if self.keep == "first" else np.append(starts[1:], order.size) - 1]

    def groups(self) -> tuple[Offsets, Offsets]:
        """Return all items in order, and the places where another key begins."""
        return keys.grouped(self._columns())

    def _columns(self) -> list[keys.Column]:
        return keys.columns([self.whole], self.names)


def sorted_by(
    schema: Schema, batches: Iterable[Tensors], names: Sequence[str], keep: Keep | None = None
) -> Iterator[Tensors]:
    """Yield all items sorted by their keys, in batches; at least one. The sort is stable.

    Args:
        batches: of tensors that share their items; at least one.
        names: of the tensors that are keys, the primary key first.
        keep: which item of equal keys is needed; others may be left out, the sooner, the less is
            stored.
    """
    with sorting(schema, batches, names, keep) as found:
        yield from found.batches() if isinstance(found, InMemory) else found


@contextmanager
def sorting(
    schema: Schema, batches: Iterable[Tensors], names: Sequence[str], keep: Keep | None = None
) -> Iterator[InMemory | Iterator[Tensors]]:
    """Yield the result of `sorted_by`, or all items, not in order, if they fit into memory."""
    with (
        naming_os(tempfile.gettempdir()),
        tempfile.TemporaryFile(prefix="lod-", buffering=0) as file,
        keeping(at_most(RUN_BYTES, 16)) as kept,
    ):
        spool = _Spool(file.fileno(), schema)
        runs: list[_Run] = []
        held = _Held(schema, names, keep)
        for items in marked(schema, batches):
            batch = {name: tensor_of(item) for name, item in items.items()}
            large = size_bytes(batch) > at_most(RUN_BYTES, 16) and item_count(batch) > 0
            # A large item is copied only if it fits, and not together with others.
            counted = _held_bytes(batch) if large else 0
            if large and not kept.fits(counted):
                if held.count:
                    runs.append(spool.write(held.removed().batches()))
                kept.release()
                if not kept.fits(counted):
                    kept.release()
                    runs.append(spool.write(InMemory(batch, names, keep).batches()))
                    continue
            if not kept.fits(held.add(batch) - counted) and held.count:
                runs.append(spool.write(held.removed().batches()))
                kept.release()
        if not runs:
            yield held.removed()
            return
        if held.count:
            runs.append(spool.write(held.removed().batches()))
        kept.release()
        while len(several := _mergeable(runs)) > 1:
            runs = [
                spool.write(_merged(spool, some, names, keep)) if len(some) > 1 else some[0]
                for some in several
            ]
        yield _merged(spool, runs, names, keep)


def size_bytes(batch: Tensors) -> int:
    """Return the bytes of the rows and of the index of a batch."""
    lods = {id(tensor.lod): tensor.lod for tensor in batch.values()}
    index = sum(offsets.nbytes for lod in lods.values() for offsets in lod.levels)
    return index + sum(tensor.nbytes for tensor in batch.values())


def _held_bytes(batch: Tensors) -> int:
    """Return the bytes that a batch takes while it is sorted."""
    return size_bytes(batch) + _ITEM_BYTES * item_count(batch)


class _Held:
    """Items in memory."""

    def __init__(self, schema: Schema, names: Sequence[str], keep: Keep | None) -> None:
        self._schema = tuple(spec.uncounted() for spec in rekeyed(schema))
        self._names = names
        self._keep = keep
        self._clear()

    def _clear(self) -> None:
        self._batches = HeldBatches(self._schema)
        self.count = self._size_bytes = 0
        self._limit_bytes = at_most(RUN_BYTES, 16) // _PASS_SHARE

    def add(self, batch: Tensors) -> int:
        """Add items, and return how many more bytes all take; fewer if not all were kept."""
        before = self._size_bytes
        self._append(batch)
        if self._keep is not None and self._size_bytes > self._limit_bytes:
            whole = self._batches.tensors()
            self._clear()
            # In the order in which they came: they are sorted again, and copied faster.
            for one in taken_in_batches(whole, np.sort(self._sorted(whole).order())):
                self._append(one)
            # Each item is sorted only a few times, and with few groups each batch by itself.
            size, run = self._size_bytes, at_most(RUN_BYTES, 16)
            self._limit_bytes = size + max(size, min(3 * size, run), run // _PASS_SHARE)
        return self._size_bytes - before

    def _append(self, batch: Tensors) -> None:
        self._batches.add(batch)
        self.count += item_count(batch)
        self._size_bytes += _held_bytes(batch)

    def removed(self) -> InMemory:
        """Remove all items, and return them."""
        whole = self._batches.tensors()
        self._clear()
        return self._sorted(whole)

    def _sorted(self, whole: Tensors) -> InMemory:
        return InMemory(whole, self._names, self._keep)


def taken_in_batches(whole: Tensors, order: Offsets) -> Iterator[Tensors]:
    """Yield these items in batches; at least one."""
    if order.size == item_count(whole) and (order[1:] > order[:-1]).all():
        yield whole
        return
    step = batch_items(whole)
    for first in range(0, max(1, order.size), step):
        yield taken(whole, order[first : first + step])


def batch_items(whole: Tensors) -> int:
    """Return how many of these items are about as large as a batch."""
    return max(1, item_count(whole) * batch_bytes(BATCH_BYTES) // max(1, size_bytes(whole)))


class _Block(NamedTuple):
    """Items in the file.

    Attributes:
        position: of the first byte.
        size_bytes: of all of them.
        levels: for each index, the sizes of its offset arrays.
        rows: for each tensor, the number of rows.
        masks: for each tensor, whether each level, and the rows, have a mask of nulls.
    """

    position: int
    size_bytes: int
    levels: list[list[int]]
    rows: list[int]
    masks: list[list[bool]]


# The blocks of items in order of their keys.
_Run = list[_Block]


def _mergeable(runs: Sequence[_Run]) -> list[list[_Run]]:
    """Divide runs into those that are merged at a time: at least two, but perhaps the last one.

    Memory holds a block of each, which a large item makes large: together a quarter of the budget.
    """
    budget = memory_budget()
    most = max(2, at_most(MOST_RUNS * BLOCK_BYTES, 4) // BLOCK_BYTES)
    several: list[list[_Run]] = []
    held = 0
    for run in runs:
        largest = max((block.size_bytes for block in run), default=0)
        few = bool(several) and len(several[-1]) < 2
        fits = budget is None or held + largest <= budget // KEPT_SHARE
        if few or (several and fits and len(several[-1]) < most):
            several[-1].append(run)
            held += largest
        else:
            several.append([run])
            held = largest
    return several


class _Spool:
    """Blocks of items in one file."""

    def __init__(self, fd: int, schema: Schema) -> None:
        self._fd = fd
        self._schema = schema
        self._end = 0
        # Tensors with the same levels share an index, which is stored once.
        chains = [tuple(level.key for level in spec.levels) for spec in schema]
        self._chains = list(dict.fromkeys(chains))
        self._index_of = [self._chains.index(chain) for chain in chains]

    def write(self, batches: Iterable[Tensors]) -> _Run:
        """Store sorted items, and return their blocks."""
        return [self._write(one) for batch in batches for one in cut_items(batch, BLOCK_BYTES)]

    def _write(self, batch: Tensors) -> _Block:
        tensors = [batch[spec.name] for spec in self._schema]
        lods = [tensors[self._index_of.index(n)].lod for n in range(len(self._chains))]
        position = self._end
        described = (
            [[offsets.size for offsets in lod.levels] for lod in lods],
            [tensor.rows for tensor in tensors],
            [[mask is not None for mask in tensor.nulls.masks] for tensor in tensors],
        )
        offsets = [one for lod in lods for one in lod.levels]
        masks = [mask for tensor in tensors for _, mask in tensor.nulls.present()]
        for array in (*offsets, *(tensor.values for tensor in tensors), *masks):
            data = flat_bytes(np.ascontiguousarray(array)).data
            self._end = files.write_all_at(self._fd, data, self._end)
        return _Block(position, self._end - position, *described)

    def read(self, block: _Block) -> Tensors:
        """Return the items of a block."""
        position = block.position

        def array(shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
            nonlocal position
            found = read_array(self._fd, shape, dtype, position)
            position += found.nbytes
            return found

        offsets = [[array((size,), np.dtype(np.int64)) for size in sizes] for sizes in block.levels]
        names = {n: spec.level_names for n, spec in zip(self._index_of, self._schema, strict=True)}
        lods = [LoD._trusted(levels, names[n]) for n, levels in enumerate(offsets)]
        values = [
            array((rows, *spec.row_shape), spec.dtype)
            for spec, rows in zip(self._schema, block.rows, strict=True)
        ]
        found = {}
        for place, (spec, data) in enumerate(zip(self._schema, values, strict=True)):
            lod = lods[self._index_of[place]]
            counts = [*(offsets.size - 1 for offsets in lod.levels), len(data)]
            masks = [
                array((count,), np.dtype(np.bool_)) if there else None
                for there, count in zip(block.masks[place], counts, strict=False)
            ]
            found[spec.name] = LoDTensor(data, lod, spec.marks, Nulls.of(masks))
        return found


class _Window:
    """The first items of a run that were not yielded yet.

    Args:
        run: the blocks of the items.
        limit_bytes: of the items in memory; there may be one larger block.
    """

    def __init__(self, spool: _Spool, run: _Run, names: Sequence[str], limit_bytes: int) -> None:
        self._spool = spool
        self._blocks = deque(run)
        self._names = names
        self._limit_bytes = limit_bytes
        self._batch: Tensors = {}
        self._start = self._count = 0

    def fill(self) -> bool:
        """Read the next blocks if half of these are used up; return False at the end."""
        # Not only when all are used up: the windows end at similar keys, so a pass would merge most
        # items of all, and the next ones, until each window is empty, only a few.
        while self._blocks and 2 * (self._count - self._start) <= self._count:
            rest = part(self._batch, self._start, self._count) if self._start < self._count else {}
            found, size = [rest] if rest else [], size_bytes(rest)
            while self._blocks and (
                not found or size + self._blocks[0].size_bytes <= self._limit_bytes
            ):
                size += self._blocks[0].size_bytes
                found.append(self._spool.read(self._blocks.popleft()))
            if rest and len(found) == 1:
                break
            self._batch = joined_items(found)
            self._start, self._count = 0, item_count(self._batch)
            self._key = keys.lookup(self._batch, self._names)
        return self._start < self._count

    @property
    def last(self) -> keys.Key:
        """The last key of the blocks in memory."""
        return self._key(self._count - 1)

    def take(self, bound: keys.Key, *, equal: bool) -> Tensors:
        """Return the items before key `bound`, with `equal` also those equal to it."""
        bisect = bisect_right if equal else bisect_left
        stop = bisect(range(self._count), bound, self._start, key=self._key)
        first, self._start = self._start, stop
        return part(self._batch, first, stop) if first < stop else {}


def _merged(
    spool: _Spool, runs: Sequence[_Run], names: Sequence[str], keep: Keep | None
) -> Iterator[Tensors]:
    # Of few runs several blocks at a time: each pass of the loop takes time of its own.
    limit_bytes = batch_bytes(BATCH_BYTES) // len(runs)
    windows = [_Window(spool, run, names, limit_bytes) for run in runs]
    while windows := [window for window in windows if window.fill()]:
        # Items before the least of the last keys are complete. Items equal to it in later runs
        # wait for the rest of the run whose block ends with it.
        bound, holder = min((window.last, n) for n, window in enumerate(windows))
        found = [window.take(bound, equal=n <= holder) for n, window in enumerate(windows)]
        whole = joined_items([one for one in found if one])
        yield from InMemory(whole, names, keep).batches()
