"""CSV and TSV records, by RFC 4180: fields, quotes, and lines told from records."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from lodcli.formats.lines import TO_UTF_8, LineReader
from lodcli.kernels.errors import InvalidDataError

# A field may hold as much; a quote that is never closed would else swallow the file.
MOST_FIELD_BYTES = 16 << 20
csv.field_size_limit(MOST_FIELD_BYTES)


class Records:
    """The records of an input, block by block.

    Args:
        reader: of its lines.
        separator: between fields: "," or a tab.
    """

    def __init__(self, reader: LineReader, separator: str) -> None:
        self._reader = reader
        self._separator = separator
        self._line = 0

    def restart(self) -> None:
        """Go back to the beginning."""
        self._reader.restart()
        self._line = 0

    def first_two(self) -> tuple[list[str] | None, list[str] | None]:
        """Return the first two records, which `blocks` yields again; None where there is none."""
        lines = self._reader.peek(1 << 16)
        size = 1 << 16
        while lines and self._open(b"".join(lines)) and size < MOST_FIELD_BYTES:
            more = self._reader.peek(size)
            if not more:
                break
            lines, size = lines + more, 2 * size
        found = self._parsed(b"".join(lines), 1)
        return (found[0][1] if found else None), (found[1][1] if len(found) > 1 else None)

    def _open(self, block: bytes) -> bool:
        """Return whether a block ends inside of quotes: they come in pairs."""
        return block.count(b'"') % 2 == 1

    def blocks(self, limit_bytes: int) -> Iterator[list[tuple[int, list[str]]]]:
        """Yield records, each with the number of the line where it begins."""
        while block := self._reader.block(limit_bytes):
            while self._open(block):
                more = self._reader.block(1)
                if not more or len(block) > limit_bytes + MOST_FIELD_BYTES:
                    break
                block += more
            first = self._line + 1
            self._line += block.count(b"\n")
            yield self._parsed(block, first)

    def _parsed(self, block: bytes, first: int) -> list[tuple[int, list[str]]]:
        try:
            text = block.decode()
        except UnicodeDecodeError as error:
            line = first + block.count(b"\n", 0, error.start)
            raise InvalidDataError(
                f"line {line}: is not UTF-8 (byte {block[error.start]:#04x}); {TO_UTF_8}"
            ) from None
        if "\0" in text:
            line = first + text.count("\n", 0, text.index("\0"))
            raise InvalidDataError(f"line {line}: holds NUL: this is no text but binary data")
        if '"' not in text:
            # "\r" alone ends no line; splitlines would part at more than "\n".
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
            raise InvalidDataError(
                f"line {begins}: is no record ({error}); a field with quotes, separators or line "
                f'ends stands in quotes, its own quotes twice, as "a ""b"" c"'
            ) from None
        return found


def quoted(field: str, separator: str) -> str:
    """Return a field as it is written: in quotes where it must be."""
    if any(char in field for char in (separator, '"', "\n", "\r")):
        return '"' + field.replace('"', '""') + '"'
    return field
