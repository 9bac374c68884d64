"""The output of `lod slice`: an item, or ranges of items, of all tensors that share them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from lodcli.commands.choose.choosing import named, note_left_out
from lodcli.formats.core.errors import naming_file
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema, TensorSpec, find, find_all, rekeyed
from lodcli.formats.items.indexed_copy import indexed
from lodcli.formats.items.items import Items
from lodcli.formats.items.items_in_order import ItemsInOrder
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import Shared, sharing
from lodcli.formats.items.streaming import first_of
from lodcli.kernels.errors import SelectionError, counted
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, missing_item, select
from lodcli.kernels.runtime.memory_budget import at_most
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls
from lodcli.shell.opened import Opened
from lodcli.shell.output import note
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

# If a file supports slices, a range that is likely smaller is read without the whole index.
SMALL_BYTES = 16 << 20

Batches = Iterator[dict[str, LoDTensor]]


@dataclass(frozen=True)
class _Cut:
    """A resolved branch, and the tensors that it applies to.

    Attributes:
        path: indices, one per level.
        ranges: of the items below; an index among them is one item. () if the item at the end of
            the path is selected.
        lead: a tensor that has all these levels.
        first: the number of the level whose items the first index counts.
        specs: all tensors that share the items.
        strict: whether a range that exceeds the number of items is an error.
    """

    path: tuple[int, ...]
    ranges: tuple[Key, ...]
    lead: TensorSpec
    first: int
    specs: Schema
    strict: bool

    @property
    def level(self) -> int:
        """The level of the ranges; with L levels, level L is the rows."""
        return self.first + len(self.path)

    @property
    def of_rows(self) -> bool:
        """Whether the ranges are of rows."""
        return self.level == len(self.lead.levels)


def write_branch(file: Opened, keys: Sequence[Key], level: int | str, target: Target) -> None:
    """Write the items of a branch, of all tensors that share them.

    Args:
        keys: indices, then ranges of items of one level.
        level: the level whose items the first key counts.
    """
    reference, names = file.reference, [spec.name for spec in file.schema]
    only = reference.name if reference.name in names else None  # else they are those of a record
    count = next((n for n, key in enumerate(keys) if isinstance(key, slice)), len(keys))
    path = tuple(key for key in keys[:count] if isinstance(key, int))
    ranges = tuple(keys[count:])
    if file.source.partial:
        cut = _cut(file.schema, only, path, ranges, level, target.strict)
        if _is_small(cut):
            with naming_file(reference.label):
                schema, found = _sliced(file.source, cut, level)
            target.write(schema, [found])
            return
        if _write_in_order(file, cut, target):
            return
    source_read = file.source
    if level == 0 and (needed := _needed(keys)) is not None:
        source_read = first_of(file.source, names, needed)
    with indexed(source_read, names) as source:
        if file.source.partial:
            cut = _counted(cut, source)
        else:
            counted = find_all(source.schema, names)
            cut = _cut(counted, only, path, ranges, level, target.strict)
        with naming_file(reference.label):
            if not ranges:
                schema, found = _sliced(source, cut, level)
                batches = iter([found])
            else:
                resolved = _resolved(source, cut, level)
                schema, batches = (_rows if cut.of_rows else _items)(source, cut, resolved)
        target.write(schema, named(reference, batches))


def _write_in_order(file: Opened, cut: _Cut, target: Target) -> bool:
    """Write ranges of the outermost items if a file tells their count and need not be copied.

    Return whether it was done.
    """
    if cut.path or not cut.ranges:
        return False
    items = ItemsInOrder.of(file.source, Shared(cut.first, None, cut.specs, ()))
    if items is None:
        return False
    with naming_file(file.reference.label):
        ranges = _ranges_in(range(items.count), cut)
        alone = len(ranges) == 1 and ranges[0].step == 1
        if not alone:
            chosen = np.concatenate([_numbers(one) for one in ranges])
            if (chosen[1:] <= chosen[:-1]).any():
                return False
        _note_what_is_missing(cut, ranges, items.count)
    if alone:
        write_range(target, file.reference, items, *_ends(ranges[0]))
    else:
        target.write(items.counted(chosen), named(file.reference, items.picked(chosen)))
    return True


def write_range(
    target: Target, reference: Reference, items: Items | ItemsInOrder, start: int, stop: int
) -> None:
    """Write the items from `start` to `stop`."""
    shared = items.shared
    lead, ranges = max(shared.specs, key=_depth), (slice(start, stop),)
    cut = _Cut((), ranges, lead, shared.level, shared.specs, strict=False)
    if items.source.partial and _is_small(cut):
        with naming_file(reference.label):
            schema, found = _sliced(items.source, cut, shared.level)
        target.write(schema, [found])
    else:
        batches = named(reference, items.range(start, stop))
        target.write(items.counted(slice(start, stop)), batches)


def _needed(keys: Sequence[Key]) -> int | None:
    """Return how many of the first items hold those of a branch; None if only the end tells."""
    needed = 0
    for key in keys if isinstance(keys[0], slice) else keys[:1]:
        if isinstance(key, int):
            start, stop = key, key + 1
        elif key.stop is None or (key.step or 1) < 0:
            return None
        else:
            start, stop = key.start or 0, key.stop
        if min(start, stop) < 0:
            return None
        needed = max(needed, stop)
    return needed


def _cut(
    schema: Schema,
    name: str | None,
    path: tuple[int, ...],
    ranges: tuple[Key, ...],
    level: int | str,
    strict: bool,
) -> _Cut:
    """Return the cut for the parts of a branch; prints a note about tensors left out."""
    shared = sharing(schema, name, level)
    specs = rekeyed(schema)
    if name is not None:
        lead = find(specs, name)
    else:
        lead = max(shared.specs, key=_depth)
        if not (path or lead.levels):  # ranges of records: a text is in one as a whole
            lead = max(shared.specs, key=lambda spec: len(spec.levels))
    below, depth = shared.level + len(path), len(lead.levels)
    if below - (not ranges) > depth:
        raise SelectionError(
            f"the branch has {counted(len(path) + bool(ranges), 'part')}, expected at most "
            f"{depth - shared.level + 1}: {lead.name} has {counted(depth - shared.level, 'level')} "
            f"from level {shared.level} down, and the rows"
        )
    keys = [one.key for one in lead.levels[:below]]
    if name is not None:
        found: Schema = (lead,)
    elif ranges and below < depth:
        found = sharing(schema, lead.name, below).specs
    else:
        # A tensor with one row or text for each item of an index has nothing below it. Of tensors
        # that only have as many outermost items, only these items are known to belong together.
        outermost = below == 1 and not (ranges or shared.level)
        least = min(1, _depth(lead))
        found = tuple(
            spec
            for spec in shared.specs
            if (
                [one.key for one in spec.levels[:below]] == keys
                or (outermost and spec.levels and _depth(spec) >= least)
            )
            and (len(spec.levels) == depth or (below <= depth and not ranges))
        )
    chosen = {spec.name for spec in found}
    values = [
        spec.name
        for spec in shared.specs
        if spec.name not in chosen
        and (levels := [one.key for one in spec.levels[: _depth(spec)]]) == keys[: len(levels)]
        and len(levels) < below
    ]
    if values:
        verb, its = ("are", "their") if len(values) > 1 else ("is", "its")
        why = f"an index drops {its} level ({shared.level_label}); a range such as 3:4 keeps it"
        note(f"note: {listing(values)} {verb} left out: {why}")
    told = {*chosen, *values}
    others = tuple(spec.name for spec in specs if spec.name not in told)
    if others:
        note_left_out(others, lead.name, shared.level_label)
    return _Cut(path, ranges, lead, shared.level, found, strict)


def _depth(spec: TensorSpec) -> int:
    """Return the number of levels; none of a text for each item, which is one value."""
    text = spec.marks.values is not None and len(spec.levels) == 1
    return 0 if text else len(spec.levels)


def _counted(cut: _Cut, source: IndexedSource) -> _Cut:
    """Return the cut with the counts of a source that knows them all."""
    names = [cut.lead.name, *(spec.name for spec in cut.specs)]
    lead, *specs = rekeyed(find_all(source.schema, names))
    return replace(cut, lead=lead, specs=tuple(specs))


def _is_small(cut: _Cut) -> bool:
    """Return whether slices of the tensors can be read one by one, each as a whole."""
    if not cut.ranges:
        return True
    only, lead = cut.ranges[0], cut.lead
    if len(cut.ranges) > 1 or isinstance(only, int) or only.step not in (None, 1):
        return False
    if cut.first and any(len(spec.levels) <= cut.first for spec in cut.specs):
        return False  # no level of theirs counts the items, which are their rows
    asked, count = _asked(only), lead.rows if cut.of_rows else lead.levels[cut.level].items
    if asked is None or count is None:
        return False
    whole = sum((spec.rows or 0) * spec.row_bytes for spec in cut.specs)
    return whole * min(asked, count) <= at_most(SMALL_BYTES, 16) * max(count, 1)


def _sliced(source: Source, cut: _Cut, level: int | str) -> tuple[Schema, dict[str, LoDTensor]]:
    """Return the schema of the slices of all tensors, and the slices, in memory."""
    found: dict[str, LoDTensor] = {}
    lods: dict[tuple[str, ...], LoD] = {}
    schema = []
    for spec in cut.specs:
        tensor = source.slice(spec.name, (*cut.path, *cut.ranges), level if spec.levels else 0)
        below = spec.levels[len(spec.levels) - tensor.lod.n_levels :]
        lod = lods.setdefault(tuple(one.key for one in below), tensor.lod)
        found[spec.name] = LoDTensor(tensor.values, lod, tensor.marks, tensor.nulls)
        levels = tuple(
            replace(one, items=offsets.size - 1)
            for one, offsets in zip(below, lod.levels, strict=True)
        )
        shape = tensor.row_shape
        schema.append(
            replace(
                spec, levels=levels, rows=tensor.rows, row_shape=shape, marks=found[spec.name].marks
            )
        )
    count = len(found[cut.lead.name])
    _note_what_is_missing(cut, [range(count)], count)
    return tuple(schema), found


def _resolved(source: IndexedSource, cut: _Cut, level: int | str) -> list[range]:
    """Return the ranges as numbers of items of their level, or of rows."""
    lod, rows = source.lods[cut.lead.name], cut.lead.rows or 0
    start, stop = 0, lod.count(cut.first) if cut.first < lod.n_levels else rows
    for depth, item in enumerate(cut.path):
        count = stop - start
        if not -count <= item < count:
            select(lod, rows, cut.path[: depth + 1], level)  # raises the error
        number = start + (item + count if item < 0 else item)
        offsets = lod.levels[cut.first + depth]
        start, stop = int(offsets[number]), int(offsets[number + 1])
    found = _ranges_in(range(start, stop), cut)
    _note_what_is_missing(cut, found, stop - start)
    return found


def _ranges_in(here: range, cut: _Cut) -> list[range]:
    """Return the ranges as numbers of items.

    Args:
        here: the numbers of the items that they count.
    """
    found = []
    for one in cut.ranges:
        if isinstance(one, slice):
            found.append(here[one])
        elif -len(here) <= one < len(here):
            found.append(range(here[one], here[one] + 1))
        else:
            raise missing_item(cut.lead.level_names, cut.level, one, len(here))
    return found


def _items(source: IndexedSource, cut: _Cut, ranges: Sequence[range]) -> tuple[Schema, Batches]:
    """Return the batches of ranges of items, one range after another."""
    items = Items(source, Shared(cut.level, None, cut.specs, ()))

    def batches(one: range) -> Batches:
        if one.step == 1:
            return items.range(*_ends(one))
        return items.picked(_numbers(one)) if one.step > 0 else reordered(items, _numbers(one))

    if len(ranges) == 1 and ranges[0].step == 1:
        schema = items.counted(slice(*_ends(ranges[0])))
    else:
        schema = items.counted(np.concatenate([_numbers(one) for one in ranges]))
    return schema, chain.from_iterable(map(batches, ranges))


def _ends(one: range) -> tuple[int, int]:
    """Return the first and the next item after a range of step 1."""
    return one.start, max(one.start, one.stop)


def _numbers(one: range) -> Offsets:
    return np.arange(one.start, one.stop, one.step, dtype=np.int64)


def _rows(source: IndexedSource, cut: _Cut, ranges: Sequence[range]) -> tuple[Schema, Batches]:
    """Return the batches of ranges of rows, one range after another."""
    rows, specs = sum(map(len, ranges)), cut.specs
    schema = tuple(
        replace(spec, levels=(), rows=rows, marks=spec.marks.kept(0, len(spec.levels)))
        for spec in specs
    )
    row_bytes = max(1, sum(spec.row_bytes for spec in schema))

    def batches() -> Batches:
        for one in ranges:
            step = max(1, BATCH_BYTES // (row_bytes * abs(one.step)))
            for first in range(0, max(len(one), 1), step):
                part = one[first : first + step]
                low, high = min(part, default=0), max(part, default=-1) + 1
                found = {spec.name: source.read_rows(spec.name, low, high) for spec in schema}
                masks = {s.name: source.read_mask(s.name, len(s.levels), low, high) for s in specs}
                yield {
                    name: LoDTensor(
                        np.ascontiguousarray(data[:: one.step]),
                        nulls=_stepped(masks[name], one.step),
                    )
                    for name, data in found.items()
                }

    return schema, batches()


def _stepped(mask: Mask | None, step: int) -> Nulls:
    return NO_NULLS if mask is None else Nulls.of([mask[::step]])


def _asked(one: slice) -> int | None:
    """Return how many items a range asks for; None if that depends on how many there are."""
    start, stop, step = one.start or 0, one.stop, one.step or 1
    if step < 0:
        return None
    if start < 0 and stop is None:
        return len(range(start, 0, step))
    if stop is not None and (start < 0) == (stop < 0):
        return len(range(start, stop, step))
    return None


def _note_what_is_missing(cut: _Cut, found: Sequence[range], count: int) -> None:
    """Print a note for each range that exceeds the number of items; an error if `strict`.

    Args:
        found: the items of each range.
        count: of the items that the ranges count; not used for ranges that tell how many they ask.
    """
    for one, items in zip(cut.ranges, found, strict=False):
        if not isinstance(one, slice):
            continue
        asked = _asked(one)
        if asked is not None and len(items) < asked:
            what = f"the range asks for {counted(asked, 'item')}, but {_only(len(items))}"
        elif asked is None and (one.start or 0) > count - ((one.step or 1) < 0):
            what = f"the range starts at item {one.start}, but {_only(count)}"
        else:
            continue
        if cut.strict:
            raise SelectionError(f"{what}; leave out --strict to write these", level=cut.level)
        note(what)


def _only(count: int) -> str:
    return f"only {count} exist{'s' * (count == 1)}"
