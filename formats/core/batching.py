"""Splits tensors into batches of whole outermost items, and joins tensors of one batch."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from lodcli.formats.arrays.budget import ITEM_COPIES, batch_bytes, fits, require_items_fit
from lodcli.formats.arrays.spool import Spool, WholeArray
from lodcli.formats.core.errors import naming
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, Item, Schema, TensorSpec, outline, tensor_of
from lodcli.formats.items.taking import part
from lodcli.formats.storage.outputs import Output
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks
from lodcli.kernels.tensor.nulls import Nulls

# Rows that wait in memory for those of other tensors, at most.
WAITING_BYTES = 64 << 20
_FEW = 16  # items


def groups(schema: Schema) -> list[list[TensorSpec]]:
    """Return groups of tensors that share their outermost level; others are alone in a group."""
    found: dict[str, list[TensorSpec]] = {}
    for spec in schema:
        alone = spec.array or not spec.levels
        key = f"={spec.name}" if alone else spec.levels[0].key
        found.setdefault(key, []).append(spec)
    return list(found.values())


def cuts(
    item_offsets: Sequence[Offsets | Sequence[int]], row_bytes: Sequence[int], limit_bytes: int
) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of the outermost items of each batch; at least one batch.

    Args:
        item_offsets: for each tensor, the offsets of its outermost items, in rows.
        row_bytes: for each tensor, bytes of a row.
        limit_bytes: of all tensors together, less with a small memory budget; a single item may
            exceed it.
    """
    limit_bytes = batch_bytes(limit_bytes)
    parts = list(zip(item_offsets, row_bytes, strict=True))
    count = len(item_offsets[0]) - 1

    def end(item: int) -> int:
        # Items without bytes still have an index: many empty ones must be split too.
        return sum(int(offsets[item]) * size for offsets, size in parts) + 8 * item

    if count <= _FEW and end(count) <= end(0) + limit_bytes:
        yield 0, count
        return
    # Looked up on demand: an index may be larger than memory.
    places = range(count + 1)
    start = step = 0
    while True:
        limit = end(start) + limit_bytes
        # A batch is about as large as the previous one: the search starts there.
        high = start + max(2 * step, _FEW)
        while high < count and end(high) <= limit:
            high = start + 2 * (high - start)
        stop = bisect_right(places, limit, start, min(high, count) + 1, key=end) - 1
        stop = min(max(stop, start + 1), count)
        yield start, stop
        start, step = stop, stop - start
        if start >= count:
            return


def interleaved(parts: Iterable[Iterator[Batch]]) -> Iterator[Batch]:
    """Yield the batches of several groups of tensors, always of one with the fewest items so far.

    Writers of records hold the items of one group until they have those of the others.
    """
    waiting = [(0, number, batches) for number, batches in enumerate(parts)]
    while waiting:
        items, number, batches = heappop(waiting)
        if (batch := next(batches, None)) is not None:
            first = next(iter(batch.values()))
            items += len(first) if isinstance(first, LoDTensor) else 0
            yield batch
            del batch, first
            heappush(waiting, (items, number, batches))


def gathered(batches: Iterable[Batch], limit_bytes: int) -> Iterator[Batch]:
    """Yield small batches of different tensors as one, of at most about an eighth of the limit.

    Each batch has overhead: a thread, a frame of a stream, a write.
    """
    few_bytes = batch_bytes(limit_bytes) // 8
    held: dict[str, Item] = {}
    held_bytes = 0
    for batch in batches:
        if not held.keys().isdisjoint(batch):
            yield held
            held, held_bytes = {}, 0
        held.update(batch)
        held_bytes += bytes_of(batch)
        del batch
        if held_bytes >= few_bytes:
            yield held
            held, held_bytes = {}, 0
    if held:
        yield held


def bytes_of(batch: Batch) -> int:
    """Return the bytes of a batch in memory; at least one for each row."""
    items = map(outline, batch.values())
    return sum(
        max(item.nbytes, item.rows) + sum(level.nbytes for level in item.lod.levels)
        for item in items
    )


def only(batches: Iterable[Batch], names: Collection[str]) -> Iterator[Batch]:
    """Yield batches with only these tensors, and no batch without any of them."""
    wanted = frozenset(names)
    for batch in batches:
        if found := {name: item for name, item in batch.items() if name in wanted}:
            yield found


def regrouped(schema: Schema, batch: Batch, limit_bytes: int) -> Iterator[Batch]:
    """Yield a batch in parts of about `limit_bytes`, cut between outermost items.

    The parts are views. TensorArrays are not cut.
    """
    limit_bytes = batch_bytes(limit_bytes)
    if sum(outline(item).nbytes for item in batch.values()) <= limit_bytes:
        yield batch
        return
    for group in groups(schema):
        first = batch.get(group[0].name)
        if isinstance(first, LoDTensor) and first.lod.n_levels:
            tensors = {spec.name: tensor_of(batch[spec.name]) for spec in group}
            yield from cut_items(tensors, limit_bytes)
        elif isinstance(first, LoDTensor):
            step = max(1, limit_bytes // max(1, group[0].row_bytes))
            for start in range(0, max(1, first.rows), step):
                yield {group[0].name: first[start : start + step]}
        elif first is not None:
            yield {group[0].name: first}


def cut_items(tensors: dict[str, LoDTensor], limit_bytes: int) -> Iterator[dict[str, LoDTensor]]:
    """Yield tensors with equally many outermost items in parts, see `cuts`, as views."""
    ends = [_item_ends(tensor) for tensor in tensors.values()]
    sizes = [tensor.values[:1].nbytes for tensor in tensors.values()]
    for start, stop in cuts(ends, sizes, limit_bytes):
        yield tensors if stop - start == len(ends[0]) - 1 else part(tensors, start, stop)


def items_within_budget(
    schema: Schema, batches: Iterable[Batch], first: int = 0
) -> Iterator[Batch]:
    """Yield batches, each of which holds only items that fit into the memory budget.

    Raises:
        TooLargeError: names the item.
    """
    firsts: dict[str, int] = {}
    for batch in batches:
        tensors = {name: item for name, item in batch.items() if isinstance(item, LoDTensor)}
        if not fits(sum(tensor.nbytes for tensor in tensors.values()), ITEM_COPIES):
            for group in groups(tuple(spec for spec in schema if spec.name in tensors)):
                names = [spec.name for spec in group]
                with naming(listing(names)):
                    require_items_fit(
                        [_item_ends(tensors[name]) for name in names],
                        [spec.row_bytes for spec in group],
                        firsts.get(names[0], first),
                    )
        for name, tensor in tensors.items():
            firsts[name] = firsts.get(name, first) + len(tensor)
        yield batch
        del batch, tensors


def _item_ends(tensor: LoDTensor) -> Offsets | range:
    """Return the offsets of the outermost items, in rows."""
    return tensor.lod.absolute(0) if tensor.lod.n_levels else range(tensor.rows + 1)


def together(schema: Schema, batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield batches in which tensors that share their outermost level are always together."""
    found = groups(schema)
    group_of = {spec.name: number for number, group in enumerate(found) for spec in group}
    lacking = [len(group) for group in found]
    held: dict[str, Item] = {}
    for batch in batches:
        for name, item in batch.items():
            if name not in group_of:
                raise InvalidDataError(f"tensor {name!r} is not in the schema")
            if name in held:
                missing = next(s.name for s in found[group_of[name]] if s.name not in held)
                raise InvalidDataError(
                    f"tensors {name} and {missing} share a level and must come together"
                )
            held[name] = item
            lacking[group_of[name]] -= 1
        whole = {number for number in map(group_of.__getitem__, batch) if not lacking[number]}
        if whole:
            for number in whole:
                lacking[number] = len(found[number])
            yield {name: held.pop(name) for name in [*held] if group_of[name] in whole}
    if held:
        name = next(iter(held))
        missing = next(s.name for s in found[group_of[name]] if s.name not in held)
        raise InvalidDataError(
            f"tensor {missing} has fewer items than {name}, which shares a level"
        )


def aligned(
    schema: Schema, batches: Iterable[Batch], limit_bytes: int | None, output: Output
) -> Iterator[Mapping[str, LoDTensor]]:
    """Yield batches of equally many outermost items of all tensors, as long as there are any.

    Items wait until all tensors have theirs, with the rows of many in an anonymous file. Those
    that remain are yielded at the end.

    Args:
        schema: of the tensors; without TensorArrays.
        limit_bytes: approximate size of the rows of a batch; a single item may exceed it. None:
            batches are not divided.
        output: the target; the anonymous file is on its file system.
    """
    waiting: dict[str, deque[_Waiting]] = {spec.name: deque() for spec in schema}
    missing = set(waiting)  # tensors without waiting items
    with Spool(output) as spool:
        added_bytes = 0
        for batch in batches:
            for name, item in batch.items():
                if count := len(tensor := tensor_of(item)):
                    waiting[name].append(_Waiting(tensor, 0, count))
                    missing.discard(name)
                    added_bytes += tensor.values.nbytes
            while not missing:
                count = min(parts[0].stop - parts[0].start for parts in waiting.values())
                found = {name: _taken(parts, count) for name, parts in waiting.items()}
                missing.update(name for name, parts in waiting.items() if not parts)
                yield from _even_parts(found, count, limit_bytes)
                del found
                # Parts in the file are older than those in memory, so they are first.
                if not any(parts and parts[0].in_file for parts in waiting.values()):
                    spool.clear()
            if added_bytes > WAITING_BYTES:
                added_bytes = _spilled(waiting.values(), spool)
        for name, parts in waiting.items():
            while parts:
                yield {name: _taken(parts, parts[0].stop - parts[0].start)}


@dataclass(frozen=True)
class _Spilled:
    """A tensor whose rows are in a file."""

    rows: WholeArray
    lod: LoD
    marks: Marks
    nulls: Nulls

    def mapped(self) -> LoDTensor:
        return LoDTensor(self.rows.mapped(), self.lod, self.marks, self.nulls)


@dataclass
class _Waiting:
    """A part of a tensor whose items [start, stop) wait for those of other tensors."""

    tensor: LoDTensor | _Spilled
    start: int
    stop: int
    in_file: bool = False


def _taken(parts: deque[_Waiting], count: int) -> LoDTensor:
    """Return this many items of the first tensor that wait, and remove them."""
    first = parts[0]
    if isinstance(first.tensor, _Spilled):
        first.tensor = first.tensor.mapped()
    start, first.start = first.start, first.start + count
    if first.start == first.stop:
        parts.popleft()
    return first.tensor if count == first.stop else first.tensor[start : first.start]


def _spilled(waiting: Iterable[Iterable[_Waiting]], spool: Spool) -> int:
    """Move rows to a file if too many wait in memory; return the bytes of those that do then."""
    waiting_parts = (one for parts in waiting for one in parts if not one.in_file)
    held = [(one, one.tensor) for one in waiting_parts if isinstance(one.tensor, LoDTensor)]
    held_bytes = sum(tensor.values.nbytes for _, tensor in held)
    if held_bytes <= WAITING_BYTES // 2:
        return held_bytes
    for one, whole in held:
        tensor = whole[one.start :]
        rows = spool.store(tensor.values)
        one.tensor = _Spilled(rows, tensor.lod, tensor.marks, tensor.nulls)
        one.start, one.stop, one.in_file = 0, one.stop - one.start, True
    return 0


def _even_parts(
    batch: Mapping[str, LoDTensor], count: int, limit_bytes: int | None
) -> Iterator[Mapping[str, LoDTensor]]:
    """Yield a batch of `count` items in parts of equally many items."""
    size_bytes = sum(tensor.values.nbytes for tensor in batch.values())
    step = count if limit_bytes is None else max(1, count * limit_bytes // max(1, size_bytes))
    if step >= count:
        yield batch
        return
    for start in range(0, count, step):
        yield {name: tensor[start : start + step] for name, tensor in batch.items()}
