"""csv, tsv: long form, one record of numbers a row, grouped by its first columns."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice, pairwise
from shlex import quote
from typing import Any

import numpy as np

from lodcli.formats.arrays.budget import ITEM_COPIES, require_fits
from lodcli.formats.core.batching import aligned
from lodcli.formats.core.format import BATCH_BYTES, Format, SelectiveSource, Source, leaving_out
from lodcli.formats.core.losses import MOST_SHOWN
from lodcli.formats.core.names import listing, name_of, repeated, shown, there_are
from lodcli.formats.core.options import (
    SEPARATORS,
    ReadOptions,
    WriteOptions,
    choose_others,
    may_separate,
)
from lodcli.formats.core.schema import Batch, LevelSpec, Schema, TensorSpec
from lodcli.formats.csv.number_columns import (
    WITHOUT_COMMAS,
    WITHOUT_POINTS,
    NumberReader,
    are_missing,
    dtype_of,
    have_commas,
    is_number,
)
from lodcli.formats.csv.records import (
    Record,
    Records,
    Table,
    header_line,
    refuse_other_separators,
    swapped,
    wrong_width,
)
from lodcli.formats.csv.wide import WideSource, columns, in_columns
from lodcli.formats.csv.writing import LineWriter
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.lines import WITHOUT_RETURNS, LineReader
from lodcli.formats.text.numerals import tells_dtype
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    SelectionError,
    UnsupportedError,
    counted,
)
from lodcli.kernels.index.checks import Array, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.row_ranges import rows_of_ranges
from lodcli.kernels.options import by_reader, option, option_name
from lodcli.kernels.order.texts import Texts, text_order
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls

MOST_BLOCK_BYTES = 2 << 20
# Fields read at a time: those of several columns if there are few records, as each call takes long.
READ_FIELDS = 1 << 14


class Csv(Format):
    """Records below a header. `--levels` names the key columns that group them, outermost first.

    Consecutive records with the same value in a key column are one item of that level. Every
    other column, or those that `--field` chooses, is a tensor over the same levels. The first 64
    KiB of records determine its dtype: bool if all values are true or false, text if the first
    value is not a number, int64 (or uint64 if they need it) if all values are integers, else
    float64; `--dtype` and `--text-columns` override this. Key columns are not kept. If a key has no
    value, or with --nulls, an empty field of numbers is a null; with --nulls also NA, null and the
    like, and an empty field of text that is not in quotes.

    Writing: one column for each level, with the number of the item, then one for each tensor. The
    tensors must have the same levels (text has one more, for its bytes), and single numbers as
    rows; an item without rows cannot be represented. Times are ISO 8601 text, decimals have all
    their digits. A null is an empty field, an empty text one in quotes; null lists are refused.
    With `--wide`, rows of H numbers are H columns.
    """

    name = "csv"
    separator = ","
    dtypes = ALL_DTYPES - {"complex64", "complex128", "bfloat16"}
    row_ranks = 0
    many = table = True
    level_names = True  # as columns
    kept_dtypes = frozenset({"int64", "float64", "bool"})
    kept_marks = frozenset({"text"})
    nulls = True
    null_lists = False
    keeps_null_texts = False
    options = frozenset({
        "nulls", "levels", "field", "dtype", "dtype_unsafe", "encoding", "separator",
        "decimal_comma", "text_columns", "wide",
    })  # fmt: skip
    write_options = frozenset({"separator", "decimal_comma", "wide"})
    binary = False

    def open(self, source: Input, options: ReadOptions) -> Source:
        found = _CsvSource(source, options, self._separator(options))
        if not options.wide:
            return found
        return WideSource(found, rounded=bool(options.dtype_unsafe), nulls=options.nulls)

    def _writer(self, schema: Schema, mark: str, options: WriteOptions) -> LineWriter:
        comma = bool(options.decimal_comma)
        return LineWriter(self.name, schema, len(_groups(schema[0])), mark, decimal_comma=comma)

    def _separator(self, options: ReadOptions | WriteOptions) -> str:
        """Return the separator. Raises OptionError if it is the decimal comma as well."""
        found = options.separator or self.separator
        if options.decimal_comma and found == ",":
            raise OptionError(
                f"{self.name}: a comma is both the separator and the decimal comma; give another "
                f"{option('separator')}, such as semicolon"
            )
        return found

    def keeps_dtype(self, spec: TensorSpec, options: WriteOptions) -> bool:
        if spec.marks.is_text:
            return True
        return super().keeps_dtype(spec, options) and tells_dtype(spec)

    def keeps_level_name(self, spec: TensorSpec, level: int) -> bool:
        return not spec.marks.is_text or level < len(spec.levels) - 1

    def refuse_unheld(self, schema: Schema) -> None:
        wide = next((spec for spec in schema if len(spec.row_shape) == 1), None)
        if wide is not None:
            remedy = by_reader(shell="`lod convert --wide`", python=option("wide", True))
            raise UnsupportedError(
                f"{self.name} holds single numbers, rows of {wide.name} have shape "
                f"{wide.row_shape}; {remedy} writes their columns"
            )
        super().refuse_unheld(schema)
        alike: dict[tuple[str | None, ...], list[str]] = {}
        for spec in schema:
            alike.setdefault(tuple(level.name for level in _groups(spec)), []).append(spec.name)
        # A tensor of each number of rows.
        lengths: dict[int, str] = {}
        for spec in schema:
            count = spec.levels[-1].items if spec.marks.is_text else spec.rows
            if count is not None:
                lengths.setdefault(count, spec.name)
        if len(alike) > 1 or len(lengths) > 1:
            several = max(alike.values(), key=len) if len(alike) > 1 else []
            raise self._not_alike(_exploding(schema), several, found=_differing(alike, lengths))
        header = _header(schema)
        if len(set(header)) < len(header):
            double = next(iter(repeated(header)))
            renames = by_reader(shell="--levels and --name rename them", python="rename one")
            raise UnsupportedError(
                f"{self.name} holds columns of different names, two are called {double}: levels, "
                f"and tensors; {renames}"
            )

    def laid_out(self, schema: Schema, options: WriteOptions) -> Schema:
        return columns(schema) if options.wide else schema

    def _not_alike(
        self, remedy: str, alike: Sequence[str] = (), *, found: str = ""
    ) -> UnsupportedError:
        """Return the error; `alike` are tensors with levels of the same names."""
        several = (
            f", or {listing(alike, MOST_SHOWN)} with lod convert --columns"
            if len(alike) > 1
            else ""
        )
        return UnsupportedError(
            f"{self.name} holds only tensors with the same levels and lengths{found}; choose one "
            f"with FILE::NAME{several}{remedy}"
        )

    def _require_alike(self, lods: Mapping[str, LoD], done: list[int]) -> None:
        """Raise UnsupportedError if lengths differ; `done` items of each level came before."""
        (first, lod), *others = lods.items()
        for name, other in others:
            for level, (one, two) in enumerate(zip(lod.levels, other.levels, strict=True)):
                if one is not two and not np.array_equal(one, two):
                    item = int(np.argmax(one != two)) - 1
                    lengths = (int(np.diff(offsets)[item]) for offsets in (one, two))
                    raise self._not_alike(
                        "",
                        found=f"; item {done[level] + item} of level {level} has "
                        + " and ".join(
                            f"{length} in {tensor}"
                            for length, tensor in zip(lengths, (first, name), strict=True)
                        ),
                    )

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        if options.wide:
            batches = in_columns(schema, batches)
            schema = columns(schema)
        mark = self._separator(options)
        levels = _groups(schema[0])
        output.write(header_line(_header(schema), mark).encode())
        writer, done = self._writer(schema, mark, options), [0] * len(levels)
        for batch in aligned(schema, batches, None, output):
            if len(batch) < len(schema):
                raise self._not_alike(_exploding(schema))
            lods = {spec.name: _index(batch[spec.name].lod, spec) for spec in schema}
            self._require_alike(lods, done)
            lod = lods[schema[0].name]
            rows = int(lod.levels[-1][-1]) if levels else len(batch[schema[0].name])
            _require_rows(lod, done, self.name)
            for piece in writer.pieces(batch, lod, rows, done[0] if levels else 0):
                output.write(piece)
            done = [before + lod.count(level) for level, before in enumerate(done)]


class Tsv(Csv):
    """The same with tabs. See Csv."""

    name = "tsv"
    separator = "\t"


def _index(lod: LoD, spec: TensorSpec) -> LoD:
    """Return the levels that are columns: all but that of the bytes of text."""
    return lod.without_finest() if spec.marks.is_text else lod


def _groups(spec: TensorSpec) -> tuple[LevelSpec, ...]:
    """Return the levels that are columns: all but that of the bytes of text."""
    return spec.levels[:-1] if spec.marks.is_text else spec.levels


def _differing(
    alike: Mapping[tuple[str | None, ...], Sequence[str]], lengths: Mapping[int, str]
) -> str:
    """Return tensors with different levels or, if there are none, rows, for a message.

    Args:
        alike: names of tensors, by those of their levels.
        lengths: the name of a tensor, by its number of rows.

    >>> _differing({(): ["id"], ("day", None): ["x", "y"]}, {})
    '; found id without levels, and x, y with levels (day, unnamed)'
    >>> _differing({(): ["x", "y"]}, {3: "x", 1: "y"})
    '; x has 3 rows, y has 1 row'
    """
    if len(alike) < 2:
        (rows, first), (others, second) = islice(lengths.items(), 2)
        return f"; {first} has {counted(rows, 'row')}, {second} has {counted(others, 'row')}"
    one, other = (
        f"{listing(names, MOST_SHOWN)} with levels "
        f"({listing(level or 'unnamed' for level in levels)})"
        if levels
        else f"{listing(names, MOST_SHOWN)} without levels"
        for levels, names in islice(alike.items(), 2)
    )
    return f"; found {one}, and {other}"


def _header(schema: Schema) -> list[str]:
    """Return the names of the columns: of the levels, which are shared, then of the tensors."""
    levels = enumerate(_groups(schema[0]))
    return [
        *(level.name or f"level{number}" for number, level in levels),
        *(spec.name for spec in schema),
    ]


def _exploding(schema: Schema) -> str:
    """Return how `lod explode` makes rows of lists beside single values; "" if it cannot."""
    lists = [spec for spec in schema if spec.depth]
    items = {_items(spec, 0) for spec in schema}
    values = {_items(spec, 1) for spec in lists}
    if not lists or len(items - {None}) > 1 or len(values - {None}) > 1:
        return ""
    if len(lists) == 1:
        return f"; lod explode FILE {quote(lists[0].name)} writes a row for each value"
    return "; lod explode FILE writes a row for each value of lists of equal lengths"


def _items(spec: TensorSpec, level: int) -> int | None:
    """Return the number of items of a level, or of rows below all levels; None if not known."""
    return spec.levels[level].items if level < len(spec.levels) else spec.rows


def _require_rows(lod: LoD, done: list[int], name: str) -> None:
    """Raise UnsupportedError if an item has no rows; `done` items of each level came before."""
    for level in range(lod.n_levels):
        lengths = np.diff(lod.absolute(level))
        if (lengths == 0).any():
            item = int(np.argmax(lengths == 0)) + done[level]
            raise UnsupportedError(
                f"{name} holds no item without rows, as item {item} of level {level} is; leave "
                "such items out, or write another format"
            )


def _check_header(
    header: list[str], first: Record | None, separator: str, *, in_quotes: bool
) -> None:
    """Raise InvalidDataError unless this is a line of names, and fits the first record.

    Args:
        header: the names.
        first: the first record.
        separator: between fields.
        in_quotes: whether the first name is, so that other separators may be part of it.
    """
    if not header:
        raise InvalidDataError("line 1: expected the names of the columns, found nothing")
    if any("\r" in name for name in header):
        raise InvalidDataError(f"line 1: {WITHOUT_RETURNS}")
    line = separator.join(header)
    named = None if in_quotes else _EXCEL.fullmatch(line)
    if named is not None and may_separate(named[1]):
        names = {mark: name for name, mark in SEPARATORS.items()}
        other = option("separator", names.get(named[1], named[1]))
        also = "" if named[1] == separator else f", and give {other}"
        raise InvalidDataError(
            f"line 1: names the separator for Excel ({shown(line)}); remove this line, as with "
            f"tail -n +2{also}"
        )
    if len(header) == 1 and not in_quotes:
        following = None if first is None else separator.join(first.fields)
        refuse_other_separators(header[0], separator, below=following)
    if first is not None and len(first.fields) != len(header):  # before any field is parsed
        remedy = _NAMELESS if len(first.fields) == len(header) + 1 else ""
        raise InvalidDataError(f"{wrong_width(first, len(header))}{remedy}")


def _spec(
    name: str,
    column: int,
    dtype: np.dtype[Any] | None,
    levels: tuple[LevelSpec, ...],
    *,
    nullable: bool,
) -> TensorSpec:
    """Return the spec of a column; without a dtype it is text."""
    if dtype is None:
        below = LevelSpec(f"text of {column}")
        levels = *levels, below
        return TensorSpec(name, np.dtype(np.uint8), (), levels, marks=TEXT, nullable=nullable)
    return TensorSpec(name, dtype, (), levels, nullable=nullable)


class _CsvSource(SelectiveSource):
    """An open file, whose header was read."""

    records = True

    def __init__(self, source: Input, options: ReadOptions, separator: str) -> None:
        self._decimal_comma, null_words = bool(options.decimal_comma), options.nulls is not None
        lines = LineReader(source, encoding=options.encoding)
        self._records = Records(lines, separator, tells_nulls=null_words)
        records = self._records.first()
        header = records.pop(0).fields if records else []
        first = records[0] if records else None
        _check_header(header, first, separator, in_quotes=self._records.begins_with_quotes)
        self._header, names = header, list(map(name_of, header))
        self._reader = NumberReader(
            rounded=bool(options.dtype_unsafe),
            null_words=null_words,
            single=len(header) == 1,
            decimal_comma=self._decimal_comma,
        )
        named = _Names(header, names)
        self._groups, chosen = named.chosen(options)
        if options.dtype is not None and options.dtype.kind not in "iufb":
            raise UnsupportedError(
                f"{option_name('dtype')}: expected whole numbers, floats or "
                f"bool for columns, found {options.dtype}"
            )
        levels = tuple(LevelSpec(str(n), name) for n, name in enumerate(options.levels or ()))
        texts = {named.of(name) for name in options.text_columns or ()}
        # A null of the only column is in quotes, too.
        in_quotes = self._records.columns_in_quotes() if len(header) > 1 else set[int]()
        # 0, 1, .. are the names that pandas gives to columns without names.
        numbers = all(map(is_number, header)) and header != list(map(str, range(len(header))))
        twice = repeated(names)
        self._columns, specs, self.left_out = [], [], {}
        valueless = set[str]()
        with_commas = dict[str, list[str]]()
        whole = [record.fields for record in records if len(record.fields) == len(header)]
        for column in chosen:
            name = names[column]
            with leaving_out(self.left_out, name):
                if name in twice:
                    raise _doubled(name, is_record=numbers or is_number(name))
                fields = [record[column] for record in whole]
                if self._decimal_comma:
                    fields = list(map(swapped, fields))
                dtype, quoted = None, column in in_quotes
                if column not in texts:
                    dtype = dtype_of(fields, options.dtype, in_quotes=quoted, null_words=null_words)
                    if dtype is None and have_commas(fields):
                        with_commas[name] = fields
                # With only one column, a blank line may be a mistake.
                has_nulls = dtype is not None and "" in fields and len(header) > 1
                nullable = null_words or has_nulls
                spec = _spec(name, column, dtype, levels, nullable=nullable)
                if first is not None and not spec.marks:
                    self._reader.check(spec, fields[0], first.line)
                specs.append(spec)
                self._columns.append(column)
                if dtype is not None and are_missing(fields):
                    valueless.add(spec.name)
        if not specs:
            raise next(iter(self.left_out.values()))
        self.schema, self.untyped = tuple(specs), first is None
        self.valueless = frozenset(valueless)
        self.notes = [
            *_notes_on_commas(with_commas, separator, decimal_comma=self._decimal_comma),
            *_notes_on_names(header if numbers else self._numbered(specs)),
        ]

    def _numbered(self, specs: Sequence[TensorSpec]) -> list[str]:
        """Return the names of the columns of numbers if they may be those of a record, else [].

        Numbers that increase may be years or positions.
        """
        pairs = zip(self._columns, specs, strict=True)
        found = [self._header[column] for column, spec in pairs if spec.dtype.kind in "if"]
        if not all(map(is_number, found)):
            return []
        return found if any(float(one) >= float(next_) for one, next_ in pairwise(found)) else []

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = {*names}
        places = [place for place, spec in enumerate(self.schema) if spec.name in wanted]
        self._records.restart()
        self._seen: list[set[str]] = [set() for _ in self._groups]
        self._last: list[str] | None = None
        width, done = len(self._header), False
        waiting = list[Table]()  # records of one item, which may go on
        row_bytes = sum(self.schema[place].row_bytes for place in places)
        for table in self._records.blocks(min(max(64, limit_bytes), MOST_BLOCK_BYTES), width):
            end = self._whole_items(table, waiting)
            if end is not None:
                yield self._batch(Table.joined([*waiting, table.part(0, end)]), places)
                waiting, done, table = [], True, table.part(end, len(table))
            if len(table):
                waiting.append(table)
                what = f"the item that begins on line {waiting[0].lines[0]}"
                rows = sum(map(len, waiting))
                require_fits(what, rows * row_bytes, ITEM_COPIES, whole=False)
        if waiting or not done:
            yield self._batch(Table.joined(waiting or [Table.of_records([], width)]), places)

    def _whole_items(self, table: Table, waiting: Sequence[Table]) -> int | None:
        """Return the number of records that certainly end an outermost item; None if none does.

        Args:
            table: the next records.
            waiting: those before, which are of one item.
        """
        if not self._groups or not len(table):
            return len(table) or None
        keys = table.column(self._groups[0])
        changes = np.flatnonzero(_changed(keys))
        if changes.size:
            return int(changes[-1]) + 1
        before = waiting and waiting[0].column(self._groups[0]).bytes_of(0)
        return 0 if waiting and before != keys.bytes_of(0) else None

    def _batch(self, table: Table, places: Sequence[int]) -> Batch:
        """Return the columns at these places in the schema."""
        lod = self._lod(table)
        alike = dict[np.dtype[Any], list[int]]()  # numbers, by dtype
        for place in places:
            if not self.schema[place].marks.is_text:
                alike.setdefault(self.schema[place].dtype, []).append(place)
        with_points = table.swapped() if self._decimal_comma else table
        numbers, step = dict[int, LoDTensor](), max(1, READ_FIELDS // max(1, len(table)))
        for one in alike.values():
            for first in range(0, len(one), step):
                some = one[first : first + step]
                specs = [self.schema[place] for place in some]
                fields = with_points.columns([self._columns[place] for place in some])
                tensors = self._reader.tensors(specs, fields, table.lines, lod)
                numbers |= zip(some, tensors, strict=True)
        return {
            self.schema[place].name: (
                numbers[place] if place in numbers else self._text(table, place, lod)
            )
            for place in places
        }

    def _text(self, table: Table, place: int, lod: LoD) -> LoDTensor:
        """Return the column at a place in the schema as text below the levels of an index."""
        column = self._columns[place]
        fields = table.column(column)
        offsets = lengths_to_offsets(fields.lengths, level=0)
        index = LoD([*lod.levels, offsets], [*lod.names, None])
        missing = table.missing(column) if self.schema[place].nullable else None
        nulls = NO_NULLS
        if missing is not None and missing.any():
            nulls = Nulls.of([*[None] * lod.n_levels, ~missing, None])
        data = rows_of_ranges(fields.data, fields.starts, offsets)
        return LoDTensor(data, index, TEXT, nulls=nulls)

    def _lod(self, table: Table) -> LoD:
        starts: list[list[int]] = [[] for _ in self._groups]
        groups = [self._header[column] for column in self._groups]
        columns = [table.column(column) for column in self._groups]
        for row in _changes(columns, len(table)):
            keys = [column.bytes_of(row).decode() for column in columns]
            new = next(
                (n for n, key in enumerate(keys) if self._last is None or key != self._last[n]),
                len(keys),
            )
            for level in range(new, len(keys)):
                if level > new:
                    self._seen[level].clear()
                if keys[level] in self._seen[level]:
                    line, key = table.lines[row], shown(keys[level])
                    raise InvalidDataError(
                        f"line {line}: {groups[level]} {key} appears again after other "
                        f"values; sort the records by {', '.join(groups)}"
                    )
                self._seen[level].add(keys[level])
                starts[level].append(row)
            self._last = keys
        offsets = []
        for level, rows in enumerate(starts):
            if level + 1 < len(starts):
                found = np.searchsorted(starts[level + 1], [*rows, len(table)])
            else:
                found = np.array([*rows, len(table)])
            offsets.append(found.astype(np.int64))
        return LoD(offsets, self.schema[0].level_names[: len(groups)])


_NAMES_ABOVE = "put a line of names above it"
# A line above the names that Excel reads.
_EXCEL = re.compile("sep=(.)")
_NAMELESS = "; if the header lacks a name, as that of R's write.table(..), put it before the others"


def _doubled(name: str, *, is_record: bool) -> InvalidDataError:
    """Return the error about two columns of one name; `is_record`: of a line that has numbers."""
    remedy = f"if it is a record, {_NAMES_ABOVE}" if is_record else choose_others("other columns")
    return InvalidDataError(f"line 1: two columns are named {shown(name)}; {remedy}")


def _notes_on_commas(
    columns: Mapping[str, list[str]], separator: str, *, decimal_comma: bool
) -> list[str]:
    """Return a note on columns of text, by their first fields, that are numbers with commas."""
    if not columns:
        return []
    said = listing(map(shown, columns), MOST_SHOWN)
    if decimal_comma:
        return [f"numbers with points are read as text: {said}; {WITHOUT_POINTS}"]
    fields = chain.from_iterable(columns.values())
    # Whether --decimal-comma reads the numbers.
    reads = separator != "," and all(is_number(swapped(one)) for one in fields if one)
    without = WITHOUT_COMMAS + f", or give {option('decimal-comma', True)}" * reads
    return [f"numbers with commas are read as text: {said}; {without}"]


def _notes_on_names(numbers: Sequence[str]) -> list[str]:
    """Return a note on names of columns that are numbers."""
    if not numbers:
        return []
    said = listing(map(shown, numbers), MOST_SHOWN)
    return [
        f"line 1: was read as the names of the columns, which are numbers: {said}; if it "
        f"is a record, {_NAMES_ABOVE}"
    ]


class _Names:
    """Positions of columns by their names.

    Args:
        header: the names of the columns.
        names: those of their tensors.
    """

    def __init__(self, header: Sequence[str], names: Sequence[str]) -> None:
        self._known = [
            ({name: place for place, name in enumerate(known)}, repeated(known))
            for known in (header, names)
        ]
        self._header = header

    def of(self, wanted: str) -> int:
        """Return the position of a column by its name, or by that of its tensor."""
        for places, twice in self._known:
            if wanted in twice:
                raise SelectionError(f"two columns are named {shown(wanted)}")
            if wanted in places:
                return places[wanted]
        raise SelectionError(f"no column {shown(wanted)}; {there_are(places, wanted)}")

    def chosen(self, options: ReadOptions) -> tuple[list[int], list[int]]:
        """Return the positions of the columns that group records, and of those to read."""
        groups = [self.of(name) for name in options.levels or ()]
        if options.field is None:
            columns = [place for place in range(len(self._header)) if place not in groups]
        else:
            columns = [self.of(name) for name in options.field]
        if both := set(groups) & set(columns):
            raise SelectionError(
                f"column {shown(self._header[min(both)])}: is in {option_name('levels')} and among "
                "the chosen columns; leave it out of one"
            )
        if not columns:
            raise SelectionError(
                f"no column is left for the numbers: {option('levels')} names them all"
            )
        return groups, columns


def _changes(columns: list[Texts], rows: int) -> list[int]:
    """Return the first row, and those in which a column differs from the row before."""
    if not rows:
        return []
    changed = functools.reduce(np.logical_or, map(_changed, columns), np.zeros(rows - 1, np.bool_))
    return [0, *(np.flatnonzero(changed) + 1).tolist()]


def _changed(fields: Texts) -> Array:
    """Return whether each field but the first differs from the one before, (K - 1,) bool."""
    one, other = fields.taken(slice(1, None)), fields.taken(slice(None, -1))
    found: Array = text_order(one, other, equality=True) != 0
    return found
