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
from lodcli.formats.core.names import shown
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
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls


@dataclass(frozen=True)
class Part:
    """What one of several files holds.

    Attributes:
        whole: its tensors.
        schema: those that are chosen.
        nameless: whether it does not tell their names: it has no values.
        untyped: whether it does not tell their dtypes, for the same reason; see Source.
        named: whether its format has names of tensors.
        together: whether every batch holds all its tensors, with the same items.
        records: whether the tensors have the same items.
        even: whether they have equally many items.
        left_out: names of content that no tensor can hold, each with the error.
    """

    whole: Schema
    schema: Schema
    nameless: bool
    untyped: bool
    named: bool
    together: bool
    records: bool
    even: bool
    left_out: tuple[tuple[str, LodError], ...]

    @staticmethod
    def of(source: Source, kind: Format, chosen: Sequence[str] | None = None) -> Part:
        """Return what an open file holds; of tensors and records with chosen names, or all."""
        whole, nameless = source.schema, source.untyped and kind.empty_file
        together = has_items(source, kind)
        records = together or bool(kind.record)
        counts = {spec.items for spec in whole}
        equal = len(counts) == 1 and None not in counts and kind.max_levels != 0
        return Part(
            whole,
            whole if chosen is None or nameless else _chosen(whole, chosen),
            nameless,
            source.untyped,
            kind.many,
            together,
            records,
            bool(counts) and (records or equal),
            tuple(source.left_out.items()),
        )


def _chosen(schema: Schema, names: Sequence[str]) -> Schema:
    return tuple(
        spec for spec in schema if any(spec.name == one or within(spec, one) for one in names)
    )


@dataclass(frozen=True)
class Fitted:
    """How one of several files is read to fit the others.

    Attributes:
        schema: its tensors in the order of the others, with those that it lacks; as they are if it
            does not fit.
        part: the file.
        lacking: those that it lacks.
        nulls: how these are read, see ReadOptions.
        is_empty: whether it has no values.
    """

    schema: Schema
    part: Part
    lacking: Mapping[str, _Lacking]
    nulls: str | None = None
    is_empty: bool = False

    def applied(self, source: Source) -> Source:
        """Return the file, which was opened again, with this schema.

        Raises:
            DamagedFileError: it was changed since.
        """
        if source.schema != self.part.whole:
            raise changed_while_read()
        if source.schema == self.schema:
            return source
        if self.is_empty:
            return _Empty(source, self.schema)
        if self.lacking:
            source = WithColumns(source, _with(self.part.schema, self.lacking), self.lacking)
            if self.nulls != "keep":
                source = WithoutNulls(source, str(self.nulls), records=self.part.records)
        return Relabelled(source, {spec.name: spec for spec in self.schema})


def _with(schema: Schema, lacking: Mapping[str, _Lacking]) -> Schema:
    return (*schema, *(one.spec for one in lacking.values()))


class Fitting:
    """How several files are made to fit each other.

    Args:
        parts: what each file holds.
        nulls: how to read nulls, and with them the columns that some files lack; see ReadOptions.
            None and "error" refuse these.

    Attributes:
        first: the place of the first file with values.
        model: the tensors that all files must fit: those of the first file with values, or of all
            files if columns may be lacking.
        origins: for each of them, the place of the file that it is from.
        remedy: what an error for a file with other tensors says of nulls.
    """

    def __init__(self, parts: Sequence[Part], nulls: str | None) -> None:
        self.first = min(range(len(parts)), key=lambda n: parts[n].nameless + parts[n].untyped)
        self.model = parts[self.first].schema
        self.origins = dict.fromkeys((spec.name for spec in self.model), self.first)
        self.remedy = ""
        self._nulls: str | None = None
        if nulls is None:
            self.remedy = f"{option('nulls', 'keep')} reads tensors that some files lack as nulls"
        elif nulls != "error" and not _is_one_tensor(parts):
            self._add_others(parts)
            self.remedy = _why_not_null(parts, self.model)
            if self.remedy:
                self.model = parts[self.first].schema
            else:
                self._nulls = nulls

    def _add_others(self, parts: Sequence[Part]) -> None:
        """Add the tensors that the first file lacks to the model."""
        model = list(self.model)
        different = {id(part): (part, place) for place, part in enumerate(parts)}  # many are one
        for part, place in sorted(different.values(), key=lambda one: one[0].untyped):
            for spec in () if part.nameless else part.schema:
                # Those that tell which records are null are added by `with_equal_records`.
                if spec.name not in self.origins and not spec.marks.tells_records:
                    model.insert(_place(spec, model), spec)
                    self.origins[spec.name] = place
        self.model = tuple(model)

    def fitted(self, part: Part, model: Schema | None = None) -> Fitted:
        """Return how one of the files is read.

        Args:
            part: what it holds.
            model: the tensors that it must fit; None for those of `model`.

        Raises:
            LodError: it has a tensor of the others, but with content that no tensor can hold.
        """
        own, model = part.schema, self.model if model is None else model
        names = {*names_without_told(own)}
        differs = not part.nameless and names != {*names_without_told(model)}
        if part.untyped and (self._nulls or not differs):
            return Fitted(tuple(map(_emptied, model)), part, {}, is_empty=True)
        lacking: dict[str, _Lacking] = {}
        if differs:
            if self._nulls is None:
                return Fitted(own, part, {})
            missing = [one for one in model if not (one.name in names or one.marks.tells_records)]
            for name, error in part.left_out:
                if any(f"{spec.name}.".startswith(f"{name}.") for spec in missing):
                    raise error
            lacking = {spec.name: _lacking(spec, part) for spec in missing}
            own = _with(own, lacking)
            if self._nulls != "keep":
                own = schema_without_nulls(own, self._nulls)
        places = {spec.name: place for place, spec in enumerate(model)}
        # Those that the model lacks store null records; `with_equal_records` finds their places.
        found = tuple(sorted(own, key=lambda spec: places.get(spec.name, len(places))))
        return Fitted(own if found == own else found, part, lacking, self._nulls)


def _is_one_tensor(parts: Sequence[Part]) -> bool:
    """Return whether each file holds one tensor, some of them without a name."""
    unnamed = any(not part.named for part in parts)
    return unnamed and are_nameless(*(part.schema for part in parts))


def _why_not_null(parts: Iterable[Part], model: Schema) -> str:
    """Return why no tensor of the model can be null in a file that lacks it; "" if it can."""
    depths: dict[str, int] = {}
    for spec in model:
        if spec.array:
            return f"{shown(spec.name)} is a TensorArray, which cannot be null"
        for depth, name in enumerate(records_above(spec), 1):
            level = spec.marks.fields[depth].level
            if depths.setdefault(name, level) != level:
                return f"{shown(name)} holds records in some files, and lists of records in others"
    for spec in model:
        if spec.name in depths:
            return f"{shown(spec.name)} holds records in some files, and other values in others"
    if not all(part.even or part.untyped for part in parts):
        return "nulls need files whose tensors have equally many items"
    return ""


def _place(spec: TensorSpec, model: Sequence[TensorSpec]) -> int:
    """Return the place of a further tensor: after others in its records, or at the end."""
    for name in reversed(records_above(spec)):
        inside = [place for place, one in enumerate(model) if within(one, name)]
        if inside:
            return inside[-1] + 1
    return len(model)


def _emptied(spec: TensorSpec) -> TensorSpec:
    return replace(spec, rows=0, levels=tuple(replace(level, items=0) for level in spec.levels))


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


def _lacking(spec: TensorSpec, part: Part) -> _Lacking:
    """Return a tensor of other files as a column that a file lacks."""
    fields, above = spec.marks.fields, records_above(spec)
    like, depth, level = None, 0, 0
    for number, name in enumerate(above, 1):
        inside = [one for one in part.whole if within(one, name) and not one.marks.tells_records]
        if inside:
            like, depth = min(inside, key=lambda one: len(one.levels)), number
            level = fields[depth].level
    lead = like or min(part.whole, key=lambda one: len(one.levels))
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
