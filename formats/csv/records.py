"""CSV and TSV records as in RFC 4180: fields, quotes, records over several lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from operator import xor
from typing import NamedTuple

import numpy as np

from lodcli.formats.core.names import shown
from lodcli.formats.core.options import SEPARATORS
from lodcli.formats.csv import splitting_native
from lodcli.formats.text.lines import LineReader, count_lines, count_of, nul, to_utf_8
from lodcli.formats.text.records_native import is_repaid
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, lengths_to_offsets
from lodcli.kernels.ops.slicing.row_ranges import rows_of_ranges
from lodcli.kernels.options import option
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.nulls import Mask

# Maximum size of a field: an unclosed quote would otherwise make the rest of the file one field.
MOST_FIELD_BYTES = 16 << 20
csv.field_size_limit(MOST_FIELD_BYTES)
_NAMES = {mark: name for name, mark in SEPARATORS.items()}
_SWAP = str.maketrans(",.", ".,")
_SWAPPED = np.frombuffer(bytes(range(256)).translate(bytes.maketrans(b",.", b".,")), np.uint8)
_PEEK_BYTES = 1 << 16
# Python's error for a quote that does not close.
_IS_OPEN = "unexpected end of data"
# Splitting so many fields with compiled code saves as much time as writing one value.
_FIELDS_PER_WRITTEN = 50
_NO_PLACES = frozenset[int]()
# `Texts` needs eight bytes.
_LEAST = bytes(8)


class Record(NamedTuple):
    """A record as text.

    Attributes:
        line: where it begins.
        fields: without quotes around them.
        empty_in_quotes: the places of those that are `""`; without `tells_nulls`, only of one that
            is the whole record.
    """

    line: int
    fields: list[str]
    empty_in_quotes: frozenset[int] = _NO_PLACES

    @property
    def is_blank(self) -> bool:
        """Whether it is a line without anything."""
        return self.fields == [""] and not self.empty_in_quotes


class Table:
    """Records as columns, all of one width.

    Args:
        lines: (K,) int64, the line where each record begins.
        data: (N,) uint8, which holds all fields, in order, each with a byte after it: a quote if it
            is in quotes, else another one.
        starts, stops: (width, K) int64, the first byte of each field, and that after its last one.
    """

    def __init__(self, lines: Array, data: Array, starts: Array, stops: Array) -> None:
        self.lines = lines
        self._data, self._starts, self._stops = data, starts, stops

    @classmethod
    def of_records(cls, records: Sequence[Record], width: int) -> Table:
        """Return records of this width."""
        fields = [field.encode() for record in records for field in record.fields]
        ends = np.cumsum([0, *(len(field) + 1 for field in fields)]).astype(np.int64)
        stops = ends[1:] - 1
        data = np.frombuffer(bytearray(b"\n".join([*fields, _LEAST])), np.uint8)
        places = [
            n * width + place for n, one in enumerate(records) for place in one.empty_in_quotes
        ]
        data[stops[places]] = ord('"')
        lines = np.array([record.line for record in records], np.int64)
        return cls(lines, data, _in_columns(ends[:-1], width), _in_columns(stops, width))

    @classmethod
    def joined(cls, tables: Sequence[Table]) -> Table:
        """Return the records of several tables, at least one."""
        tables = [table for table in tables if len(table)] or tables[:1]
        if len(tables) == 1:
            return tables[0]
        parts, starts, stops, begin = list[Array](), list[Array](), list[Array](), 0
        for table in tables:
            first, last = int(table._starts[0, 0]), int(table._stops[-1, -1]) + 1
            parts.append(table._data[first:last])
            starts.append(table._starts + (begin - first))
            stops.append(table._stops + (begin - first))
            begin += last - first
        parts.append(np.frombuffer(_LEAST, np.uint8))
        bounds = (np.concatenate(some, axis=1) for some in (starts, stops))
        lines = np.concatenate([table.lines for table in tables])
        return cls(lines, np.concatenate(parts), *bounds)

    def __len__(self) -> int:
        return self.lines.size

    def column(self, number: int) -> Texts:
        """Return the fields of a column."""
        starts, stops = self._starts[number], self._stops[number]
        return Texts(self._data, starts, stops - starts)

    def missing(self, number: int) -> Mask:
        """Return which fields of a column are empty and not in quotes, (K,) bool."""
        starts = self._starts[number]
        found: Mask = (starts == self._stops[number]) & (self._data[starts] != ord('"'))
        return found

    def columns(self, numbers: list[int]) -> Texts:
        """Return the fields of several columns, one column after another."""
        starts, stops = self._starts[numbers].ravel(), self._stops[numbers].ravel()
        return Texts(self._data, starts, stops - starts)

    def swapped(self) -> Table:
        """Return the records with points for commas and commas for points."""
        return Table(self.lines, _SWAPPED[self._data], self._starts, self._stops)

    def part(self, start: int, stop: int) -> Table:
        """Return some of the records."""
        some = slice(start, stop)
        return Table(self.lines[some], self._data, self._starts[:, some], self._stops[:, some])


def swapped(field: str) -> str:
    """Return a field with points for commas and commas for points.

    >>> swapped("1.234,5")
    '1,234.5'
    """
    return field.translate(_SWAP)


def words_of(fields: Texts) -> list[str]:
    """Return fields as text."""
    offsets = lengths_to_offsets(fields.lengths, level=0)
    raw = rows_of_ranges(fields.data, fields.starts, offsets).tobytes()
    ends = pairwise(offsets.tolist())
    if raw.isascii():  # then decoding each takes half of the time
        text = raw.decode()
        return [text[start:stop] for start, stop in ends]
    return [raw[start:stop].decode() for start, stop in ends]


def _in_columns(fields: Array, width: int) -> Array:
    """Return something of each field, (width, K), from that of all fields in order."""
    return np.ascontiguousarray(fields.reshape(-1, width).T)


class Records:
    """The records of an input, block by block.

    Args:
        reader: of its lines.
        separator: between fields: one character, such as "," or a tab.
        tells_nulls: whether `Table.missing` will be asked.
    """

    def __init__(self, reader: LineReader, separator: str, *, tells_nulls: bool) -> None:
        self._reader = reader
        self._tells_nulls = tells_nulls
        self._separator = separator
        self._blank: int | None = None
        self._head = b""
        # As a rule, all blocks of a file are alike: whether all quotes so far begin or end a field,
        # and whether compiled code could split all blocks so far.
        self._only_around, self._all_plain = True, True
        self._fields_seen = 0

    def restart(self) -> None:
        """Go back to the beginning."""
        self._reader.restart()
        self._blank = None

    def first(self) -> list[Record]:
        """Return the header and about 64 KiB of records.

        `blocks` yields them again.
        """
        lines, size = self._reader.peek(_PEEK_BYTES), _PEEK_BYTES
        # The header may be longer than all others.
        while self._first_bytes(lines) >= size and size < MOST_FIELD_BYTES:
            more = self._reader.peek(size)
            lines, size = lines + more, 2 * size
        lines += self._reader.peek(self._first_bytes(lines))
        while True:
            self._head = b"".join(lines)
            found, unfinished = self._parsed(self._head, 1)
            if unfinished is None:
                break
            if len(found) > 1:
                self._head = self._head.removesuffix(unfinished.lines)
                break
            more = self._reader.peek(size) if size < MOST_FIELD_BYTES else []
            if not more:
                beyond = f"; its end is not in the first {size >> 20} MiB" * (
                    size >= MOST_FIELD_BYTES
                )
                raise InvalidDataError(f"{unfinished.message}{beyond}")
            lines, size = lines + more, 2 * size
        return found[: _end(found, len(found[0].fields))] if found else found

    def columns_in_quotes(self) -> set[int]:
        """Return the columns with a field in quotes in the records of `first`.

        Of a file with quotes around all fields, none: there they tell nothing about a column.
        """
        if b'"' not in self._head:
            return set()
        data = np.frombuffer(self._head.replace(b"\r\n", b"\n") + b"\n", np.uint8)
        quotes = data == ord('"')
        outside = ~np.logical_xor.accumulate(quotes)
        ends = outside & (data == ord("\n"))
        stops = np.flatnonzero(ends | (outside & (data == ord(self._separator))))
        starts = np.append(0, stops[:-1] + 1)
        in_quotes = quotes[starts]
        # The first field of each record; the names are the first record.
        records = np.append(0, np.flatnonzero(ends[stops]) + 1)
        if records.size < 2 or not (~in_quotes & (stops > starts)).any():
            return set()
        fields = np.flatnonzero(in_quotes[records[1] :]) + records[1]
        firsts = records[np.searchsorted(records, fields, "right") - 1]
        return set((fields - firsts).tolist())

    @property
    def begins_with_quotes(self) -> bool:
        """Whether the first name in the lines of `first` is in quotes."""
        return self._head.startswith(b'"')

    def _first_bytes(self, lines: list[bytes]) -> int:
        """Return the size of the first record, of all lines if it is longer."""
        size = 0
        for line, is_open in zip(lines, accumulate(map(self._open, lines), xor), strict=True):
            size += len(line)
            if not is_open:
                break
        return size

    def _open(self, block: bytes) -> bool:
        """Return whether a block ends inside quotes, which come in pairs."""
        # Most blocks have none, and are searched in a tenth of the time of counting.
        return b'"' in block and count_of(b'"', block) % 2 == 1

    def blocks(self, limit_bytes: int, width: int) -> Iterator[Table]:
        """Yield the records after the first one.

        Args:
            limit_bytes: approximate size of the lines of a table.
            width: number of fields that each must have.
        """
        begun, rest = False, b""
        while True:
            first = self._reader.line + 1 - count_lines(rest)
            block = self._block(limit_bytes, rest)
            if not block:
                return
            is_last = len(block) == len(rest)
            table, rest = self._simple(block, first, width), b""
            if table is None:
                table, rest = self._exact(block, first, width, is_last=is_last)
            yield table if begun else table.part(1, len(table))
            begun = begun or len(table) > 0

    def _block(self, limit_bytes: int, rest: bytes) -> bytes:
        """Return lines that are left and the next ones; if they end in quotes, up to their end.

        Not if that is far: quotes of inches and the like do not come in pairs. `_exact` knows
        where a record ends.
        """
        found = self._reader.block(limit_bytes)
        parts, size, is_open = [rest, found], len(found), self._open(rest) ^ self._open(found)
        while is_open and size <= 2 * limit_bytes:
            more = self._reader.block(1)
            if not more:
                break
            parts.append(more)
            size += len(more)
            is_open ^= self._open(more)
        return b"".join(parts)

    def _simple(self, block: bytes, first: int, width: int) -> Table | None:
        """Return records that are split all at once; None if that may be wrong."""
        if b"\0" in block:
            return None
        has_quotes, has_returns = b'"' in block, b"\r" in block
        if has_returns:
            block = block.replace(b"\r\n", b"\n")
        if not block.endswith(b"\n"):
            block = block.removesuffix(b"\r") + b"\n"
        if has_quotes and has_returns and b"\r" in block:
            return None  # between quotes only
        try:
            if not block.isascii():
                block.decode()
        except UnicodeDecodeError:
            return None
        table = None
        many = is_repaid(self._fields_seen // _FIELDS_PER_WRITTEN)
        if many and self._all_plain and splitting_native.is_available():
            count = count_lines(block)
            found = splitting_native.split(block, self._separator, width, count)
            self._all_plain = found is not None
            table = found and Table(np.arange(first, first + count), *found)
        if table is None:
            table = self._split(block, first, width, in_lines=has_returns)
        if table is not None:
            self._fields_seen += len(table) * width
            self._refuse_blank(width)
        return table

    def _split(self, block: bytes, first: int, width: int, *, in_lines: bool) -> Table | None:
        """Return records that are split with NumPy; None if that may be wrong.

        Args:
            in_lines: whether to return None also for line ends within quotes.
        """
        data = np.frombuffer(block + _LEAST, np.uint8)
        line_ends = data == ord("\n")
        marks = line_ends | (data == ord(self._separator))
        quotes = data == ord('"') if b'"' in block else None
        found = None
        if quotes is None or self._only_around:
            starts, stops = _bounds(marks)
        if quotes is not None and self._only_around:
            found = _without_quotes(data, quotes, starts, stops, around=True)
            self._only_around = found is not None
        if quotes is not None and found is None:
            between = np.logical_xor.accumulate(quotes)
            if between[-1] or (in_lines and (between & line_ends).any()):
                return None
            starts, stops = _bounds(marks & ~between)
        if stops.size % width:
            return None
        ends = line_ends[stops].reshape(-1, width)
        if not ends[:, -1].all() or ends[:, :-1].any():
            return None
        lines = np.arange(first, first + len(ends))
        if quotes is not None:
            if np.count_nonzero(line_ends) > len(ends):  # some between quotes
                lines = first + np.searchsorted(np.flatnonzero(line_ends), starts[::width])
            found = found or _without_quotes(data, quotes, starts, stops)
            if found is None:
                return None
            data, starts, stops = found
        return Table(lines, data, _in_columns(starts, width), _in_columns(stops, width))

    def _exact(self, block: bytes, first: int, width: int, *, is_last: bool) -> tuple[Table, bytes]:
        """Return records that are parsed and checked one by one, and the lines after them.

        Args:
            is_last: whether no lines follow, which might close a quote.
        """
        found, unfinished = self._parsed(block, first)
        if unfinished is not None and is_last:
            raise InvalidDataError(unfinished.message)
        end = _end(found, width)
        if end:
            self._refuse_blank(width)
        if end < len(found) and self._blank is None:
            self._blank = found[end].line  # an error if records follow
        found = found[:end]
        for record in found:
            if len(record.fields) != width:
                raise InvalidDataError(wrong_width(record, width))
        return Table.of_records(found, width), b"" if unfinished is None else unfinished.lines

    def _refuse_blank(self, width: int) -> None:
        """Raise InvalidDataError if there were blank lines, before a record."""
        if self._blank is not None:
            raise InvalidDataError(wrong_width(Record(self._blank, [""]), width))

    def _parsed(self, block: bytes, first: int) -> tuple[list[Record], _Unfinished | None]:
        """Return the records of a block, the first of which is on this line.

        Raises:
            InvalidDataError: not text, or no records.
        """
        if b"\0" in block:
            line = first + block.count(b"\n", 0, block.index(b"\0"))
            raise InvalidDataError(f"line {line}: holds {nul()}")
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            raise InvalidDataError(
                f"line {line}: is not UTF-8 (byte {block[error.start]:#04x}); {to_utf_8()}"
            ) from None
        if '"' not in text:
            # "\r" alone is no line end; splitlines would split at other characters as well.
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            fields = (line.removesuffix("\r").split(self._separator) for line in lines)
            return list(map(Record, range(first, first + len(lines)), fields)), None
        lines = text.removesuffix("\n").split("\n")
        rows = csv.reader((line + "\n" for line in lines), delimiter=self._separator, strict=True)
        found: list[Record] = []
        begins = first
        try:
            for row in rows:
                next_line = first + rows.line_num
                places = _NO_PLACES
                if "" in row and (self._tells_nulls or len(row) == 1):
                    raw = "\n".join(lines[begins - first : next_line - first])
                    places = self._empty_in_quotes(raw, len(row))
                found.append(Record(begins, row or [""], places))
                begins = next_line
        except csv.Error as error:
            lines = text.split("\n")
            if first == 1 and self._separator not in lines[0]:
                after, below = ('"', None) if begins == 1 else ("", lines[begins - 1])
                header = lines[0].removesuffix("\r")
                refuse_other_separators(header, self._separator, after=after, below=below)
            escaped = any('\\"' in line for line in lines[begins - first : begins - first + 1])
            remedy = _UNESCAPED if escaped else _QUOTED
            if str(error).startswith("field larger"):
                most = f"in records with quotes, a field has at most {MOST_FIELD_BYTES >> 20} MiB"
                remedy = f"{most}: it is longer, or a quote is not closed"
            said = f"line {begins}: is not a record ({error}); {remedy}"
            if str(error) == _IS_OPEN:
                return found, _Unfinished("\n".join(lines[begins - first :]).encode(), said)
            raise InvalidDataError(said) from None
        return found, None

    def _empty_in_quotes(self, record: str, width: int) -> frozenset[int]:
        """Return the places of the fields that are `""`, in the lines of a record."""
        if '""' not in record:
            return _NO_PLACES
        fields = record.removesuffix("\r").split(self._separator)
        if len(fields) > width:  # a separator is in quotes
            mark = re.escape(self._separator)
            fields = re.findall(rf'("[^"]*(?:""[^"]*)*"|[^{mark}]*)(?:{mark}|\r?\Z)', record)
        return frozenset(place for place, field in enumerate(fields) if field == '""')


class _Unfinished(NamedTuple):
    """A record at the end of a block that ends within quotes, which further lines may close.

    Attributes:
        lines: of the record.
        message: of the error, if there are no further lines.
    """

    lines: bytes
    message: str


_DOUBLED = 'double the quotes in it, as "a ""b"" c"'
_QUOTED = f"put a field with quotes, separators or line ends in quotes, and {_DOUBLED}"
_UNESCAPED = (
    f"write a field without backslashes before quotes, and {_DOUBLED} (in Spark, the option "
    "escape='\"'; in R, qmethod='double'; in PHP, escape: '')"
)


def _bounds(marks: Array) -> tuple[Array, Array]:
    """Return where each field starts and stops, (K,) int64, by where a byte ends one, (N,) bool."""
    stops = np.flatnonzero(marks)
    return np.append(0, stops[:-1] + 1), stops


def _without_quotes(
    data: Array, quotes: Array, starts: Array, stops: Array, *, around: bool = False
) -> tuple[Array, Array, Array] | None:
    """Return the bytes of fields, and where each starts and stops, without quotes around a field.

    None if there are other quotes than these, and those doubled between them.

    Args:
        data: (N,) uint8.
        quotes: (N,) bool, where the bytes are quotes.
        starts, stops: (K,), of each field; unless `around`, none is within quotes.
        around: whether to return None also if quotes are doubled. If none are, no separator is
            within quotes: each quote begins or ends a field.
    """
    begun, ended = quotes[starts], quotes[stops - 1]  # before an empty field there is no quote
    if (begun != ended).any():
        return None
    if np.count_nonzero(quotes) == 2 * np.count_nonzero(begun):
        starts, stops = starts + begun, stops - begun
        # One quote alone both begins and ends a field: a separator is within quotes.
        return None if around and (starts > stops).any() else (data, starts, stops)
    if around:
        return None
    inner = quotes.copy()
    inner[starts[begun]] = inner[stops[ended] - 1] = False
    places = np.flatnonzero(inner)
    double = places[::2]
    # No separator is within quotes: each field has an even number of them.
    if not (double + 1 == places[1::2]).all() or not begun[np.searchsorted(stops, double)].all():
        return None
    starts, stops = starts + begun, stops - begun
    if double.size:
        starts, stops = (some - np.searchsorted(double, some) for some in (starts, stops))
        data = np.delete(data, double)
    return data, starts, stops


def _end(found: list[Record], width: int) -> int:
    """Return the number of records before the blank lines at the end.

    If there is only one column, a blank line is a record.
    """
    end = len(found)
    while width > 1 and end and found[end - 1].is_blank:
        end -= 1
    return end


def refuse_other_separators(
    header: str, separator: str, *, after: str = "", below: str | None = None
) -> None:
    """Raise if a header without separators contains another one.

    Args:
        header: the line, or its only name.
        separator: the character between fields.
        after: the text before a separator.
        below: the next record; if it lacks the other separator, the header is a single name.
    """
    other = _other_separator(header, separator, after)
    if other is not None and (below is None or other in below):
        raise InvalidDataError(
            f"line 1: has no {_NAMES.get(separator, separator)} but "
            f"{_NAMES[other]}s: {shown(header)}; give "
            f"{option('separator', _NAMES[other])}"
        )


def _other_separator(header: str, separator: str, after: str = "") -> str | None:
    """Return the first separator but this one that a header contains."""
    # Names may contain spaces.
    marks = [mark for mark in _NAMES if mark != separator and (after or mark != " ")]
    return next((mark for mark in marks if after + mark in header), None)


def header_line(names: list[str], separator: str) -> str:
    """Return the line of names; a single name that contains other separators is in quotes."""
    fields = quoted(names, separator)
    if len(fields) == 1 and fields == names and _other_separator(names[0], separator):
        fields = [f'"{names[0]}"']
    return separator.join(fields) + "\n"


def wrong_width(record: Record, width: int) -> str:
    """Return the message for a record with a wrong number of fields."""
    wanted, fields = f"line {record.line}: expected {_fields(width)}, as line 1 has", record.fields
    if record.is_blank:
        return f"{wanted}, found a blank line; take it out"
    found = (
        f"{wanted}, found {_fields(len(fields))}; a field that holds a separator stands in quotes"
    )
    if any(field[:1] == " " and field.lstrip()[:1] == '"' for field in fields):
        return f"{found}, without a blank before the quote"
    comment = "line 1 is" if width == 1 else "this is" if fields[0].startswith("#") else ""
    return (
        f"{found}; if {comment} a comment, take it out, as with grep -v '^#'" if comment else found
    )


def _fields(count: int) -> str:
    return f"{count} field" + "s" * (count != 1)


def quoted(fields: list[str], separator: str) -> list[str]:
    """Return fields for writing, in quotes if necessary."""
    special = (separator, '"', "\n", "\r")
    whole = "\0".join(fields)
    found = [char for char in special if char in whole]
    if not found:
        return fields
    return [
        '"' + field.replace('"', '""') + '"' if any(char in field for char in found) else field
        for field in fields
    ]
