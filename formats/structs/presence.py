"""Records of several files described alike: which of them are null is stored for all, or for none.

A file stores which of its records are null only if it has null records and records of nulls only,
see `Field`. Joined with other files, all need the tensor that one has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import NamedTuple

import numpy as np

from lodcli.formats.choosing.choice import Choice
from lodcli.formats.core.batching import only, together
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.names import presence_name
from lodcli.formats.core.schema import Batch, Item, Schema, TensorSpec, find_all, tensor_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.structs.names import records_above, within
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Field, Marks
from lodcli.kernels.tensor.nulls import Mask, Nulls


def with_equal_records(schemas: Sequence[Schema]) -> list[Schema]:
    """Return the schemas of files with the same tensors in which records are described alike.

    Where the files differ in how they tell null records, each gets a tensor that stores them.
    """
    # Not by the schemas, most of which have their own number of rows.
    if len({tuple(spec.marks.fields for spec in schema) for schema in schemas}) == 1:
        return list(schemas)
    different = list(dict.fromkeys(schemas))
    kinds: dict[str, set[tuple[bool, bool]]] = {}
    for schema in different:
        for name, records in _all_records(schema).items():
            kinds.setdefault(name, set()).add((records.required, records.told is not None))
    mixed = [name for name, found in kinds.items() if len(found) > 1]
    mixed.sort(key=lambda name: -name.count("."))  # inner records first
    equal = {schema: reduce(_stored, mixed, schema) for schema in different}
    return [equal[schema] for schema in schemas]


def as_described(source: Source, schema: Schema) -> Source:
    """Return a source with the tensors of a schema from `with_equal_records`."""
    return source if schema == source.schema else _Described(source, schema)


def with_optional_records(
    schema: Schema, batches: Iterable[dict[str, LoDTensor]]
) -> tuple[Schema, Iterable[dict[str, LoDTensor]]]:
    """Return schema and batches in which all records may be null that are not in lists.

    Args:
        schema: of the batches.
        batches: each of all tensors.
    """
    columns = dict.fromkeys(spec.marks.fields[0].name for spec in schema if spec.marks.fields)
    records = _all_records(schema)
    required = [name for name in columns if records[name].required and not records[name].level]
    if not required:
        return schema, batches
    found = reduce(_stored, required, schema)
    known = {spec.name for spec in schema}
    made = [_told_by(spec, records) for spec in found if spec.name not in known]
    return found, (
        {**batch, **{one.spec.name: _presence(one, batch) for one in made}} for batch in batches
    )


class _Records(NamedTuple):
    """The records of one name in a file.

    Attributes:
        level: the number of levels above them.
        required: whether none is null.
        told: the tensor that stores which are null.
        leaves: all other tensors in them.
    """

    level: int
    required: bool
    told: TensorSpec | None
    leaves: tuple[TensorSpec, ...]


def _all_records(schema: Schema) -> dict[str, _Records]:
    """Return the records of a file by their names, the outer before the inner ones."""
    names = dict.fromkeys(name for spec in schema for name in records_above(spec))
    return {name: _records(schema, name) for name in names}


def _records(schema: Schema, name: str) -> _Records:
    inside = [(within(spec, name), spec) for spec in schema if within(spec, name)]
    depth, first = inside[0]
    told = [spec for depth, spec in inside if _tells(spec, depth)]
    leaves = tuple(spec for _, spec in inside if not spec.marks.tells_records)
    path = first.marks.fields
    return _Records(path[depth].level, path[depth - 1].required, told[0] if told else None, leaves)


def _tells(spec: TensorSpec, depth: int) -> bool:
    """Return whether a tensor stores which records are null, `depth` fields above it."""
    return spec.marks.tells_records and len(spec.marks.fields) == depth + 1


def _stored(schema: Schema, name: str) -> Schema:
    """Return a schema with a tensor that stores which records of a name are null."""
    if not any(within(spec, name) for spec in schema):
        return schema
    found = [_optional(spec, name) for spec in schema]
    level, _, told, leaves = _records(tuple(found), name)
    if told is not None or not leaves:
        return tuple(found)
    leaf = leaves[0]
    depth = within(leaf, name)
    fields = dict.fromkeys(spec.marks.fields[depth].name for spec in found if within(spec, name))
    own = presence_name(fields)
    added = TensorSpec(
        f"{name}.{own}",
        np.dtype(np.bool_),
        levels=leaf.levels[:level],
        rows=leaf.levels[level].items if len(leaf.levels) > level else leaf.rows,
        marks=Marks(fields=(*leaf.marks.fields[:depth], Field(own, level, present=True))),
        nullable=leaf.nullable and level > 0,
    )
    last = max(place for place, spec in enumerate(found) if within(spec, name))
    return (*found[: last + 1], added, *found[last + 1 :])


def _optional(spec: TensorSpec, name: str) -> TensorSpec:
    """Return a tensor in records of this name, which may be null."""
    depth, path = within(spec, name), spec.marks.fields
    if not depth or not path[depth - 1].required:
        return spec
    above = replace(path[depth - 1], required=False)
    fields = (*path[: depth - 1], above, *path[depth:])
    return replace(spec, marks=replace(spec.marks, fields=fields))


class _Told(NamedTuple):
    """How to compute which records are null.

    Attributes:
        spec: the tensor that stores it.
        like: a tensor in these records, with their levels.
        told: a tensor of the file with the same values.
        leaves: tensors all of which are null where a record is; () if none is.
    """

    spec: TensorSpec
    like: str
    told: str | None
    leaves: tuple[str, ...]

    @property
    def used(self) -> list[str]:
        return [self.like, *self.leaves, *([] if self.told is None else [self.told])]

    @property
    def level(self) -> int:
        return len(self.spec.levels)


class _Described(Wrapped):
    """A source with tensors that store which of its records are null.

    Args:
        inner: the open file.
        schema: of it with these tensors, from `with_equal_records`.
    """

    def __init__(self, inner: Source, schema: Schema) -> None:
        super().__init__(inner)
        self.schema = schema
        known = {spec.name for spec in inner.schema}
        records = _all_records(inner.schema)
        self._made = {
            spec.name: _told_by(spec, records) for spec in schema if spec.name not in known
        }

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        made = [self._made[name] for name in wanted if name in self._made]
        needed = self._needed(wanted)
        batches: Iterable[Batch] = self._inner.batches_of(needed, limit_bytes)
        if not self.records:
            batches = together(find_all(self._inner.schema, needed), only(batches, needed))
        apart = [_Waiting(one) for one in made if not (self.records or one.level)]
        direct = [one for one in made if self.records or one.level]
        for batch in batches:
            told = {one.spec.name: _presence(one, batch) for one in direct if one.like in batch}
            yield {**batch, **told}
            for held in apart:
                yield from held.with_batch(batch)
        yield from (held.rest() for held in apart if not held.yielded)

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Batch]]:
        wanted = list(names)
        if not self._made.keys().isdisjoint(choice.deciding):
            yield from super().chosen_batches(wanted, choice, limit_bytes)
            return
        made = [self._made[name] for name in wanted if name in self._made]
        needed = self._needed(wanted)
        for first, batch in self._inner.chosen_batches(needed, choice, limit_bytes):
            told = {one.spec.name: _presence(one, batch) for one in made}
            yield first, {**batch, **told}

    def _needed(self, names: Sequence[str]) -> list[str]:
        """Return the tensors of the file from which those of these names are made."""
        each = (self._made[name].used if name in self._made else [name] for name in names)
        return list(dict.fromkeys(name for used in each for name in used))


def _told_by(spec: TensorSpec, records: Mapping[str, _Records]) -> _Told:
    """Return how the values of a new tensor are made from those of a file."""
    above = records_above(spec)
    like = records[above[-1]].leaves[0].name
    # In a null record, records that are never null are null as well.
    for name in reversed(above):
        one = records[name]
        if one.level != len(spec.levels):
            break
        if one.told is not None:
            return _Told(spec, like, one.told.name, ())
        if not one.required:
            return _Told(spec, like, None, tuple(leaf.name for leaf in one.leaves))
    return _Told(spec, like, None, ())


class _Waiting:
    """Tensors of single records, one for each item, that are in different batches."""

    def __init__(self, one: _Told) -> None:
        self._one = one
        self._parts: dict[str, LoDTensor | None] = dict.fromkeys(one.used)
        self.yielded = False

    def with_batch(self, batch: Batch) -> Iterator[Batch]:
        """Add a batch, and yield which records of known fields are null."""
        for name in self._parts.keys() & batch.keys():
            new, held = tensor_of(batch[name]), self._parts[name]
            self._parts[name] = new if held is None else LoDTensor.concatenate([held, new])
        count = min(0 if held is None else len(held) for held in self._parts.values())
        if count:
            found = {name: held[:count] for name, held in self._parts.items() if held is not None}
            for name, held in self._parts.items():
                self._parts[name] = None if held is None else held[count:]
            self.yielded = True
            yield {self._one.spec.name: _presence(self._one, found)}

    def rest(self) -> Batch:
        """Return a batch without items."""
        return {self._one.spec.name: self._one.spec.empty()}


def _presence(one: _Told, batch: Mapping[str, Item]) -> LoDTensor:
    """Return which records are not null."""
    like, level = tensor_of(batch[one.like]), one.level
    deeper = level < like.lod.n_levels
    count = like.lod.levels[level].size - 1 if deeper else like.rows
    if one.told is not None:
        rows: Mask = tensor_of(batch[one.told]).values
    else:
        masks = [tensor_of(batch[name]).nulls.mask(level) for name in one.leaves]
        known = [mask for mask in masks if mask is not None]
        some = known if masks and len(known) == len(masks) else [np.ones(count, np.bool_)]
        rows = np.logical_or.reduce(some)
    nulls = Nulls.of([*(like.nulls.mask(number) for number in range(level)), None])
    return LoDTensor(rows, like.lod.above(level) if deeper else like.lod, one.spec.marks, nulls)
