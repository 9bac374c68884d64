"""Groups items with equal keys into sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import LevelSpec, Schema, TensorSpec
from lodcli.formats.items import keys
from lodcli.formats.items.external_sort import size_bytes, sorted_by
from lodcli.formats.items.indexed_copy import copied
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import item_count, joined_items, part, taken
from lodcli.formats.structs.tree import broken_columns, flattened
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

Tensors = dict[str, LoDTensor]


def grouped_schema(schema: Schema, names: Sequence[str]) -> Schema:
    """Return the schema of what `grouped` yields: keys, and the other tensors with one more level.

    Args:
        schema: of the items.
        names: of the keys. One key names the level.
    """
    return _schema(schema, names, _level_name(schema, names))


def _schema(schema: Schema, once: Sequence[str], level: str | None) -> Schema:
    above = LevelSpec("group", level)
    by_name = {spec.name: spec for spec in schema}

    def under(spec: TensorSpec) -> TensorSpec:
        below = spec.uncounted("in {}")
        marks = spec.marks.below(1)
        return replace(below, levels=(above, *below.levels), marks=marks)

    others = [under(spec) for spec in schema if spec.name not in once]
    found = (*(by_name[name].uncounted("of {}") for name in once), *others)
    return flattened(found, broken_columns(found))


def _level_name(schema: Schema, names: Sequence[str]) -> str | None:
    """Return the name of the new level: that of the only key, unless another level has it."""
    taken_names = {name for spec in schema for name in spec.level_names}
    return names[0] if len(names) == 1 and names[0] not in taken_names else None


def grouped(
    schema: Schema, batches: Iterable[Tensors], names: Sequence[str], *, by_key: bool
) -> Iterator[Tensors]:
    """Yield items with equal keys as one item, with the key once; at least one batch.

    Items of a group stay in their order. Memory holds a few batches, and each group as a whole.

    Args:
        schema: of the batches.
        batches: of tensors that share their items; at least one.
        names: of the keys.
        by_key: whether groups are in order of their keys; else in that of their first items.
    """
    level = _level_name(schema, names)
    if by_key:
        yield from _groups(sorted_by(schema, batches, names), names, names, level)
        return
    place = "first"
    while any(spec.name == place for spec in schema):
        place += "_"
    placed = (*schema, TensorSpec(place, np.dtype(np.int64)))
    once = [*names, place]
    in_order = _groups(sorted_by(placed, _placed(batches, place), names), names, once, level)
    marks = {spec.name: spec.marks for spec in schema}
    with copied(_schema(placed, once, level), in_order) as source:
        items = Items(source, Shared(0, level, source.schema, ()))
        first = source.read_rows(place, 0, items.count)
        for batch in reordered(items, np.argsort(first)):
            yield {
                name: LoDTensor(batch[name].values, batch[name].lod, mark, batch[name].nulls)
                for name, mark in marks.items()
            }


def _placed(batches: Iterable[Tensors], name: str) -> Iterator[Tensors]:
    """Yield batches with one more tensor, the numbers of their items."""
    first = 0
    for batch in batches:
        count = item_count(batch)
        yield {**batch, name: LoDTensor(np.arange(first, first + count))}
        first += count


def _groups(
    batches: Iterable[Tensors], names: Sequence[str], once: Sequence[str], level: str | None
) -> Iterator[Tensors]:
    """Yield sorted items as groups.

    Args:
        batches: of items in order of their keys; at least one.
        names: of the keys.
        once: names of tensors of which a group keeps only the first item.
        level: the name of the new level.
    """
    held: list[Tensors] = []
    held_bytes, least_bytes = 0, batch_bytes(BATCH_BYTES)
    limit_bytes = least_bytes
    for batch in batches:
        held.append(batch)
        held_bytes += size_bytes(batch)
        if held_bytes < limit_bytes:
            continue
        whole = joined_items(held)
        starts = keys.starts(whole, names)
        last = int(starts[-1]) if starts.size else 0
        if last:
            yield _grouped(part(whole, 0, last), starts, once, level)
            whole = part(whole, last, item_count(whole))
        held, held_bytes = [whole], size_bytes(whole)
        # Doubled, so that a large group is not copied again for each of its batches.
        limit_bytes = max(least_bytes, 2 * held_bytes)
    whole = joined_items(held)
    starts = keys.starts(whole, names)
    yield _grouped(whole, np.append(starts, item_count(whole)), once, level)


def _grouped(whole: Tensors, bounds: Offsets, once: Sequence[str], level: str | None) -> Tensors:
    """Return items as groups; `bounds` are the offsets of the groups."""
    found = taken({name: whole[name] for name in once}, bounds[:-1])
    flat = LoD._trusted([bounds], [level])
    lods: dict[int, LoD] = {}
    for name, tensor in whole.items():
        if name in once:
            continue
        lod, index = tensor.lod, flat
        if lod.n_levels:
            new = LoD._trusted([bounds, *lod.levels], [level, *lod.names])
            index = lods.setdefault(id(lod), new)
        nulls = Nulls.of([None, *tensor.nulls.masks]) if tensor.nulls else tensor.nulls
        found[name] = LoDTensor(tensor.values, index, tensor.marks.below(1), nulls)
    return found
