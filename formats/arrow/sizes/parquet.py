"""Parquet files, row group by row group."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

from lodcli.formats.arrays.budget import require_fits
from lodcli.formats.arrow.files import (
    File,
    Found,
    Records,
    Wanted,
    damage,
    opened,
    pieces,
    validate,
)
from lodcli.formats.arrow.layout import plain_type
from lodcli.formats.arrow.sizes.buffers import inner_types
from lodcli.formats.arrow.sizes.parquet_pages import Pages, footer
from lodcli.formats.arrow.sizes.thrift import BINARY, I32, ThriftError
from lodcli.formats.choosing.choice import ValueRange
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.losses import MOST_SHOWN
from lodcli.formats.core.names import listing, name_of, shown
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.prefetch import LEAST_BYTES, ahead
from lodcli.kernels.errors import LodError, UnsupportedError

# Maximum size of a piece. pyarrow needs several times as much to decode it, and the next piece is
# prefetched.
MOST_DECODED_BYTES = 2 << 20
# Copies of a large record in memory while it is decoded: measured with one list of 10^8 numbers.
_DECODED_COPIES = 5
_READ_BYTES = 64 << 10  # of each column; else pyarrow reads a row group at once
# Limit of 64-bit nanoseconds, in milliseconds.
_MOST_MS = 2**63 // 10**6
_FAR = (
    "timestamps of 96 bits are read in microseconds, because some lie outside of the years 1677 to "
    "2262 that nanoseconds hold"
)
_INFINITE = (
    "infinity of DuckDB is read as the last time of the type, and -infinity as the first; to get "
    "nulls, write CASE WHEN isfinite(t) THEN t END there"
)
_NO_KEYS = "and lod cannot decrypt it"
ENCRYPTED = f"is encrypted, {_NO_KEYS}; write it again without encryption"
# Fields of the footer: for each SchemaElement type_length, name, num_children and logicalType.
_SCHEMA = {2: [{2: I32, 4: BINARY, 5: I32, 10: {}}]}
# Limit of pyarrow on nested elements of a schema, without the root. A list takes two.
_MOST_NESTED = 99


class ParquetRecords(Records):
    """A Parquet file."""

    count: int

    def __init__(self, source: Input) -> None:
        self.bounds = source.bounds
        with damage():
            data = File(source)
            self._file = _file(data)
            self.schema = self._file.schema_arrow
            self._groups = self._file.metadata
            self._rows = self._checked_groups()
            self.parts = np.cumsum([0, *self._rows])
            self.count = sum(self._rows)
            self._pages = Pages(data, self._groups.schema)
            self._leaves = _leaves(self.schema, self._groups.num_columns)
            self.refused = self._encrypted() | self._of_no_values()
            # Cached by column: each field of a struct needs the footer's entry.
            self._nullable: dict[str, bool] = {}
            self._ratios: dict[str, set[tuple[int, ...]]] = {}
            if self._has_far_times(data):
                self._file = _file(data, "us")
                self.schema = self._file.schema_arrow
                self.notes = [_FAR]
            fields = [
                one for each in self.schema for one in _values(each.type, (name_of(each.name),))
            ]
            # Of the leaf columns: the type of each, and the number of the first with a path.
            self._kinds = [kind for _, kind in fields]
            self._numbers = {path: leaf for leaf, (path, _) in [*enumerate(fields)][::-1]}

    def _encrypted(self) -> dict[str, LodError]:
        """Return the error for each encrypted column."""
        return {
            name: UnsupportedError(f"column {shown(name)}: is encrypted, {_NO_KEYS}")
            for name, leaves in self._leaves.items()
            if self._pages.encrypted.intersection(leaves)
        }

    def _of_no_values(self) -> dict[str, LodError]:
        """Return the error for each column with lists of the fixed size 0.

        pyarrow writes them as lists of one item each, which it cannot read.
        """
        return {
            field.name: UnsupportedError(
                f"column {shown(field.name)}: holds lists of the fixed size 0, which pyarrow "
                f"writes to Parquet and cannot read"
            )
            for field in self.schema
            if _has_no_values(field.type)
        }

    def _has_far_times(self, data: File) -> bool:
        """Return whether a 96-bit timestamp does not fit into 64 bits as nanoseconds.

        pyarrow would silently overflow. All columns of such timestamps are read for this.
        """
        kinds = [
            self._groups.schema.column(n).physical_type for n in range(len(self._groups.schema))
        ]
        columns = [
            name
            for name, leaves in self._leaves.items()
            if name not in self.refused and any(kinds[leaf] == "INT96" for leaf in leaves)
        ]
        if not columns:
            return False
        nanoseconds, self._file = self._file, _file(data, "ms")
        for group in range(len(self._rows)):
            for _, part in self._group(group, columns, BATCH_BYTES):
                if any(_are_far(column) for column in part.columns):
                    return True
        self._file = nanoseconds
        return False

    def _checked_groups(self) -> list[int]:
        """Return the number of records of each row group.

        Raises:
            DamagedFileError: a group has another number of columns (pyarrow crashes if there are
                fewer); or the footer states another total, except 0, which some writers leave.
        """
        rows = []
        for number in range(self._groups.num_row_groups):
            group = self._groups.row_group(number)
            if group.num_columns != self._groups.num_columns:
                raise DamagedFileError(
                    f"row group {number}: expected {self._groups.num_columns} columns, "
                    f"found {group.num_columns}"
                )
            rows.append(group.num_rows)
        if self._groups.num_rows not in (0, sum(rows)):
            raise DamagedFileError(
                f"expected {self._groups.num_rows} records, the row groups have {sum(rows)}"
            )
        return rows

    def batches(self, wanted: Wanted) -> Iterator[Found]:
        return ahead(self._decoded(wanted), self.size(wanted.names))

    def _decoded(self, wanted: Wanted) -> Iterator[Found]:
        with damage():
            first = 0
            for group, count in enumerate(self._rows):
                if wanted.stop is not None and first >= wanted.stop:
                    return
                if first + count > wanted.start:
                    skipped = max(0, wanted.start - first)
                    parts = self._group(group, wanted.names, wanted.limit_bytes, skipped)
                    for place, part in parts:
                        yield first + place, part
                first += count

    def _group(
        self, group: int, columns: Sequence[str], limit_bytes: int, skipped: int = 0
    ) -> Iterator[Found]:
        """Yield the records of a row group, perhaps without the first ones, `skipped` or fewer."""
        leaves = [leaf for name in columns for leaf in self._leaves[name]]
        size = max(1, self._pages.estimate(group, leaves, self.bounds))
        rows = self._rows[group]
        what = f"{'the' if rows == 1 else 'an average'} record of row group {group}"
        require_fits(what, size // max(1, rows), _DECODED_COPIES, whole=rows == 1)
        limit_bytes = min(limit_bytes, MOST_DECODED_BYTES)
        step = max(1, min(rows, rows * limit_bytes // size))
        first = 0
        threads = size >= LEAST_BYTES  # handing columns to threads takes time too
        for batch in self._file.iter_batches(step, [group], columns, use_threads=threads):
            if first + batch.num_rows > skipped:
                validate(batch)
                for place, part in pieces(batch, batch.nbytes, 2 * limit_bytes):
                    yield first + place, part
            first += batch.num_rows
        if first != rows:
            raise DamagedFileError(f"row group {group}: expected {rows} records, found {first}")

    def may_share(self, one: str, other: str) -> bool:
        return self._proportions(one) & self._proportions(other) != set()

    def may_be_null(self, column: str) -> bool:
        if column not in self._nullable:
            # Not from pyarrow, which aborts if the type of a column differs from the schema.
            self._nullable[column] = any(
                self._pages.may_be_null(leaf, self._kinds[leaf])
                for leaf in self._leaves[column]
                if not self._groups.schema.column(leaf).max_repetition_level
            )
        return self._nullable[column]

    def ranges(self, path: tuple[str, ...]) -> Sequence[ValueRange] | None:
        leaf = self._numbers.get(path)  # the tensor that marks null records is not a column
        return None if leaf is None else self._pages.ranges(leaf, self._kinds[leaf])

    def note(self, path: tuple[str, ...]) -> str:
        """See Records. DuckDB stores infinity as the greatest number, -infinity as its negative."""
        leaf = self._numbers.get(path)
        if leaf is None or not self._pages.writer.startswith(b"DuckDB"):
            return ""
        kind = self._kinds[leaf]
        if not types.is_timestamp(kind) and not types.is_date32(kind):
            return ""
        most = 2**31 - 1 if types.is_date32(kind) else 2**63 - 1
        infinite = any(one.low == -most or one.high == most for one in self.ranges(path) or ())
        return _INFINITE if infinite else ""

    def size(self, columns: Sequence[str]) -> int:
        return sum(self._pages.size(leaf) for name in columns for leaf in self._leaves[name])

    def _proportions(self, column: str) -> set[tuple[int, ...]]:
        """Return the ratios of the value counts of the row groups, for each leaf.

        Columns with equal lists have equal ratios, independent of their row shapes.
        """
        if column not in self._ratios:
            found = self._ratios[column] = set()
            for leaf in self._leaves[column]:
                values = [self._pages.values(group, leaf) for group in range(len(self._rows))]
                found.add(tuple(value // (math.gcd(*values) or 1) for value in values))
        return self._ratios[column]


def _file(data: File, unit: str | None = None) -> pq.ParquetFile:
    """Return a file, with 96-bit timestamps in this unit; None: nanoseconds."""
    try:
        return pq.ParquetFile(
            opened(data),
            buffer_size=_READ_BYTES,
            pre_buffer=False,
            page_checksum_verification=True,
            coerce_int96_timestamp_unit=unit,
        )
    except pa.ArrowNotImplementedError as error:
        _refuse_wide(data, error)
        raise
    except OSError as error:
        _refuse_deep(data, error)
        raise


def _are_far(array: Any) -> bool:
    """Return whether a time in milliseconds, in any field or list, overflows as nanoseconds."""
    kind = array.type
    if types.is_timestamp(kind):
        import pyarrow.compute as pc  # slow to import

        low, high = pc.min_max(array.cast(pa.int64())).as_py().values()
        return low is not None and (low < -_MOST_MS or high >= _MOST_MS)
    if types.is_map(kind):
        return _are_far(array.keys) or _are_far(array.items)
    if types.is_struct(kind):
        return any(map(_are_far, array.flatten()))
    return types.is_nested(kind) and _are_far(array.flatten())


def _has_no_values(kind: pa.DataType) -> bool:
    """Return whether a type contains lists of the fixed size 0."""
    kind = plain_type(kind)
    if types.is_fixed_size_list(kind) and not kind.list_size:
        return True
    return any(map(_has_no_values, inner_types(kind)))


def _refuse_wide(data: File, error: Exception) -> None:
    """Raise UnsupportedError with the columns that may hold integers of 128 bits.

    Polars writes them as 16 bytes without a logical type. pyarrow then reads no column, and its
    error names none.
    """
    if "64 bits" not in str(error):
        return
    with suppress(ThriftError):
        elements = footer(data, _SCHEMA)[2]
        names = [one[4] for one in elements if 4 in one and one.get(2) == 16 and 10 not in one]
        names = [str(name, "utf-8", "replace") for name in names]
        if names:
            raise UnsupportedError(
                f"column {', '.join(names)}: holds integers of 128 bits, which tensors cannot "
                "hold; cast it to Int64, or leave it out, when you write the file"
            ) from None


def _refuse_deep(data: File, error: Exception) -> None:
    """Raise UnsupportedError with the columns that are nested deeper than pyarrow reads.

    It then reads no column, and its error names none.
    """
    if "too deeply nested" not in str(error):
        return
    with suppress(ThriftError):
        root, *elements = footer(data, _SCHEMA)[2]
        names: dict[str, None] = {}
        # How many elements are still to come at each depth, from those below the root.
        left = [root.get(5, 0)]
        for one in elements:
            if len(left) == 1:
                column = str(one.get(4, b""), "utf-8", "replace")
            if len(left) > _MOST_NESTED:
                names[column] = None
            left[-1] -= 1
            left.append(one.get(5, 0))
            while len(left) > 1 and left[-1] <= 0:
                left.pop()
        if names:
            raise UnsupportedError(
                f"column {listing(map(shown, names), MOST_SHOWN)}: nested deeper than is read from "
                f"Parquet, {_MOST_NESTED // 2} lists or {_MOST_NESTED - 1} structs; leave it out "
                "when you write the file"
            ) from None


def _leaves(schema: pa.Schema, count: int) -> dict[str, list[int]]:
    """Return the numbers of the leaf columns that each field is stored as.

    Raises:
        DamagedFileError: their total is not `count`.
    """
    found, first = {}, 0
    for field in schema:
        many = sum(1 for _ in _values(field.type, ()))
        found[field.name] = list(range(first, first + many))
        first += many
    if first != count:
        raise DamagedFileError(f"expected {count} columns of values, its schema has {first}")
    return found


def _values(
    kind: pa.DataType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yield the type of each leaf column of a type, with the path to it through structs."""
    kind = plain_type(kind)
    if types.is_map(kind):
        yield from _values(kind.key_type, (*path, "key"))
        yield from _values(kind.item_type, (*path, "value"))
    elif types.is_struct(kind):
        for field in kind:
            yield from _values(field.type, (*path, name_of(field.name)))
    elif types.is_nested(kind):
        for inner in inner_types(kind):
            yield from _values(inner, path)
    else:
        yield path, kind
