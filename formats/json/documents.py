"""json: one array of items, or values one after another, on any number of lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from lodcli.formats.core.errors import FETCH_AGAIN
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.formats.core.schema import Batch, Schema
from lodcli.formats.json.jsonl import JsonLines, JsonSource
from lodcli.formats.json.python_reader import (
    RECORD_SEPARATOR,
    WITHOUT_SEPARATORS,
    placed,
    placing,
)
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.text.derived import Derived
from lodcli.formats.text.lines import BYTE_ORDER_MARK
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.options import option

_BLANKS = b" \t\r\n" + RECORD_SEPARATOR
_BETWEEN = np.frombuffer(_BLANKS, np.uint8)


class JsonDocument(JsonLines):
    """The items of jsonl in one array, or one after another, on any number of lines.

    If a file begins with `[`, it is one array, whose elements are the items; otherwise every value
    is an item; objects may follow the separators of RFC 7464. Everything else is as in jsonl.

    Writing: an array, one item per line.
    """

    name = "json"
    record = "value"

    def open(self, source: Input, options: ReadOptions) -> Source:
        return _DocumentSource(source, options)

    def write(
        self, output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
    ) -> None:
        array = _Array(output)
        super().write(array, schema, batches, options)  # type: ignore[arg-type]
        array.close()


class _Array:
    """An output of lines that become the elements of an array."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._before = b"[\n"

    def write(self, lines: bytes | memoryview) -> None:
        if lines:  # no line end is within a value
            self._output.write(self._before + bytes(lines[:-1]).replace(b"\n", b",\n"))
            self._before = b",\n"

    def close(self) -> None:
        self._output.write(b"[]\n" if self._before == b"[\n" else b"\n]\n")


class _DocumentSource(JsonSource):
    """A document as lines; messages count its values."""

    def __init__(self, source: Input, options: ReadOptions) -> None:
        with placing(_value):
            super().__init__(source, options, _Values)
        self.left_out = {name: placed(error, _value) for name, error in self.left_out.items()}

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        with placing(_value):
            yield from super().batches_of(names, limit_bytes)


def _value(number: int) -> str:
    return f"value {number}"


class _Values(Derived):
    """The values of a document, one per line."""

    def _begin(self) -> None:
        self._first = b""  # byte of the document
        self._separated = False  # whether a separator is before it
        self._place = self._depth = 0
        self._begun = self._ended = False  # the elements of the array
        self._quoted = self._escaped = False

    def _next(self, block: bytes) -> bytes:
        if not block:
            return self._end()
        self._place += len(block)
        if not self._first:
            found = block.removeprefix(BYTE_ORDER_MARK).lstrip(_BLANKS)
            self._separated |= RECORD_SEPARATOR in block.removesuffix(found)
            block, self._first = found, found[:1]
            if self._separated and self._first not in (b"", b"{"):
                raise InvalidDataError(f"{WITHOUT_SEPARATORS}, and give {option('from', 'jsonl')}")
        if not block or self._first not in (b"[", b"{"):
            return block
        text = np.frombuffer(block, np.uint8).copy()
        outside = self._outside_of_strings(text)
        opens = outside & ((text == ord("[")) | (text == ord("{")))
        closes = outside & ((text == ord("]")) | (text == ord("}")))
        depth = self._depth + np.cumsum(opens.astype(np.int64) - closes)
        starts, self._depth = self._depth == 0, int(depth[-1])
        text[outside & ((text == ord("\n")) | (text == ord("\r")))] = ord(" ")
        if self._first == b"[":
            if starts and not self._ended:  # skip the opening bracket
                text, outside, depth = text[1:], outside[1:], depth[1:]
            return self._elements(text, outside, depth)
        # Between values, not within one.
        kept = (depth > 0) | ~outside | ~np.isin(text, _BETWEEN)
        ends = np.cumsum(kept)[closes & (depth == 0)]
        return np.insert(text[kept], ends, ord("\n")).tobytes()

    def _elements(self, text: Array, outside: Array, depth: Array) -> bytes:
        """Return the elements of the array in a block, each but the last with its line end."""
        text[outside & (text == ord(",")) & (depth == 1)] = ord("\n")
        closed = np.flatnonzero(outside & (depth <= 0))
        end = 0 if self._ended else int(closed[0]) if closed.size else len(text)
        found, behind = text[:end].tobytes(), text[end:].tobytes()
        if not self._begun:
            found = found.lstrip(b" \t")
            self._begun = bool(found)
        if not self._ended and behind:
            self._ended = behind.startswith(b"]")
            behind = behind.removeprefix(b"]")
            found += b"\n" * self._begun
        if behind.strip(b" \t\n"):
            place = self._place - len(behind.lstrip(b" \t"))
            raise InvalidDataError(
                f"byte {place}: the array ends here; for one value per line use "
                f"{option('from', 'jsonl')}"
            )
        return found

    def _end(self) -> bytes:
        if self._first == b"[" and not self._ended:
            raise InvalidDataError(f"ends before its array does; it is truncated{FETCH_AGAIN}")
        if not self._first:
            raise InvalidDataError("is blank; expected a JSON document")
        return b""

    def _outside_of_strings(self, text: Array) -> Array:
        """Return which bytes of the next block are outside of strings and their quotes."""
        quotes = text == ord('"')
        slashes = np.flatnonzero(text == ord("\\"))
        if self._escaped and not (slashes.size and slashes[0] == 0):
            quotes[0] = False
        if slashes.size:
            gaps = np.diff(slashes) != 1
            begins = slashes[np.append(True, gaps)]
            behind = slashes[np.append(gaps, True)] + 1
            odd = (behind - begins) % 2 == 1
            if begins[0] == 0:
                odd[0] ^= self._escaped
            escaped = behind[odd]
            self._escaped = bool(escaped.size) and int(escaped[-1]) == len(text)
            quotes[escaped[escaped < len(text)]] = False
        else:
            self._escaped = False
        inside = (self._quoted + np.cumsum(quotes)) % 2 == 1
        self._quoted = bool(inside[-1])
        outside: Array = ~(inside | quotes)
        return outside
