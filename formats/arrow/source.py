"""An open file of Arrow records as tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np

from lodcli.formats.arrow.columns import ColumnReader
from lodcli.formats.arrow.dictionaries import in_range, words_of
from lodcli.formats.arrow.files import Records, Wanted, damage, joined
from lodcli.formats.arrow.huggingface import attributes_of, features_of, file_attributes_of
from lodcli.formats.arrow.labels import class_names
from lodcli.formats.arrow.layout import (
    Node,
    Place,
    check_chosen,
    doubled,
    has_dictionary,
    is_within,
    level_names,
    names_in_structs,
    node_of,
    places,
)
from lodcli.formats.arrow.sharing import Tensors, same_levels, shared
from lodcli.formats.choosing.choice import Choice
from lodcli.formats.choosing.part_runs import pays_to_look, runs
from lodcli.formats.core.batching import cut_items
from lodcli.formats.core.errors import DamagedFileError, TooLargeError, changed_while_read
from lodcli.formats.core.format import BATCH_BYTES, LeftOut, SelectiveSource
from lodcli.formats.core.losses import MOST_SHOWN
from lodcli.formats.core.names import listing, name_of, shown, undotted
from lodcli.formats.core.options import ReadOptions, choose_others
from lodcli.formats.core.schema import Batch, LevelSpec, TensorSpec, find
from lodcli.formats.items.taking import item_count, part
from lodcli.formats.values.file_attributes import fitting
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, attributes_text
from lodcli.kernels.tensor.nulls import item_ranges

# From this many records on, equal lists of various lengths are not considered a coincidence.
TELLING_RECORDS = 1024

Pieces = Iterator[tuple[int, Tensors]]
_Same = set[tuple[str, str]]


class RecordSource(SelectiveSource):
    """The columns of a file; an outermost item is a record.

    Columns with equal lists share their levels. If a file is stored uncompressed, all records are
    compared and counted before the first row is read; otherwise only the first records: lists of
    various lengths that are equal there share their levels, and a later record that differs is an
    error.
    """

    records = True
    # Whether the file can be read twice, so that dictionaries are known before the first row.
    rereadable = False

    def __init__(self, records: Records, options: ReadOptions) -> None:
        self._records = records
        self.attributes, notes = fitting(file_attributes_of(records.schema))
        self.notes = [*records.notes, *notes] if notes else records.notes
        self._columns: dict[str, ColumnReader] = {}
        self._owners: dict[str, str] = {}
        self._places: dict[str, Place] = {}
        self._names: dict[str, tuple[str | None, ...]] = {}
        self._same: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        # What `_look_ahead` began to read, how many records, and the bytes of each column in them.
        self._begun: Pieces | None = None
        self._begun_records = 0
        self._begun_bytes: dict[str, int] = {}
        # Tensors with marks that the column readers do not set; `_pieces` adds them.
        self._settled: set[str] = set()
        # Tensors with nulls, if all records were read; else None.
        self._with_nulls: set[str] | None = None
        with damage():
            self._describe(options)
        self._add_notes()
        self._skips = bool(options.skip_unsupported)
        self._tells_records = options.nulls == "keep"
        if records.plain:
            self._survey()
        else:
            self._look_ahead()
        self._skips = False
        self._settle_records()
        self.schema = tuple(self._spec(name) for name in self._places)
        self.valueless = frozenset(
            name for name, place in self._places.items() if place.leaf.valueless
        )
        self._ranks = {spec.name: rank for rank, spec in enumerate(self.schema)}

    def _describe(self, options: ReadOptions) -> None:
        schema = self._records.schema
        chosen = None if options.field is None else tuple(map(name_of, options.field))
        check_chosen(schema, chosen)
        features = features_of(schema)
        left_out = doubled(schema)
        left_out |= {name_of(column): error for column, error in self._records.refused.items()}
        nodes = self._nodes(chosen, left_out, float_decimals=bool(options.float_decimals))
        for field in schema:
            if field.name not in nodes:
                continue
            node = nodes[field.name]
            for name in self._add_places(field, node, features.get(field.name)):
                left_out[name] = InvalidDataError(f"two columns are named {shown(name)}")
            self._columns[field.name] = ColumnReader(
                name_of(field.name),
                node,
                self._names,
                bounds=self._records.bounds,
                null_records=options.nulls in (None, "keep"),
            )
        self.left_out = {
            name: error
            for name, error in left_out.items()
            if chosen is None or any(is_within(name, one) or is_within(one, name) for one in chosen)
        }
        self._places = {one: self._places[one] for one in self._places if one not in left_out}
        if not self._places:
            raise next(iter(self.left_out.values()))
        self._offer_others()
        if features and self.rereadable:
            self._name_classes(nodes, features)

    def _add_notes(self) -> None:
        """Add the notes on tensors, each with the names of those that it is on."""
        named: dict[str, list[str]] = {}
        for name in self._places:
            named.setdefault(self._records.note(self._path(name)), []).append(shown(name))
        named.pop("", None)
        if named:
            found = [f"{listing(names, MOST_SHOWN)}: {note}" for note, names in named.items()]
            self.notes = [*self.notes, *found]

    def _path(self, name: str) -> tuple[str, ...]:
        """Return the column of a tensor, and the fields of structs that it is in."""
        fields = self._places[name].leaf.marks.fields
        return tuple(field.name for field in fields) or (name_of(self._owners[name]),)

    def _offer_others(self) -> None:
        """Add to the error of each part that is left out how to read the others."""
        said = self._records.refused.values() if self._records.advises else ()
        others = choose_others("other columns")
        for name, error in self.left_out.items():
            if error not in said:
                self.left_out[name] = type(error)(f"{error}; {others}")

    def _nodes(
        self, chosen: tuple[str, ...] | None, left_out: LeftOut, *, float_decimals: bool
    ) -> dict[str, Node]:
        """Return the layouts of the columns; see `node_of`."""
        nodes: dict[str, Node] = {}
        worded: dict[str, Callable[..., Node | None]] = {}
        inside = names_in_structs(self._records.schema)
        for field in self._records.schema:
            name = name_of(field.name)
            called = undotted(name) if name in inside else name
            made = partial(node_of, field, chosen, name=called, float_decimals=float_decimals)
            node = None if name in left_out else made(left_out)
            if node is not None:
                nodes[field.name] = node
                if self.rereadable and has_dictionary(field.type):
                    worded[field.name] = partial(made, {})
        return nodes | self._with_words(worded)

    def _add_places(self, field: Any, node: Node, feature: Any) -> list[str]:
        """Add the tensors of a column, and return the names that others have already."""
        twice = []
        # The names of levels by their keys, which are of one column.
        called_levels: dict[tuple[str, ...], tuple[str | None, ...]] = {}
        for place in places(node):
            name, depth = place.leaf.name, len(place.keys)
            if name in self._places:
                twice.append(name)
            self._owners[name] = field.name
            if place.leaf.marks.tells_records:
                self._names[name] = called_levels.get(place.keys, (None,) * depth)
                self._places[name] = place
                continue
            self._places[name] = self._attributed(place, field, feature)
            self._names[name] = names = level_names(field, place.leaf.marks.fields, depth)
            for level in range(1, depth + 1):
                called_levels.setdefault(place.keys[:level], names[:level])
        return twice

    def _with_words(self, columns: Mapping[str, Callable[..., Node | None]]) -> dict[str, Node]:
        """Return the layouts of columns whose dictionaries of text are categories."""
        coded = {name: made(words=lambda tensor: Categories(())) for name, made in columns.items()}
        words = words_of(self._records, _there(coded))

        def told(tensor: str) -> Categories | None:
            # A column without rows has no dictionary: its categories have no words.
            return words.get(tensor, Categories(()))

        return _there({name: made(words=told) for name, made in columns.items()})

    def _name_classes(self, nodes: Mapping[str, Node], features: Mapping[str, Any]) -> None:
        """Mark class labels of Hugging Face as categories, if all rows are numbers of classes."""
        found = {}
        for name, place in self._places.items():
            if place.leaf.marks.kind is None and place.leaf.dtype.kind in "iu":
                classes = class_names(features.get(self._owners[name]), place.leaf.marks.fields)
                if classes is not None:
                    found[name] = classes
        counts = {name: len(classes.words) for name, classes in found.items()}
        for name in in_range(self._records, nodes, counts):
            place = self._places[name]
            marks = replace(place.leaf.marks, unit=found[name])
            self._places[name] = replace(place, leaf=replace(place.leaf, marks=marks))
            self._settled.add(name)

    def _attributed(self, place: Place, field: Any, feature: Any) -> Place:
        """Return a tensor with the attributes that its column has in the file."""
        try:
            text = attributes_text(attributes_of(field, place.leaf.marks.fields, feature))
        except InvalidDataError as error:
            self.notes = [*self.notes, f"{place.leaf.name}: its attributes are not kept: {error}"]
            return place
        marks = replace(place.leaf.marks, attributes=text)
        if text:
            self._settled.add(place.leaf.name)
        return replace(place, leaf=replace(place.leaf, marks=marks))

    # -- metadata ------------------------------------------------------------------

    def _survey(self) -> None:
        """Compare and count the lists of all records, without reading numbers."""
        same, self._with_nulls = None, set()
        for _, tensors in self._tensors(Wanted(list(self._places), BATCH_BYTES, values=False)):
            same = self._compared(tensors, same)
            self._count(tensors)
            self._with_nulls.update(name for name, tensor in tensors.items() if tensor.nulls)
        if same is None:
            same = self._compared(self._empties(), None)
            self._count(self._empties())
        self._same = dict(same)

    def _look_ahead(self) -> None:
        """Compare the first records, which are buffered until they are requested."""
        pieces = self._tensors(Wanted(list(self._places), BATCH_BYTES))
        ahead: list[tuple[int, Tensors]] = []
        same, records, size = None, 0, 0
        varied: set[str] = set()
        for first, tensors in pieces:
            ahead.append((first, tensors))
            same = self._compared(tensors, same)
            varied |= self._varied(tensors)
            records += len(next(iter(tensors.values())))
            for name, tensor in tensors.items():
                column, own = self._owners[name], tensor.nbytes + 8 * len(tensor)
                self._begun_bytes[column] = self._begun_bytes.get(column, 0) + own
            size += sum(tensor.nbytes for tensor in tensors.values())
            self._begun_records = records
            if records >= TELLING_RECORDS or size >= BATCH_BYTES:
                break
        else:
            self._begun = iter(ahead)
            self._same = dict(self._compared(self._empties(), None) if same is None else same)
            return
        self._begun = chain(ahead, pieces)
        if records == self._records.count:
            self._same = dict(same)
        elif records >= TELLING_RECORDS:
            self._same = self._proven(dict(same), varied)

    def _varied(self, tensors: Tensors) -> set[str]:
        """Return the levels whose lists differ in length."""
        found = set()
        for name, tensor in tensors.items():
            for key, offsets in zip(self._places[name].keys, tensor.lod.levels, strict=True):
                lengths = np.diff(offsets)
                if lengths.size and (lengths != lengths[0]).any():
                    found.add(key)
        return found

    def _proven(self, same: dict[str, str], varied: set[str]) -> dict[str, str]:
        """Return which levels are equal, without those that may be equal by coincidence.

        Two columns of two-letter codes have equal lists up to the first three-letter code.
        """
        proven: dict[str, str] = {}
        for place in self._places.values():
            deepest = max((n for n, key in enumerate(place.keys) if key in varied), default=-1)
            proven |= {key: same[key] for key in place.keys[: deepest + 1] if key in same}
        return proven

    def _settle_records(self) -> None:
        """Mark structs as never null if so far none was null, but some had only null fields."""
        for reader in self._columns.values():
            reader.settle(both=self._tells_records and not self._records.plain)
        for name, place in list(self._places.items()):
            reader, fields = self._columns[self._owners[name]], place.leaf.marks.fields
            told = reader.records
            names = list(accumulate((undotted(one.name) for one in fields), "{}.{}".format))
            if place.leaf.marks.tells_records and names[-2] not in reader.both:
                del self._places[name]
                continue
            settled = tuple(
                replace(one, required=True)
                if told.get(part) is False and part not in reader.both
                else one
                for part, one in zip(names[:-1], fields, strict=False)
            )
            if settled != fields[:-1]:
                marks = replace(place.leaf.marks, fields=(*settled, *fields[-1:]))
                self._places[name] = replace(place, leaf=replace(place.leaf, marks=marks))
                self._settled.add(name)

    def _empties(self) -> Tensors:
        return {name: self._spec(name).empty() for name in self._places}

    def _compared(self, tensors: Tensors, before: _Same | None) -> _Same:
        """Return the pairs of levels that are equal here and in all earlier pieces."""

        def may_share(one: str, other: str) -> bool:
            owners = self._owners[one], self._owners[other]
            return owners[0] == owners[1] or self._records.may_share(*owners)

        keys = {name: place.keys for name, place in self._places.items()}
        found = set(same_levels(tensors, keys, may_share).items())
        return found if before is None else found & before

    def _count(self, tensors: Tensors) -> None:
        sizes: dict[str, int] = {}
        for name, tensor in tensors.items():
            items = [offsets.size - 1 for offsets in tensor.lod.levels]
            sizes |= zip((*self._places[name].keys, name), [*items, tensor.rows], strict=True)
        for key, size in sizes.items():
            self._counts[key] = self._counts.get(key, 0) + size

    def _spec(self, name: str) -> TensorSpec:
        place, known = self._places[name], self._records.count
        levels = tuple(
            LevelSpec(
                self._same.get(key, key), label, self._counts.get(key, None if level else known)
            )
            for level, (key, label) in enumerate(zip(place.keys, self._names[name], strict=True))
        )
        rows = self._counts.get(name, None if levels else known)
        leaf = place.leaf
        return TensorSpec(
            *(name, leaf.dtype, leaf.row_shape, levels, rows),
            marks=leaf.marks,
            nullable=self._may_be_null(name),
        )

    def _may_be_null(self, name: str) -> bool:
        """Return whether a tensor may have nulls, without reading further records."""
        if self._with_nulls is not None:
            return name in self._with_nulls
        place, leaf = self._places[name], self._places[name].leaf
        # Statistics of lists count empty lists as nulls. Text is one value.
        lists = bool(leaf.row_shape) or len(place.keys) > (leaf.marks.values is not None)
        return leaf.nullable and (lists or self._records.may_be_null(self._owners[name]))

    # -- reading -------------------------------------------------------------------

    def _tensors(self, wanted: Wanted) -> Pieces:
        """Yield the tensors of each piece of the file, with the number of its first record."""
        columns = list(dict.fromkeys(self._owners[name] for name in wanted.names))
        for first, batch in joined(self._records.batches(replace(wanted, names=columns))):
            found: Tensors = {}
            found_at = {name: place for place, name in enumerate(batch.schema.names)}
            for column in columns:
                if column in self._columns:
                    values = batch.column(found_at[column]) if column in found_at else None
                    found |= self._read(column, values, first)
            yield first, {name: found[name] for name in wanted.names if name in self._places}

    def _read(self, column: str, values: Any, first: int) -> Tensors:
        """Return the tensors of a column; none if it cannot be held, and may be left out.

        Args:
            column: its name in the file.
            values: of some records; None if they cannot be read.
            first: the number of the first record.
        """
        try:
            if values is None:
                raise self._records.refused[column]
            with damage():
                return self._columns[column].tensors(values, first)
        except (DamagedFileError, TooLargeError):
            raise
        except (InvalidDataError, UnsupportedError) as error:
            if not self._skips:
                raise
            del self._columns[column]
            self._places = {
                name: place for name, place in self._places.items() if self._owners[name] != column
            }
            self.left_out[name_of(column)] = error
            if not self._places:
                raise
            return {}

    def _reads_less(self, names: Iterable[str]) -> bool:
        """Return whether it is less work to read these tensors from the start than to go on.

        What was begun reads all columns, but has read some records, and as many in a thread.
        """
        count = self._records.count
        if not self.rereadable or count is None:
            return False
        columns = {self._owners[name] for name in names}
        wanted = sum(self._begun_bytes.get(column, 0) for column in columns)
        left = max(0, count - 2 * self._begun_records)
        return wanted * count < sum(self._begun_bytes.values()) * left

    def _pieces(self, wanted: Wanted) -> Pieces:
        """Yield pieces with one index for all tensors that share their levels."""
        names = wanted.names
        begun, self._begun = self._begun, None
        if begun is None or wanted.start or self._reads_less(names):
            begun = self._tensors(wanted)
        # Not the whole schema: lod inspect reads the tensors one by one.
        schema = tuple(self.schema[rank] for rank in sorted(self._ranks[name] for name in names))
        for first, tensors in begun:
            for name in self._settled.intersection(names):
                one = tensors[name]
                marks = self._places[name].leaf.marks
                tensors[name] = LoDTensor(one.values, one.lod, marks, one.nulls)
            for spec in schema:
                if not spec.nullable and tensors[spec.name].nulls:
                    raise self._unannounced(spec.name, tensors[spec.name], first)
            yield first, shared({name: tensors[name] for name in names}, schema, first)

    def _unannounced(self, name: str, tensor: LoDTensor, first: int) -> InvalidDataError:
        """Return the error about nulls that the metadata of the file excludes."""
        if self._with_nulls is not None:
            return changed_while_read()
        level, mask = next(tensor.nulls.present())
        record, *path = branch_of(tensor.lod, level, int(np.argmin(mask)))
        where = f"record {first + record}"
        if path:
            where += f", item <{','.join(map(str, path))}>"
        claim, advice = "the statistics count no nulls", "write the file again, as with pyarrow"
        if not self._places[name].leaf.nullable:
            claim, advice = "the file declares no nulls", "write it as a nullable column"
        return DamagedFileError(f"column {shown(name)}: {claim}, but {where} is null; {advice}")

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = set(names)
        chosen = [spec for spec in self.schema if spec.name in wanted]
        done = False
        for _, tensors in self._pieces(Wanted([spec.name for spec in chosen], limit_bytes)):
            for batch in cut_items(tensors, limit_bytes):
                yield batch
                done = True
        if not done:
            yield {spec.name: spec.empty() for spec in chosen}

    def close(self) -> None:
        self._records.close()


def _there(nodes: Mapping[str, Node | None]) -> dict[str, Node]:
    return {name: node for name, node in nodes.items() if node is not None}


class SeekableRecordSource(RecordSource):
    """The columns of a seekable file, of which any part can be read at any time."""

    rereadable = True

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Batch]]:
        wanted = set(names)
        chosen = [spec.name for spec in self.schema if spec.name in wanted]
        parts = self._records.parts
        if parts is None:
            yield from super().chosen_batches(chosen, choice, limit_bytes)
            return
        ranges = {}
        all_deciding = dict.fromkeys(choice.deciding)
        for name in all_deciding:
            found = self._records.ranges(self._path(name))
            if found is not None:
                ranges[name] = found
        may_hold = choice.of_ranges(ranges, parts)
        deciding = [name for name in chosen if name in all_deciding]

        def holds(start: int, stop: int) -> bool:
            batches = self._read_range(deciding, limit_bytes, start, stop)
            return any(choice.of_batch(batch, first) for first, batch in batches)

        of_all, of_deciding = map(self._size, (chosen, deciding))
        look = holds if pays_to_look(of_all, of_deciding, len(may_hold)) else None
        done = False
        for start, stop in runs(may_hold, parts.tolist(), look):
            start, stop = max(start, choice.span.start), min(stop, choice.span.stop)
            for first, tensors in self._read_range(chosen, limit_bytes, start, stop):
                for batch in cut_items(tensors, limit_bytes):
                    yield first, batch
                    first += item_count(batch)
                    done = True
        if not done:
            yield 0, {name: find(self.schema, name).empty() for name in chosen}

    def _size(self, names: Sequence[str]) -> int:
        """Return about how many bytes of the columns of tensors are decoded."""
        return self._records.size(list(dict.fromkeys(self._owners[name] for name in names)))

    def _read_range(
        self, names: Sequence[str], limit_bytes: int, start: int, stop: int
    ) -> Iterator[tuple[int, Tensors]]:
        """Yield some records in batches, each with the number of its first record."""
        if start >= stop:
            return
        for first, tensors in self._pieces(Wanted(names, limit_bytes, start, stop)):
            count = item_count(tensors)
            low, high = max(0, start - first), min(count, stop - first)
            if low < high:
                batch = tensors if high - low == count else part(tensors, low, high)
                yield first + low, batch
            if first + count >= stop:
                return

    def read_index(self, name: str) -> LoD:
        spec = find(self.schema, name)
        parts, size = [], 0
        for _, tensors in self._pieces(Wanted([spec.name], BATCH_BYTES, values=False)):
            parts.append(tensors[spec.name].lod)
            size += sum(level.nbytes for level in parts[-1].levels)
            self._records.bounds.check(size, "has an index of at least")
        return LoD.concatenate(parts) if parts else spec.empty().lod

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        spec = find(self.schema, name)
        records = self._records.count
        assert records is not None  # a seekable file
        outermost = level == 0 or (spec.levels and level == spec.levels[0].name)
        if outermost and branch:
            bounds = _bounds(branch[0], records)
            if bounds is not None:
                key = slice(None) if isinstance(branch[0], slice) else 0
                return self._between(spec, *bounds).select(key, *branch[1:])
        lod = self.read_index(spec.name)
        found = select(lod, records if lod.rows is None else lod.rows, branch, level)
        if not lod.n_levels:
            return self._between(spec, 0, records).select(*branch)
        low, high = found.start, found.stop
        for offsets in reversed(lod.levels[: found.level]):
            low = int(np.searchsorted(offsets, low, side="right")) - 1
            high = int(np.searchsorted(offsets, high))
        low = min(low, high)  # if there are no items
        part = self._between(spec, low, high)
        # Positions of items relative to the first of these records.
        bases = [start for start, _ in item_ranges(lod, 0, low, high)]
        begin = bases[-1]
        here = found._replace(
            rows=slice(found.rows.start - begin, found.rows.stop - begin),
            start=found.start - bases[found.level],
            stop=found.stop - bases[found.level],
            item=found.item and (found.item[0], found.item[1] - bases[found.item[0]]),
        )
        return part.cut(here)

    def _between(self, spec: TensorSpec, start: int, stop: int) -> LoDTensor:
        """Return the tensor of some records."""
        parts, size = [], 0
        for _, tensors in self._read_range([spec.name], BATCH_BYTES, start, stop):
            parts.append(tensors[spec.name])
            size += parts[-1].nbytes
            self._records.bounds.check(size, "has in this slice at least")
        return LoDTensor.concatenate(parts) if parts else spec.empty()


def _bounds(key: Key, count: int) -> tuple[int, int] | None:
    """Return the bounds of an index or a range; None for an invalid one."""
    if isinstance(key, slice):
        if key.step not in (None, 1):
            return None
        low, high, _ = key.indices(count)
        return low, max(low, high)
    index = key + count if key < 0 else key
    return (index, index + 1) if 0 <= index < count else None
