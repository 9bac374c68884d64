"""Files of which others may have further columns, another order of columns, or no values.

A file without values, such as a log of a day without events, does not tell the dtypes, nor, in JSON
lines, the names of its tensors: it fits any other file. Columns that a file lacks are null in all
its items, if nulls were asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lodcli.formats.choosing.choice import UNKNOWN, ValueRange
from lodcli.formats.core.errors import changed_while_read
from lodcli.formats.core.format import BATCH_BYTES, Format, Source
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec, find_all
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.items.concatenated import are_nameless
from lodcli.formats.structs.names import names_without_told, records_above, within
from lodcli.formats.values.added_columns import WithColumns
from lodcli.formats.values.partitions import has_items
from lodcli.formats.values.relabelled import Relabelled
from lodcli.formats.values.without_nulls import WithoutNulls, schema_without_nulls
from lodcli.kernels.errors import LodError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls


@dataclass(frozen=True)
class Part:
    """What one of several files holds.

    Attributes:
        schema: its tensors.
        nameless: whether it does not tell their names: it has no values.
        untyped: whether it does not tell their dtypes, for the same reason; see Source.
        together: whether every batch holds all its tensors, with the same items.
        records: whether the tensors have the same items.
        even: whether they have equally many items.
        left_out: names of content that no tensor can hold, each with the error.
    """

    schema: Schema
    nameless: bool
    untyped: bool
    together: bool
    records: bool
    even: bool
    left_out: tuple[tuple[str, LodError], ...]

    @staticmethod
    def of(source: Source, kind: Format) -> Part:
        """Return what an open file holds."""
        nameless, together = source.untyped and kind.empty_file, has_items(source, kind)
        records = together or bool(kind.record)
        counts = {spec.items for spec in source.schema}
        equal = len(counts) == 1 and None not in counts and kind.max_levels != 0
        even = bool(counts) and (records or equal)
        left_out = tuple(source.left_out.items())
        return Part(source.schema, nameless, source.untyped, together, records, even, left_out)


@dataclass(frozen=True)
class Fitted:
    """How one of several files is read to fit the others.

    Attributes:
        schema: its tensors in the order of the others, with those that it lacks; unchanged if it
            does not fit.
        lacking: those that it lacks.
        nulls: how these are read, see ReadOptions.
        records: see Part.
    """

    schema: Schema
    lacking: Mapping[str, _Lacking]
    nulls: str | None
    records: bool = False

    def applied(self, source: Source) -> Source:
        """Return the file, which was opened again, with this schema.

        Raises:
            DamagedFileError: it was changed since.
        """
        if source.schema == self.schema:
            return source
        if source.untyped and all(spec.rows == 0 for spec in self.schema):
            return _Empty(source, self.schema)
        if self.lacking:
            whole = (*source.schema, *(one.spec for one in self.lacking.values()))
            source = WithColumns(source, whole, self.lacking)
            if self.nulls != "keep":
                source = WithoutNulls(source, str(self.nulls), records=self.records)
        specs = {spec.name: spec for spec in source.schema}
        same = tuple(specs.get(spec.name) for spec in self.schema) == self.schema
        if not same or len(specs) != len(self.schema):
            raise changed_while_read()
        return Relabelled(source, {spec.name: spec for spec in self.schema})


def model_of(parts: Sequence[Part], nulls: str | None) -> tuple[Schema, int]:
    """Return the tensors that all files must fit, and the place of the first file with values.

    Args:
        parts: what each file holds.
        nulls: how to read nulls, see ReadOptions. Unless they are an error, the tensors are those
            of all files; otherwise those of the first file with values.
    """
    first = min(range(len(parts)), key=lambda n: parts[n].nameless + parts[n].untyped)
    # Those that tell which records are null are added by `with_equal_records`.
    model = list(parts[first].schema)
    if _fills(nulls) and not are_nameless(*(part.schema for part in parts)):
        known = {spec.name for spec in model}
        different = {id(part): part for part in parts if not part.nameless}  # many are one object
        for part in sorted(different.values(), key=lambda part: part.untyped):
            for spec in part.schema:
                if spec.name not in known and not spec.marks.tells_records:
                    model.insert(_place(spec, model), spec)
                    known.add(spec.name)
    return tuple(model), first


def _place(spec: TensorSpec, model: Sequence[TensorSpec]) -> int:
    """Return the place of a further tensor: after others in its records, or at the end."""
    for name in reversed(records_above(spec)):
        inside = [place for place, one in enumerate(model) if within(one, name)]
        if inside:
            return inside[-1] + 1
    return len(model)


def fitted(part: Part, model: Schema, nulls: str | None) -> Fitted:
    """Return how a file is read to fit others.

    Args:
        part: what the file holds.
        model, nulls: see `model_of`.

    Raises:
        LodError: it has a tensor of the others, but with content that no tensor can hold.
    """
    own, names = part.schema, {*names_without_told(part.schema)}
    differs = not part.nameless and names != {*names_without_told(model)}
    differs = differs and not are_nameless(part.schema, model)
    if part.untyped and (_fills(nulls) or not differs):
        return Fitted(tuple(map(_emptied, model)), {}, None)
    lacking: dict[str, _Lacking] = {}
    if differs:
        missing = [one for one in model if not (one.name in names or one.marks.tells_records)]
        each = [_lacking(spec, part) for spec in missing]
        if nulls is None or not (_fills(nulls) and part.even and _is_clear(model)):
            return Fitted(own, {}, None)
        for name, error in part.left_out:
            if any(f"{spec.name}.".startswith(f"{name}.") for spec in missing):
                raise error
        lacking = {one.spec.name: one for one in each if one is not None}
        if len(lacking) < len(missing):
            return Fitted(own, {}, None)
        own = (*own, *(one.spec for one in lacking.values()))
        if nulls != "keep":
            own = schema_without_nulls(own, nulls)
    places = {spec.name: place for place, spec in enumerate(model)}
    # Those that `model` lacks store null records; `with_equal_records` finds their places.
    found = tuple(sorted(own, key=lambda spec: places.get(spec.name, len(places))))
    return Fitted(own if found == own else found, lacking, nulls, part.records)


def _fills(nulls: str | None) -> bool:
    """Return whether columns that a file lacks are null in it, and no error."""
    return nulls not in (None, "error")


def _emptied(spec: TensorSpec) -> TensorSpec:
    return replace(spec, rows=0, levels=tuple(replace(level, items=0) for level in spec.levels))


def _is_clear(schema: Schema) -> bool:
    """Return whether no tensor has the name of records, and records have one depth."""
    depths: dict[str, int] = {}
    for spec in schema:
        for depth, name in enumerate(records_above(spec), 1):
            level = spec.marks.fields[depth].level
            if depths.setdefault(name, level) != level:
                return False
    return depths.keys().isdisjoint(spec.name for spec in schema)


@dataclass(frozen=True)
class _Lacking:
    """A column that a file lacks: null in all its items, or in all its records; see Added.

    Attributes:
        spec: the column.
        like: a field of the records in which it is null; of items, any tensor, or None for any.
        level: how many levels it shares with that field.
    """

    spec: TensorSpec
    like: str | None
    level: int

    @property
    def range(self) -> ValueRange:
        alone = self.level == 0 and len(self.spec.levels) == self.spec.marks.is_text
        return ValueRange(nulls=True, values=False) if alone else UNKNOWN

    @property
    def item_bytes(self) -> int:
        return self.spec.row_bytes + 8 * len(self.spec.levels) + 1

    def column(self, like: LoDTensor) -> LoDTensor:
        spec, level = self.spec, self.level
        inner = like.lod.n_levels > level
        count = like.lod.count(level) if inner else like.rows
        offsets, masks = [*like.lod.levels[:level]], [like.nulls.mask(n) for n in range(level)]
        rows = count
        for _ in spec.levels[level:]:
            offsets.append(np.zeros(rows + 1, np.int64))
            rows = 0
        masks += [np.zeros(count, np.bool_), *[None] * (len(spec.levels) - level)]
        values = np.zeros((rows, *spec.row_shape), spec.dtype)
        lod = LoD(offsets, spec.level_names)
        return LoDTensor(values, lod, spec.marks, Nulls.of(masks))


def _lacking(spec: TensorSpec, part: Part) -> _Lacking | None:
    """Return a tensor of other files as a column that a file lacks; None for a TensorArray."""
    if spec.array:
        return None
    fields, above = spec.marks.fields, records_above(spec)
    like, depth, level = None, 0, 0
    for number, name in enumerate(above, 1):
        inside = [one for one in part.schema if within(one, name) and not one.marks.tells_records]
        if inside:
            like, depth = min(inside, key=lambda one: len(one.levels)), number
            level = fields[depth].level
    lead = like or min(part.schema, key=lambda one: len(one.levels))
    deeper = len(lead.levels) > level
    items = lead.levels[level].items if deeper else lead.rows
    levels = list(lead.levels[:level])
    inner = ".".join(above[:depth])
    for number, other in enumerate(spec.levels[level:]):
        # Without values in any, all that are null in the same items or records are alike.
        levels.append(LevelSpec(f"lacking {number} {inner}", other.name, items))
        items = 0
    # Records that are null where the column is, and not only those in a list that is null.
    optional = depth < len(above) and fields[depth + 1].level == level
    if optional:
        fields = (*fields[:depth], replace(fields[depth], required=False), *fields[depth + 1 :])
    marks = replace(spec.marks, fields=fields)
    found = replace(spec, levels=tuple(levels), rows=items, marks=marks, nullable=True)
    return _Lacking(found, None if like is None and part.together else lead.name, level)


class _Empty(Wrapped):
    """A file without values, with the tensors of another one.

    Args:
        inner: the open file.
        schema: its tensors.
    """

    def __init__(self, inner: Source, schema: Schema) -> None:
        super().__init__(inner)
        self.schema = schema

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        for batch in self._inner.batches(limit_bytes):
            if any(len(item) for item in batch.values()):
                raise changed_while_read()
        yield {spec.name: spec.empty() for spec in find_all(self.schema, names)}
