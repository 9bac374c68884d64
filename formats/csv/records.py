"""CSV and TSV records as in RFC 4180: fields, quotes, records over several lines."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterator

import numpy as np

from lodcli.formats.core.options import SEPARATORS
from lodcli.formats.text.lines import TO_UTF_8, LineReader, shown
from lodcli.kernels.errors import InvalidDataError

# Maximum size of a field: an unclosed quote would otherwise make the rest of the file one field.
MOST_FIELD_BYTES = 16 << 20
csv.field_size_limit(MOST_FIELD_BYTES)
_NAMES = {mark: name for name, mark in SEPARATORS.items()}


class Table:
    """Records as columns, all of one width.

    Args:
        numbers: of the line where each record begins.
        columns: the fields, one list per column.
    """

    def __init__(self, numbers: array[int], columns: list[list[str]]) -> None:
        self.numbers = numbers
        self.columns = columns

    @classmethod
    def empty(cls, width: int) -> Table:
        """Return a table without records."""
        return cls(array("q"), [[] for _ in range(width)])

    def __len__(self) -> int:
        return len(self.numbers)

    def extend(self, other: Table) -> None:
        """Append other records."""
        self.numbers.extend(other.numbers)
        for column, more in zip(self.columns, other.columns, strict=True):
            column.extend(more)

    def part(self, start: int, stop: int) -> Table:
        """Return some of the records."""
        return Table(self.numbers[start:stop], [column[start:stop] for column in self.columns])


class Records:
    """The records of an input, block by block.

    Args:
        reader: of its lines.
        separator: between fields: one character, such as "," or a tab.
    """

    def __init__(self, reader: LineReader, separator: str) -> None:
        self._reader = reader
        self._separator = separator
        self._blank: int | None = None

    def restart(self) -> None:
        """Go back to the beginning."""
        self._reader.restart()
        self._blank = None

    def first(self) -> list[tuple[int, list[str]]]:
        """Return the first records, about 64 KiB, with their lines; `blocks` yields them again."""
        lines = self._reader.peek(1 << 16)
        size = 1 << 16
        while lines and self._open(b"".join(lines)) and size < MOST_FIELD_BYTES:
            more = self._reader.peek(size)
            if not more:
                break
            lines, size = lines + more, 2 * size
        found = self._parsed(b"".join(lines), 1)
        return found[: _end(found, len(found[0][1]))] if found else found

    def _open(self, block: bytes) -> bool:
        """Return whether a block ends inside quotes, which come in pairs."""
        return block.count(b'"') % 2 == 1

    def blocks(self, limit_bytes: int, width: int) -> Iterator[Table]:
        """Yield the records after the first one.

        Args:
            limit_bytes: approximate size of the lines of a table.
            width: number of fields that each must have.
        """
        begun = False
        while True:
            first = self._reader.line + 1
            block = self._block(limit_bytes)
            if not block:
                return
            table = self._simple(block, first, width) or self._exact(block, first, width)
            yield table if begun else table.part(1, len(table))
            begun = True

    def _block(self, limit_bytes: int) -> bytes:
        """Return the next lines, without an open quote at their end if it closes later."""
        found = self._reader.block(limit_bytes)
        parts, size, is_open = [found], len(found), self._open(found)
        while is_open and size <= limit_bytes + MOST_FIELD_BYTES:
            more = self._reader.block(1)
            if not more:
                break
            parts.append(more)
            size += len(more)
            is_open ^= self._open(more)
        return b"".join(parts)

    def _simple(self, block: bytes, first: int, width: int) -> Table | None:
        """Return records without quotes, split all at once; None if that may be wrong."""
        if b'"' in block or b"\0" in block:
            return None
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n")
        if not block.endswith(b"\n"):
            block = block.removesuffix(b"\r") + b"\n"
        data = np.frombuffer(block, np.uint8)
        marks = data[(data == ord(self._separator)) | (data == ord("\n"))]
        if marks.size % width:
            return None
        ends = (marks == ord("\n")).reshape(-1, width)
        if not ends[:, -1].all() or ends[:, :-1].any():
            return None
        try:
            text = block.decode()
        except UnicodeDecodeError:
            return None
        fields = text.replace("\n", self._separator).split(self._separator)
        fields.pop()
        numbers = array("q", range(first, first + len(ends)))
        self._refuse_blank(width)
        return Table(numbers, [fields[column::width] for column in range(width)])

    def _exact(self, block: bytes, first: int, width: int) -> Table:
        """Return records that are parsed and checked one by one."""
        found = self._parsed(block, first)
        end = _end(found, width)
        if end:
            self._refuse_blank(width)
        if end < len(found) and self._blank is None:
            self._blank = found[end][0]  # an error if records follow
        found = found[:end]
        for number, record in found:
            if len(record) != width:
                raise InvalidDataError(f"line {number}: {wrong_width(record, width)}")
        numbers = array("q", (number for number, _ in found))
        if not found:
            return Table.empty(width)
        return Table(numbers, [list(column) for column in zip(*(r for _, r in found), strict=True)])

    def _refuse_blank(self, width: int) -> None:
        """Raise InvalidDataError if there were blank lines, before a record."""
        if self._blank is not None:
            raise InvalidDataError(f"line {self._blank}: {wrong_width([''], width)}")

    def _parsed(self, block: bytes, first: int) -> list[tuple[int, list[str]]]:
        if b"\0" in block:
            line = first + block.count(b"\n", 0, block.index(b"\0"))
            raise InvalidDataError(
                f"line {line}: holds NUL: this is binary data, not text, or UTF-16: then give "
                "--encoding utf-16"
            )
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            raise InvalidDataError(
                f"line {line}: is not UTF-8 (byte {block[error.start]:#04x}); {TO_UTF_8}"
            ) from None
        if '"' not in text:
            # "\r" alone is no line end; splitlines would split at other characters as well.
            lines = text.split("\n")
            if not lines[-1]:
                lines.pop()
            return [
                (number, line.removesuffix("\r").split(self._separator))
                for number, line in enumerate(lines, first)
            ]
        rows = csv.reader(
            (line + "\n" for line in text.removesuffix("\n").split("\n")),
            delimiter=self._separator,
            strict=True,
        )
        found: list[tuple[int, list[str]]] = []
        begins = first
        try:
            for row in rows:
                found.append((begins, row or [""]))
                begins = first + rows.line_num
        except csv.Error as error:
            lines = text.split("\n")
            if first == 1 and self._separator not in lines[0]:
                after, below = ('"', None) if begins == 1 else ("", lines[begins - 1])
                header = lines[0].removesuffix("\r")
                refuse_other_separators(header, self._separator, after=after, below=below)
            raise InvalidDataError(
                f"line {begins}: is not a record ({error}); put a field with quotes, separators or "
                f'line ends in quotes, and double the quotes in it, as "a ""b"" c"'
            ) from None
        return found


def _end(found: list[tuple[int, list[str]]], width: int) -> int:
    """Return the number of records before the blank lines at the end.

    If there is only one column, a blank line is a record.
    """
    end = len(found)
    while width > 1 and end and found[end - 1][1] == [""]:
        end -= 1
    return end


def refuse_other_separators(
    header: str, separator: str, *, after: str = "", below: str | None = None
) -> None:
    """Raise if a header without separators contains another one.

    Args:
        header: the line, or its only name.
        separator: the character between fields.
        after: what comes before a separator.
        below: the next record; if it lacks the other separator, the header is a single name.
    """
    # Names may contain spaces.
    marks = [mark for mark in _NAMES if after or mark != " "]
    other = next((mark for mark in marks if after + mark in header), None)
    if other is not None and other != separator and (below is None or other in below):
        raise InvalidDataError(
            f"line 1: has no {_NAMES.get(separator, separator)} but "
            f"{_NAMES[other]}s: {shown(header)}; give --separator {_NAMES[other]}"
        )


def wrong_width(record: list[str], width: int) -> str:
    """Return the message for a record with a wrong number of fields."""
    wanted = f"expected {_fields(width)}, as line 1 has"
    if record == [""]:
        return f"{wanted}, found a blank line; take it out"
    found = (
        f"{wanted}, found {_fields(len(record))}; a field that holds a separator stands in quotes"
    )
    comment = "line 1 is" if width == 1 else "this is" if record[0].startswith("#") else ""
    return (
        f"{found}; if {comment} a comment, take it out, as with grep -v '^#'" if comment else found
    )


def _fields(count: int) -> str:
    return f"{count} field" + "s" * (count != 1)


def quoted(field: str, separator: str) -> str:
    """Return a field for writing, in quotes if necessary."""
    if any(char in field for char in (separator, '"', "\n", "\r")):
        return '"' + field.replace('"', '""') + '"'
    return field
