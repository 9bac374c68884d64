"""Records of several files described alike: which of them are null is stored for all, or for none.

A file stores which of its records are null only if it has null records and records of nulls only,
see `Field`. Joined with other files, all need the tensor that one has.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from lodcli.formats.choosing.choice import Choice
from lodcli.formats.core.batching import only, together
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.names import presence_name
from lodcli.formats.core.schema import Batch, Item, Schema, TensorSpec, find_all, tensor_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.structs.names import records_above
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Field, Marks
from lodcli.kernels.tensor.nulls import Mask, Nulls


def with_equal_records(schemas: Sequence[Schema]) -> list[Schema]:
    """Return the schemas of files in which records are described alike, in the order of the first.

    Where the files differ in how they tell null records, each gets a tensor that stores them.
    """
    # Not the schemas, most of which have their own number of rows.
    different = {tuple(spec.marks.fields for spec in schema): schema for schema in schemas}
    if len(different) == 1:
        return list(schemas)
    mixed = _mixed(map(_all_records, different.values()))
    if not mixed:
        return list(schemas)
    equal = {schema: _with_told(schema, mixed) for schema in dict.fromkeys(schemas)}
    places = {spec.name: place for place, spec in enumerate(equal[schemas[0]])}
    for schema, found in equal.items():
        if places.keys() == {spec.name for spec in found}:
            equal[schema] = tuple(sorted(found, key=lambda spec: places[spec.name]))
    return [equal[schema] for schema in schemas]


def as_described(source: Source, schema: Schema) -> Source:
    """Return a source with the tensors of a schema from `with_equal_records`."""
    return source if schema == source.schema else _Described(source, schema)


def with_optional_records(
    schema: Schema, batches: Iterable[dict[str, LoDTensor]], columns: Container[str]
) -> tuple[Schema, Iterable[dict[str, LoDTensor]]]:
    """Return schema and batches in which the records of these columns may be null.

    Args:
        batches: each of all tensors.
        columns: their names; lists of records remain as they are.
    """
    records = _all_records(schema)
    required = {
        name
        for spec in schema
        for name in records_above(spec)[:1]
        if name in columns and records[name].required and not records[name].level
    }
    if not required:
        return schema, batches
    found = _with_told(schema, required)
    known = {spec.name for spec in schema}
    made = [_told_by(spec, records) for spec in found if spec.name not in known]
    return found, (
        {**batch, **{one.spec.name: _presence(one, batch) for one in made}} for batch in batches
    )


def with_common_records(
    schemas: Sequence[Schema],
) -> tuple[list[Schema], list[list[tuple[int, Told]]]]:
    """Return the schemas of files whose fields are merged into the same records.

    A record is null only where it is null in all files with fields of it. Records that one file
    always has are required. If it is not known from the fields of other records which are null, the
    first file with fields of them gets a tensor that stores it, the only one of these records.

    Returns:
        The schemas; and for each of these tensors how the files tell which records are null, with
        their positions.
    """
    files = [_all_records(schema) for schema in schemas]
    owners = _owners(schemas, files)
    required, optional, told = set[str](), set[str](), dict[str, list[int]]()
    for name, numbers in owners.items():
        each = [files[number][name] for number in numbers]
        kinds = {(one.required, one.told is not None) for one in each}
        if kinds == {(False, False)} or (kinds == {(False, True)} and len(each) == 1):
            continue
        ways = [_way(name, files[number]) for number in numbers]
        if any(way is None and _never_null(leaves) for way, leaves in ways):
            required.add(name)
        elif kinds == {(True, False)} and owners[_names(name, each[0])[-2]] == numbers:
            continue  # null where the records that they are in are null
        elif all(way == (None, one.leaves) for way, one in zip(ways, each, strict=True)):
            optional.add(name)
        else:
            told[name] = numbers
    left_out, may_be_null = required | told.keys(), optional | told.keys()
    found = [
        tuple(
            _changed(_changed(spec, required, required=True), may_be_null, required=False)
            for spec in schema
            if not (spec.marks.tells_records and records_above(spec)[-1] in left_out)
        )
        for schema in schemas
    ]
    fields = _taken(found, told)
    for number, schema in enumerate(found):
        names = {name for name, numbers in told.items() if numbers[0] == number}
        found[number] = _with_told(schema, names, fields) if names else schema
    after = {number: _all_records(found[number]) for number, *_ in told.values()}
    shared = []
    for name, numbers in told.items():
        spec = after[numbers[0]][name].told
        assert spec is not None
        shared.append([(number, _told_by(spec, files[number])) for number in numbers])
    return found, shared


class Lists(NamedTuple):
    """Lists of records of one name.

    Attributes:
        level: the number of levels above the records.
        likes: in each file, by its position, a tensor in them.
        inside: the names of all tensors in them.
    """

    level: int
    likes: list[tuple[int, str]]
    inside: frozenset[str]


def common_lists(schemas: Sequence[Schema]) -> Iterator[Lists]:
    """Yield the lists of records with fields in several files, the outer before the inner ones."""
    files = [_all_records(schema) for schema in schemas]
    for name, numbers in _owners(schemas, files).items():
        level = files[numbers[0]][name].level
        if level and len(numbers) > 1:
            likes = [(number, files[number][name].leaves[0].name) for number in numbers]
            within = (spec for schema in schemas for spec in schema if name in records_above(spec))
            yield Lists(level, likes, frozenset(spec.name for spec in within))


def _owners(
    schemas: Sequence[Schema], files: Sequence[Mapping[str, _Records]]
) -> dict[str, list[int]]:
    """Return which files have records of a name, if their fields form one tree."""
    tensors = {
        ".".join(field.name for field in spec.marks.fields) or spec.name
        for schema in schemas
        for spec in schema
        if not spec.marks.tells_records  # these get other names
    }
    owners: dict[str, list[int]] = {}
    levels: dict[str, int] = {}
    apart: set[str] = set()
    for number, found in enumerate(files):
        for name, records in found.items():
            owners.setdefault(name, []).append(number)
            same = levels.setdefault(name, records.level) == records.level
            # Without a field, a tensor that stores null records is a column.
            if not (same and records.leaves) or name in tensors:
                apart.add(name.partition(".")[0])
    return {name: one for name, one in owners.items() if name.partition(".")[0] not in apart}


def _taken(schemas: Iterable[Schema], names: Container[str]) -> dict[str, list[str]]:
    """Return for records of these names what no further field can be called."""
    found: dict[str, list[str]] = {}
    for spec in (spec for schema in schemas for spec in schema):
        path = spec.marks.fields
        for above, field in zip(records_above(spec), path[1:], strict=True):
            if above in names:
                found.setdefault(above, []).append(field.name)
        for above in accumulate(spec.name.split("."), "{}.{}".format):
            if above in names:
                found.setdefault(above, []).append(spec.name[len(above) + 1 :])
    return found


def _mixed(files: Iterable[Mapping[str, _Records]]) -> set[str]:
    """Return the names of records of which the files tell in different ways which are null."""
    kinds: dict[str, set[tuple[bool, bool]]] = {}
    for found in files:
        for name, records in found.items():
            kinds.setdefault(name, set()).add((records.required, records.told is not None))
    return {name for name, ways in kinds.items() if len(ways) > 1}


def _never_null(leaves: Sequence[TensorSpec]) -> bool:
    """Return whether no record is null that is null only where all these tensors are."""
    return not leaves or not all(leaf.nullable for leaf in leaves)


class _Records(NamedTuple):
    """The records of one name in a file.

    Attributes:
        level: the number of levels above them.
        required: whether none is null.
        told: the tensor that marks which are null.
        leaves: all other tensors in them.
    """

    level: int
    required: bool
    told: TensorSpec | None
    leaves: tuple[TensorSpec, ...]


class _Inside(NamedTuple):
    """A tensor in records.

    Attributes:
        depth: how many fields of its path form the name of the records.
        place: its position in the schema.
    """

    depth: int
    place: int
    spec: TensorSpec

    @property
    def tells(self) -> bool:
        """Whether it stores which of the records are null."""
        return self.spec.marks.tells_records and len(self.spec.marks.fields) == self.depth + 1


def _all_records(schema: Schema) -> dict[str, _Records]:
    """Return the records of a file by their names, the outer before the inner ones."""
    return {name: _records(inside) for name, inside in _inside(schema).items()}


def _inside(schema: Schema) -> dict[str, list[_Inside]]:
    """Return the tensors in the records of each name, the outer before the inner ones."""
    found: dict[str, list[_Inside]] = {}
    for place, spec in enumerate(schema):
        for depth, name in enumerate(records_above(spec), 1):
            found.setdefault(name, []).append(_Inside(depth, place, spec))
    return found


def _records(inside: Sequence[_Inside]) -> _Records:
    depth, _, first = inside[0]
    told = [one.spec for one in inside if one.tells]
    leaves = tuple(one.spec for one in inside if not one.spec.marks.tells_records)
    path = first.marks.fields
    return _Records(path[depth].level, path[depth - 1].required, told[0] if told else None, leaves)


def _with_told(
    schema: Schema, names: Container[str], taken: Mapping[str, Sequence[str]] | None = None
) -> Schema:
    """Return a schema with tensors that store which records of some names are null.

    Args:
        names: of records; the file need not have all.
        taken: for each of them, fields of other files.
    """
    found = [_changed(spec, names, required=False) for spec in schema]
    inside = {name: specs for name, specs in _inside(tuple(found)).items() if name in names}
    after: dict[int, list[TensorSpec]] = {}
    for name in sorted(inside, key=lambda name: -name.count(".")):  # inner records first
        specs = inside[name]
        level, _, told, leaves = _records(specs)
        if told is not None or not leaves:
            continue
        leaf, depth = leaves[0], specs[0].depth
        fields = [one.spec.marks.fields[depth].name for one in specs]
        own = presence_name([*fields, *(taken or {}).get(name, ())])
        added = TensorSpec(
            f"{name}.{own}",
            np.dtype(np.bool_),
            levels=leaf.levels[:level],
            rows=leaf.levels[level].items if len(leaf.levels) > level else leaf.rows,
            marks=Marks(fields=(*leaf.marks.fields[:depth], Field(own, level, present=True))),
            nullable=leaf.nullable and level > 0,
        )
        after.setdefault(specs[-1].place, []).append(added)
    return tuple(one for place, spec in enumerate(found) for one in (spec, *after.get(place, ())))


def _changed(spec: TensorSpec, names: Container[str], *, required: bool) -> TensorSpec:
    """Return a tensor whose records of these names are required, or may be null."""
    path = spec.marks.fields
    fields = tuple(
        replace(one, required=required) if one.required != required and name in names else one
        for one, name in zip(path, records_above(spec), strict=False)  # not the last, of the tensor
    )
    if fields == path[: len(fields)]:
        return spec
    return replace(spec, marks=replace(spec.marks, fields=(*fields, *path[len(fields) :])))


class Told(NamedTuple):
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

    def read_rows(self, source: IndexedSource, start: int, stop: int) -> Mask:
        """Return which of these records of an open file are not null."""
        if self.told is not None:
            return source.read_rows(self.told, start, stop)
        masks = [source.read_mask(leaf, self.level, start, stop) for leaf in self.leaves]
        return any_valid(masks, stop - start)


class _Described(Wrapped):
    """A source with tensors that store which of its records are null."""

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


def _told_by(spec: TensorSpec, records: Mapping[str, _Records]) -> Told:
    """Return how the values of a new tensor are made from those of a file."""
    name = records_above(spec)[-1]
    told, leaves = _way(name, records)
    like = records[name].leaves[0].name
    return Told(spec, like, told, tuple(leaf.name for leaf in leaves))


def _way(name: str, records: Mapping[str, _Records]) -> tuple[str | None, tuple[TensorSpec, ...]]:
    """Return the tensor that stores which records are null, or those all of which are null there.

    There are none if no record is null.
    """
    # In a null record, records that are never null are null as well.
    for above in reversed(_names(name, records[name])):
        one = records[above]
        if one.level != records[name].level:
            break
        if one.told is not None:
            return one.told.name, ()
        if not one.required:
            return None, one.leaves
    return None, ()


def _names(name: str, records: _Records) -> list[str]:
    """Return the names of records and of those that they are in, outermost first."""
    above = records_above(records.leaves[0])
    return above[: above.index(name) + 1]


class _Waiting:
    """Tensors of single records, one for each item, that are in different batches."""

    def __init__(self, one: Told) -> None:
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


def _presence(one: Told, batch: Mapping[str, Item]) -> LoDTensor:
    """Return which records are not null."""
    like, level = tensor_of(batch[one.like]), one.level
    deeper = level < like.lod.n_levels
    count = like.lod.levels[level].size - 1 if deeper else like.rows
    if one.told is not None:
        rows: Mask = tensor_of(batch[one.told]).values
    else:
        masks = [tensor_of(batch[name]).nulls.mask(level) for name in one.leaves]
        rows = any_valid(masks, count)
    nulls = Nulls.of([*(like.nulls.mask(number) for number in range(level)), None])
    return LoDTensor(rows, like.lod.above(level) if deeper else like.lod, one.spec.marks, nulls)


def any_valid(masks: Sequence[Mask | None], count: int) -> Mask:
    """Return which items are valid in any of some tensors; all are where a mask is None."""
    known = [mask for mask in masks if mask is not None]
    some = known if masks and len(known) == len(masks) else [np.ones(count, np.bool_)]
    valid: Mask = np.logical_or.reduce(some)
    return valid
