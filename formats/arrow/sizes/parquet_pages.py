"""Decoded size of the columns of Parquet row groups, before pyarrow decodes them.

The sizes declared in a footer are not an upper bound: a dictionary index may represent any text,
and a run any number of values. Page headers give the number of values of a page, and the
decompressor checks the decompressed size. Text in dictionaries or with prefixes (DELTA_BYTE_ARRAY)
is measured if its upper bound exceeds the limit.

https://github.com/apache/parquet-format
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lodcli.formats.arrow.files import Bytes
from lodcli.formats.arrow.sizes import parquet_statistics
from lodcli.formats.arrow.sizes.parquet_runs import delta_sum, dictionary_lengths, indexed_sum
from lodcli.formats.arrow.sizes.thrift import BINARY, BOOL, I32, I64, Fields, Reader, ThriftError
from lodcli.formats.choosing.choice import ValueRange
from lodcli.formats.core.bounds import Bounds
from lodcli.kernels.index.checks import Array
from lodcli.kernels.runtime.dispatch import on

_STATISTICS = {
    parquet_statistics.NULL_COUNT: I64,
    **dict.fromkeys(parquet_statistics.FIELDS, BINARY),
}
_META = {1: I32, 4: I32, 5: I64, 6: I64, 7: I64, 9: I64, 11: I64, 12: _STATISTICS}
# Field 8 exists if a column chunk is encrypted, with a separate key or that of the footer.
# Field 6 is the writer; 7 has field 1 for each column whose statistics are in the type's order.
_FOOTER = {4: [{1: [{1: BINARY, 3: _META, 8: {}}], 3: I64}], 6: BINARY, 7: [{1: {}}]}
_PAGE = {
    1: I32,
    2: I32,
    3: I32,
    5: {1: I32, 2: I32, 3: I32, 4: I32},
    7: {1: I32},
    8: {1: I32, 2: I32, 4: I32, 5: I32, 6: I32, 7: BOOL},
}
_BYTE_ARRAY, _FIXED_BYTES = 6, 7
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_NARROW = {"INT_8": 1, "UINT_8": 1, "INT_16": 2, "UINT_16": 2}
_DICTIONARY_CODES, _PREFIXES = (2, 8), 7
_RLE = 3
_CODECS = {1: "snappy", 2: "gzip", 4: "brotli", 5: "lz4_raw", 6: "zstd", 7: "lz4_raw"}
_HADOOP_LZ4 = 5
# Size of a page header: the first read, as most are far smaller, and the limit of pyarrow.
_HEADER_BYTES, _MOST_HEADER_BYTES = 1 << 10, 16 << 20
# Times the mean length of the words of a dictionary that the longest may have, for an estimate
# from the mean.
_LIKE_LENGTHS = 4


class Page(NamedTuple):
    """A page: its header, and the position of its body.

    Attributes:
        start: position of the body in the file.
        stored: bytes of the body.
        size: decompressed bytes.
        values: number of values, including nulls and empty lists.
        encoding: of the values.
        levels: version 2: bytes of the uncompressed levels before the values; else None.
        compressed: whether it is compressed, if the column is.
        is_dictionary: whether it is the dictionary of the following pages.
        level_encodings: version 1: encodings of repetition and definition levels.
    """

    start: int
    stored: int
    size: int
    values: int
    encoding: int
    levels: int | None = None
    compressed: bool = True
    is_dictionary: bool = False
    level_encodings: tuple[int, int] = (_RLE, _RLE)


def footer(data: Bytes, fields: Fields) -> dict[int, Any]:
    """Return fields of the footer of a file, the structure FileMetaData.

    Raises:
        ThriftError: it is damaged.
    """
    size = int.from_bytes(data[-8:-4], "little")
    return Reader(bytes(data[max(0, len(data) - 8 - size) : len(data) - 8])).struct(fields)


class Pages:
    """The pages of a file.

    Attributes:
        writer: the program that wrote the file.
        encrypted: the numbers of the columns whose pages are encrypted.

    Raises:
        ThriftError: the footer is damaged.
    """

    def __init__(self, data: Bytes, schema: pq.ParquetSchema) -> None:
        self._data = data
        self._schema = schema
        about = footer(data, _FOOTER)
        groups = about.get(4, [])
        self._groups = [[chunk.get(3, {}) for chunk in group.get(1, [])] for group in groups]
        self.encrypted = {
            leaf for group in groups for leaf, chunk in enumerate(group.get(1, [])) if 8 in chunk
        }
        self.writer = about.get(6, b"")
        self._trusted = not parquet_statistics.are_wrong(self.writer)
        self._orders = about.get(7, [])
        # Of the row group read last: commands first read the columns that decide on others.
        self._latest: tuple[tuple[int, Bounds] | None, dict[int, Column]] = (None, {})

    def values(self, group: int, leaf: int) -> int:
        """Return the number of values of a column in a row group, from the footer."""
        return int(self._groups[group][leaf].get(5, 0))

    def may_be_null(self, leaf: int, kind: pa.DataType) -> bool:
        """Return whether a column may have nulls, from the footer."""
        column = self._schema.column(leaf)
        return any(
            parquet_statistics.null_count(statistics, kind, column) != 0
            for statistics in self._statistics(leaf)
        )

    def _statistics(self, leaf: int) -> list[dict[int, Any]]:
        """Return the statistics of a column in each row group, without those that may be wrong."""
        return [group[leaf].get(12, {}) if self._trusted else {} for group in self._groups]

    def size(self, leaf: int) -> int:
        """Return the decompressed bytes of a column in all row groups, from the footer."""
        return sum(group[leaf].get(6, 0) for group in self._groups)

    def ranges(self, leaf: int, kind: pa.DataType) -> list[ValueRange]:
        """Return the ranges of the values of a column in the row groups, from the footer."""
        column = self._schema.column(leaf)
        decode = parquet_statistics.decoder(kind, column, self.writer)
        ordered = leaf < len(self._orders) and 1 in self._orders[leaf]
        signed = parquet_statistics.in_signed_order(kind, column)
        return [
            parquet_statistics.value_range(
                statistics,
                decode,
                ordered=ordered,
                signed=signed,
                values=group[leaf].get(5, 0),
                nulls=parquet_statistics.null_count(statistics, kind, column),
            )
            for group, statistics in zip(self._groups, self._statistics(leaf), strict=True)
        ]

    def estimate(self, group: int, leaves: list[int], bounds: Bounds) -> int:
        """Return the approximate decoded bytes of the columns of a row group.

        Raises:
            TooLargeError: they exceed the bounds.
            ThriftError: a page header is damaged.
        """
        found = [self.column(group, leaf, bounds) for leaf in leaves]
        most = sum(column.most for column in found)
        estimate = sum(column.estimate for column in found)
        if not bounds.allows_block(most):
            texts = (column for column in found if column.is_text)
            # Largest first: its measured size may decide the result.
            for column in sorted(texts, key=lambda column: -column.most):
                most -= column.most
                # The lengths of words are read sooner than the places where these are. But with
                # some far longer than most, the estimate is wrong if values are often long.
                longest = column.of_longest_words()
                like = longest <= _LIKE_LENGTHS * max(1, column.estimate)
                if like and bounds.allows_block(most + longest):
                    most += longest
                    break
                measured = column.measured()
                most += measured
                # Words of very different lengths: their mean would be far off, and batches tiny.
                estimate += max(measured, column.values) - column.estimate
                if bounds.allows_block(most):
                    break
            bounds.check_block(most, f"row group {group} comes to")
        return estimate

    def column(self, group: int, leaf: int, bounds: Bounds) -> Column:
        """Return one column of a row group. Raises as `estimate` does, but for single pages."""
        latest, columns = self._latest
        if latest != (group, bounds):
            columns = {}
            # Immediately, since a thread may request another row group.
            self._latest = (group, bounds), columns
        found = columns.get(leaf)
        if found is None:
            meta = self._groups[group][leaf]
            found = columns[leaf] = Column(self._data, meta, self._schema, leaf, bounds)
        return found


class Column:
    """One column of a row group.

    Attributes:
        most: upper bound of its decoded bytes.
        estimate: approximate decoded bytes.
        values: how many values and words of dictionaries it has.
        is_text: whether its values are text or bytes of any length.
    """

    def __init__(
        self, data: Bytes, meta: dict[int, Any], schema: Any, leaf: int, bounds: Bounds
    ) -> None:
        self._data = data
        self._codec = meta.get(4, 0)
        self._kind = meta.get(1, 0)
        self._about = schema.column(leaf)
        self._pages = list(_pages(data, meta))
        for page in self._pages:
            bounds.check_block(page.size, f"a page of column {self._about.path} decompresses to")
        self.values = sum(page.values for page in self._pages)
        self.is_text = self._kind == _BYTE_ARRAY
        if self.is_text:  # each value takes an offset, each word a pointer and a size
            values = sum(page.values * (2 if page.is_dictionary else 1) for page in self._pages)
            bounds.check_block(8 * values, f"column {self._about.path} has offsets of")
        self.most = sum(map(self._most, self._pages))
        self.estimate = sum(map(self._estimate, self._pages))

    @property
    def _width(self) -> int | None:
        """Bytes of a value; None for text."""
        if self._kind == _FIXED_BYTES:
            return int(self._about.length)
        narrow: int | None = _NARROW.get(self._about.converted_type)
        return narrow or _WIDTHS.get(self._kind)

    def _most(self, page: Page) -> int:
        if page.is_dictionary:
            return 0
        if not self.is_text:
            return page.values * (self._width or 0)
        if page.encoding in _DICTIONARY_CODES:
            return page.values * self._dictionary_bytes
        return page.values * page.size if page.encoding == _PREFIXES else page.size

    def _estimate(self, page: Page) -> int:
        if not self.is_text:
            width = _WIDTHS.get(self._kind, self._width or 0)  # 8 and 16 bits are decoded as 32
            return 0 if page.is_dictionary else page.values * width
        if page.encoding in _DICTIONARY_CODES:
            words = sum(page.values for page in self._pages if page.is_dictionary)
            return (
                0 if page.is_dictionary else page.values * self._dictionary_bytes // max(1, words)
            )
        return min(self._most(page), max(page.size, page.values))

    @property
    def _dictionary_bytes(self) -> int:
        return sum(page.size for page in self._pages if page.is_dictionary)

    def of_longest_words(self) -> int:
        """Return a closer upper bound of the bytes of text, of which dictionaries are read."""
        longest = total = 0
        for page in self._pages:
            if page.is_dictionary:
                lengths = self._word_lengths(page)
                longest = int(lengths.max(initial=0))
            elif page.encoding in _DICTIONARY_CODES:
                total += page.values * longest
            else:
                total += self._most(page)
        return total

    def measured(self) -> int:
        """Return the decoded bytes of text, the sum of its lengths."""
        lengths = np.zeros(0, np.int64)
        total = 0
        for page in self._pages:
            if page.is_dictionary:
                lengths = self._word_lengths(page)
            elif page.encoding in _DICTIONARY_CODES:
                total += indexed_sum(self._values_of(page), lengths, page.values)
            elif page.encoding == _PREFIXES:
                total += page.size + delta_sum(self._values_of(page))
            else:
                total += page.size
        return total

    def _word_lengths(self, page: Page) -> Array:
        """Return the length of each word of a dictionary."""
        body = self._decompressed(page)
        return on("auto", dictionary_lengths, size_bytes=len(body))(body, page.values)

    def _values_of(self, page: Page) -> bytes:
        """Return the body of a data page after its levels."""
        body = self._decompressed(page)
        if page.levels is not None:
            return body
        at = 0
        most = (self._about.max_repetition_level, self._about.max_definition_level)
        for level, encoding in zip(most, page.level_encodings, strict=True):
            if level and encoding == _RLE:
                at += 4 + int.from_bytes(body[at : at + 4], "little")
            elif level:  # BIT_PACKED, which is deprecated
                at += (page.values * int(level).bit_length() + 7) // 8
        return body[at:]

    def _decompressed(self, page: Page) -> bytes:
        """Return the body of a page; for version 2, the part after the levels."""
        skip = page.levels or 0
        stored = bytes(self._data[page.start + skip : page.start + page.stored])
        size = page.size - skip
        if not page.compressed or self._codec not in _CODECS or size <= 0:
            return stored
        codec = pa.Codec(_CODECS[self._codec])
        if self._codec == _HADOOP_LZ4 and (blocks := _hadoop_blocks(stored)):
            return b"".join(codec.decompress(block, many, asbytes=True) for many, block in blocks)
        found: bytes = codec.decompress(stored, size, asbytes=True)
        return found


def _hadoop_blocks(stored: bytes) -> list[tuple[int, bytes]]:
    """Return LZ4 blocks in Hadoop's framing, with their decompressed sizes; none without it."""
    found, at = [], 0
    while at + 8 <= len(stored):
        many, size = (int.from_bytes(stored[at + n : at + n + 4], "big") for n in (0, 4))
        if size > len(stored) - at - 8:
            return []
        found.append((many, stored[at + 8 : at + 8 + size]))
        at += 8 + size
    return found if at == len(stored) else []


def _header(data: Bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return the header of a page, and the position of its end."""
    with suppress(ThriftError):
        reader = Reader(data[at : at + _HEADER_BYTES])
        return reader.struct(_PAGE), at + reader.at
    reader = Reader(data[at : at + _MOST_HEADER_BYTES])
    return reader.struct(_PAGE), at + reader.at


def _pages(data: Bytes, meta: dict[int, Any]) -> Iterator[Page]:
    """Yield the pages of a column of a row group, until they have all its values."""
    at = meta.get(9, 0)
    if 0 < meta.get(11, 0) < at:
        at = meta[11]
    left = total = meta.get(5, 0)
    while left > 0 and 0 <= at < len(data):
        try:
            header, start = _header(data, at)
        except ThriftError as error:
            raise ThriftError(
                f"expected pages of {total} values, found {total - left} and no page after them "
                f"({error})"
            ) from None
        stored, size = header.get(3, 0), header.get(2, 0)
        at = start + stored
        if stored < 0 or size < 0 or at > len(data):
            raise ThriftError(f"a page of {size if size < 0 else stored} bytes")
        if (about := header.get(5)) is not None:
            codes = about.get(4, _RLE), about.get(3, _RLE)
            left -= about.get(1, 0)
            yield Page(start, stored, size, about.get(1, 0), about.get(2, 0), level_encodings=codes)
        elif (about := header.get(8)) is not None:
            left -= about.get(1, 0)
            levels = about.get(5, 0) + about.get(6, 0)
            values, encoding = about.get(1, 0), about.get(4, 0)
            yield Page(start, stored, size, values, encoding, levels, about.get(7, True))
        elif (about := header.get(7)) is not None:
            yield Page(start, stored, size, about.get(1, 0), 0, is_dictionary=True)
