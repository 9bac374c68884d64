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
from lodcli.kernels.errors import InvalidDataError, LodError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.options import option
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, Nulls


@dataclass(frozen=True)
class Part:
    """What one of several files holds.

    Attributes:
        whole: its tensors.
        schema: those that are chosen.
        nameless: whether it does not tell their names: it has no values.
        untyped: whether it does not tell their dtypes, for the same reason; see Source.
        named: whether it is a table, whose only column may well be called data.
        together: whether every batch holds all its tensors, with the same items.
        records: whether the tensors have the same items.
        even: whether they have equally many items.
        valueless: names of tensors without values; see Source.
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
    valueless: frozenset[str]
    left_out: tuple[tuple[str, LodError], ...]

    @staticmethod
    def of(source: Source, kind: Format, chosen: Sequence[str] | None = None) -> Part:
        """Return what an open file holds; of tensors and records with chosen names, or all."""
        whole, nameless = source.schema, source.untyped and kind.empty_file
        together = has_items(source, kind)
        records = together or bool(kind.record) or source.equal_items
        counts = {spec.items for spec in whole}
        equal = len(counts) == 1 and None not in counts and kind.max_levels != 0
        return Part(
            whole,
            whole if chosen is None or nameless else _chosen(whole, chosen),
            nameless,
            source.untyped,
            kind.table,
            together,
            records,
            bool(counts) and (records or equal),
            frozenset(
                one.name for one in whole if one.name in source.valueless and not one.row_shape
            ),
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
        made: those that it lacks, or has without values.
        nulls: how these are read, see ReadOptions.
        is_empty: whether it has no values.
    """

    schema: Schema
    part: Part
    made: Mapping[str, _Made]
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
        if self.made:
            source = WithColumns(source, _with(self.part.schema, self.made), self.made)
            if self.nulls != "keep":
                source = WithoutNulls(source, str(self.nulls), records=self.part.records)
        return Relabelled(source, {spec.name: spec for spec in self.schema})


def _with(schema: Schema, made: Mapping[str, _Made]) -> Schema:
    """Return the tensors of a file that need not be made, and those that are."""
    replaced = {one.like for one in made.values() if isinstance(one, _Typed)}
    return (*(one for one in schema if one.name not in replaced), *(x.spec for x in made.values()))


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
        self.remedy, self._types = "", False
        self._nulls: str | None = None
        if nulls is None:
            names = self.origins.keys()
            others = (part.schema for part in parts if part.whole != self.model)
            if any(spec.name in names for schema in others for spec in schema):
                keep = option("nulls", "keep")
                self.remedy = f"{keep} reads tensors that some files lack as nulls"
        elif nulls != "error" and not _is_one_tensor(parts):
            # Other values of `nulls` have filled the nulls of a tensor without values.
            self._types = nulls == "keep"
            self._add_others(parts)
            self.remedy = self._why_not_null(parts)
            if self.remedy:
                self.model = parts[self.first].schema
            else:
                self._nulls = nulls

    def _valueless(self, part: Part) -> frozenset[str]:
        return part.valueless if self._types else frozenset()

    def _add_others(self, parts: Sequence[Part]) -> None:
        """Add the tensors that the first file lacks, or has without values, to the model."""
        model, known = list[TensorSpec](), set[str]()
        waiting = set[str]()  # without values so far
        different: dict[int, tuple[Part, int]] = {}  # many files may share one object
        for place, part in enumerate(parts):
            different.setdefault(id(part), (part, place))
        order = sorted(different.values(), key=lambda one: (one[1] != self.first, one[0].untyped))
        for part, place in order:
            for spec in () if part.nameless else part.schema:
                name, is_valueless = spec.name, spec.name in self._valueless(part)
                # Those that tell which records are null are added by `with_equal_records`.
                if spec.marks.tells_records and place != self.first:
                    continue
                if name in waiting:
                    index = [one.name for one in model].index(name)
                    if not is_valueless or len(spec.levels) > len(model[index].levels):
                        model[index], self.origins[name] = spec, place
                    if not is_valueless:
                        waiting.remove(name)
                if name in known:
                    continue
                if is_valueless and any(within(one, name) for one in model):
                    continue
                above = [one for one in records_above(spec) if one in waiting]
                index = _place(spec, model)
                if above:
                    index = [one.name for one in model].index(above[0])
                model[index : index + len(above)] = [spec]
                waiting.difference_update(above)
                known.add(name)
                self.origins[name] = place
                if is_valueless:
                    waiting.add(name)
        self.model = tuple(model)

    def _why_not_null(self, parts: Sequence[Part]) -> str:
        """Return why no tensor of the model can be null in a file that lacks it; "" if it can."""
        above, tensors = set[str](), {spec.name for spec in self.model}
        for spec in self.model:
            if spec.array:
                return f"{shown(spec.name)} is a TensorArray, which cannot be null"
            above.update(records_above(spec))
        others = [
            spec
            for part in {id(one): one for one in parts}.values()
            for spec in (part.whole if part.whole is not part.schema else ())
            if spec.name not in self._valueless(part)
        ]
        depths: dict[str, int] = {}
        for spec in (*self.model, *others):
            if spec.name in above:
                return f"{shown(spec.name)} holds records in some files, and other values in others"
            for depth, name in enumerate(records_above(spec), 1):
                if name in tensors:
                    return f"{shown(name)} holds records in some files, and other values in others"
                level = spec.marks.fields[depth].level
                if name in above and depths.setdefault(name, level) != level:
                    what = "holds records in some files, and lists of records in others"
                    return f"{shown(name)} {what}"
        if not all(part.even or part.untyped for part in parts):
            return "nulls need files whose tensors have equally many items"
        return ""

    def fitted(self, part: Part, model: Schema | None = None) -> Fitted:
        """Return how one of the files is read.

        Args:
            part: what it holds.
            model: the tensors that it must fit; None for those of `model`.

        Raises:
            LodError: it has a tensor of the others, but with content that no tensor can hold.
        """
        own, model = part.schema, self.model if model is None else model
        names, wanted = {*names_without_told(own)}, {*names_without_told(model)}
        differs = not (part.nameless or names == wanted or are_nameless(own, model))
        if part.untyped and (self._nulls or not differs):
            return Fitted(tuple(map(_emptied, model)), part, {}, is_empty=True)
        made: dict[str, _Made] = {}
        if self._nulls is None:
            if differs:
                return Fitted(own, part, {})
        elif differs or not names.isdisjoint(self._valueless(part)):
            made = self._made(part, model)
            own = _with(own, made)
            if self._nulls != "keep":
                own = schema_without_nulls(own, self._nulls)
        places = {spec.name: place for place, spec in enumerate(model)}
        # Those that the model lacks store null records; `with_equal_records` finds their places.
        found = tuple(sorted(own, key=lambda spec: places.get(spec.name, len(places))))
        return Fitted(own if found == own else found, part, made, self._nulls)

    def _made(self, part: Part, model: Schema) -> dict[str, _Made]:
        """Return the tensors of the model that a file lacks, or has without values."""
        known = {spec.name: spec for spec in part.schema}
        valueless = {name: known[name] for name in self._valueless(part) if name in known}
        found: dict[str, _Made] = {}
        missing = list[TensorSpec]()
        for spec in model:
            if spec.marks.tells_records:
                continue
            names = [one for one in (*records_above(spec), spec.name) if one in valueless]
            like = valueless[names[0]] if names else None
            if like is not None and len(like.levels) <= len(spec.levels):
                if like.name != spec.name or not _is_alike(like, spec):
                    found[spec.name] = _typed(spec, like)
            elif spec.name not in known:
                missing.append(spec)
        for name, error in part.left_out:
            if any(f"{spec.name}.".startswith(f"{name}.") for spec in missing):
                raise error
        return found | {spec.name: _lacking(spec, part) for spec in missing}


def _is_alike(one: TensorSpec, other: TensorSpec) -> bool:
    """Return whether two tensors differ in their numbers of items only."""
    same = replace(one, levels=other.levels, rows=other.rows) == other
    return same and len(one.levels) == len(other.levels)


def _is_one_tensor(parts: Sequence[Part]) -> bool:
    """Return whether each file holds one tensor, some of them without a name."""
    unnamed = any(not part.named for part in parts)
    return unnamed and are_nameless(*(part.schema for part in parts))


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
class _Made:
    """A column that is made for a file; see Added.

    Attributes:
        spec: the column.
        like: the tensor of the file that it is made from; None for any.
    """

    spec: TensorSpec
    like: str | None

    range = UNKNOWN

    @property
    def item_bytes(self) -> int:
        return self.spec.row_bytes + 8 * len(self.spec.levels) + 1

    def column(self, like: LoDTensor) -> LoDTensor:
        raise NotImplementedError

    def _below(
        self, offsets: Sequence[Offsets], count: int, masks: Sequence[Mask | None]
    ) -> LoDTensor:
        """Return the column with `count` items below some levels, which have no values.

        Args:
            offsets: of the levels.
            count: how many items.
            masks: of the levels, and of the items.
        """
        offsets, rows = list(offsets), count
        for _ in self.spec.levels[len(offsets) :]:
            offsets.append(np.zeros(rows + 1, np.int64))
            rows = 0
        values = np.zeros((rows, *self.spec.row_shape), self.spec.dtype)
        more = [None] * (len(offsets) + 1 - len(masks))
        lod = LoD(offsets, self.spec.level_names)
        return LoDTensor(values, lod, self.spec.marks, Nulls.of([*masks, *more]))


@dataclass(frozen=True)
class _Lacking(_Made):
    """A column that a file lacks: null in all its items, or in all its records.

    Attributes:
        like: a field of the records in which it is null; of items, any tensor, or None for any.
        level: how many levels it shares with that field.
    """

    level: int

    @property
    def range(self) -> ValueRange:  # type: ignore[override]
        alone = self.level == 0 and len(self.spec.levels) == self.spec.marks.is_text
        return ValueRange(nulls=True, values=False) if alone else UNKNOWN

    def column(self, like: LoDTensor) -> LoDTensor:
        level = self.level
        count = like.lod.count(level) if like.lod.n_levels > level else like.rows
        masks = [*map(like.nulls.mask, range(level)), np.zeros(count, np.bool_)]
        return self._below(like.lod.levels[:level], count, masks)


@dataclass(frozen=True)
class _Typed(_Made):
    """A column that a file has without values, with the type, and the levels below, of others."""

    def column(self, like: LoDTensor) -> LoDTensor:
        levels = like.lod.levels
        masks = [like.nulls.mask(level) for level in range(len(levels) + 1)]
        if like.rows and (masks[-1] is None or masks[-1].any()):
            raise InvalidDataError(
                f"{self.like}: the beginning of the file has only nulls or empty lists of it, and "
                "the rest has values; lod cast gives it the type of the other files"
            )
        return self._below(levels, like.rows, masks)


def _typed(spec: TensorSpec, like: TensorSpec) -> _Typed:
    """Return a tensor that a file has without values, as in other files; see _Typed.

    Args:
        spec: the tensor of another file.
        like: that of the file, of the same name, or of that of records that `spec` is in.
    """
    levels, items = list(like.levels), like.rows
    for number, other in enumerate(spec.levels[len(levels) :]):
        levels.append(LevelSpec(f"below {number} {like.name}", other.name, items))
        items = 0
    fields, above = spec.marks.fields, records_above(spec)
    if like.name in above:
        depth = above.index(like.name)
        if fields[depth + 1].level == len(like.levels):  # its records may be null
            fields = (*fields[:depth], replace(fields[depth], required=False), *fields[depth + 1 :])
    marks = replace(spec.marks, fields=fields)
    found = replace(spec, levels=tuple(levels), rows=items, marks=marks, nullable=True)
    return _Typed(found, like.name)


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
