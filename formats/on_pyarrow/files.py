"""The record batches of a file: mapped where it can be, so that they cost no memory."""

from __future__ import annotations

import math
import mmap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from lodcli.formats.ahead import ahead
from lodcli.formats.errors import DamagedFileError
from lodcli.formats.inputs import Input
from lodcli.kernels.errors import LodError, UnsupportedError

# A stream ends with a mark of its own; pyarrow takes one without it for whole.
NO_END = "the stream is truncated: it ends without its end mark"

# pyarrow takes several times as much to decode them, and one more such piece is read ahead.
MOST_DECODED_BYTES = 2 << 20

Found = tuple[int, pa.RecordBatch]


class Records(ABC):
    """A file of records.

    Attributes:
        schema: its columns.
        count: number of its records, or None while unknown.
        mapped: whether its arrays lie in the file as they are, so that reading them again
            costs nothing.
    """

    schema: pa.Schema
    count: int | None = None
    mapped: bool = False

    @abstractmethod
    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        """Yield record batches of about `limit_bytes`, each with the number of its first record.

        Args:
            columns: which.
            limit_bytes: of all of them; a single record may exceed it.
            start: a record; batches that end before it may be left out.
            check: whether to check them in full.
        """

    def may_share(self, one: str, other: str) -> bool:
        """Return whether two columns may have the same lists, as far as is known at once."""
        return True

    def close(self) -> None:  # noqa: B027 - a pipe has nothing to release
        """Release the file."""


class _Map:
    """A file mapped into memory, whose pages are let go of when they were used."""

    def __init__(self, source: Input) -> None:
        file = source.make_seekable()
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.buffer = pa.py_buffer(self._map)

    def holds(self, batch: pa.RecordBatch) -> bool:
        """Return whether the arrays of a batch lie in the map."""
        low, high = self.buffer.address, self.buffer.address + self.buffer.size
        buffers = [buffer for column in batch.columns for buffer in column.buffers()]
        return all(low <= buffer.address <= high for buffer in buffers if buffer is not None)

    def release(self) -> None:
        """Let go of the pages; those still in use come back from the system's cache."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)


class IpcFile(Records):
    """An Arrow IPC file (Feather version 2), or a stream in a file."""

    def __init__(self, source: Input, *, stream: bool) -> None:
        self._stream = stream
        with damage():
            self._map = _Map(source)
            self.schema = self._open(pa.BufferReader(self._map.buffer), None).schema
            self.mapped = all(self._map.holds(batch) for batch in self._first())

    def _open(self, file: pa.NativeFile, columns: Sequence[str] | None) -> pa.ipc.RecordBatchReader:
        chosen = None
        # What is not compressed is mapped whole; with a choice of columns it would be copied.
        if columns is not None and not self.mapped:
            chosen = [self.schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=chosen)
        reading = pa.ipc.open_stream if self._stream else pa.ipc.open_file
        return reading(file, options=options)

    def _first(self) -> Iterator[pa.RecordBatch]:
        for batch in self._all(None):
            if batch.num_rows:
                yield batch
                return

    def _all(self, columns: Sequence[str] | None) -> Iterator[pa.RecordBatch]:
        file = pa.BufferReader(self._map.buffer)
        reader = self._open(file, columns)
        if not self._stream:
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number)
            return
        place = file.tell()
        for batch in reader:
            yield batch
            place = file.tell()
        if file.tell() == place:
            raise DamagedFileError(NO_END)

    def counted(self) -> int:
        """Return how many records there are; of a stream, after reading all of their headers."""
        with damage():
            return sum(batch.num_rows for batch in self._all(None))

    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        first = 0
        with damage():
            for whole in self._all(columns):
                batch = whole.select(columns)
                if first + batch.num_rows > start:
                    if check:
                        batch.validate(full=True)
                    for place, part in pieces(batch, limit_bytes):
                        yield first + place, part
                        self._map.release()
                first += batch.num_rows


class IpcPipe(Records):
    """An Arrow IPC stream that comes through a pipe, once."""

    def __init__(self, source: Input) -> None:
        self._label = source.label
        self._begun = False
        with damage():
            self._ends = _Ends(source)
            self._reader = pa.ipc.open_stream(pa.PythonFile(self._ends, "r"))
            self.schema = self._reader.schema

    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        if self._begun:
            raise UnsupportedError(f"{self._label}: a pipe can be read only once; use a file")
        self._begun = True
        first = 0
        with damage():
            for batch in self._reader:
                chosen = batch.select(columns)
                chosen.validate(full=True)
                for place, part in pieces(chosen, limit_bytes):
                    yield first + place, part
                first += batch.num_rows
            if self._ends.reached:
                raise DamagedFileError(NO_END)


class _Ends:
    """A pipe that knows whether it was read beyond its end."""

    closed = False

    def __init__(self, source: Input) -> None:
        self._file = source.file
        self.reached = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        found = self._file.read(size)
        self.reached |= len(found) < size
        return found


class ParquetRecords(Records):
    """A Parquet file."""

    def __init__(self, source: Input) -> None:
        with damage():
            self._map = _Map(source)
            self._file = pq.ParquetFile(
                pa.BufferReader(self._map.buffer), page_checksum_verification=True
            )
            self.schema = self._file.schema_arrow
            self._groups = self._file.metadata
            self.count = self._groups.num_rows
            self._check_groups()
            paths = [self._groups.schema.column(n).path for n in range(self._groups.num_columns)]
            # A column's name may itself hold dots.
            self._leaves = {
                name: [n for n, path in enumerate(paths) if f"{path}.".startswith(f"{name}.")]
                for name in self.schema.names
            }

    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        return ahead(self._decoded(columns, limit_bytes, start))

    def _decoded(self, columns: Sequence[str], limit_bytes: int, start: int) -> Iterator[Found]:
        with damage():
            first = 0
            for group in range(self._groups.num_row_groups):
                count = self._groups.row_group(group).num_rows
                if first + count > start:
                    for place, part in self._group(group, columns, limit_bytes):
                        yield first + place, part
                        self._map.release()
                first += count

    def _check_groups(self) -> None:
        """Raise for a group of fewer columns: pyarrow looks for all of them and crashes."""
        records = 0
        for number in range(self._groups.num_row_groups):
            group = self._groups.row_group(number)
            if group.num_columns != self._groups.num_columns:
                raise DamagedFileError(
                    f"row group {number}: expected {self._groups.num_columns} columns, "
                    f"found {group.num_columns}"
                )
            records += group.num_rows
        if records != self.count:
            raise DamagedFileError(f"expected {self.count} records, the row groups have {records}")

    def _group(self, group: int, columns: Sequence[str], limit_bytes: int) -> Iterator[Found]:
        held = self._groups.row_group(group)
        # Of all columns; those of one column are out of reach, see _values.
        size = max(1, held.total_byte_size)
        limit_bytes = min(limit_bytes, MOST_DECODED_BYTES)
        step = max(1, min(held.num_rows, held.num_rows * limit_bytes // size))
        first = 0
        for batch in self._file.iter_batches(step, [group], columns):
            batch.validate(full=True)
            for place, part in pieces(batch, 2 * limit_bytes):
                yield first + place, part
            first += batch.num_rows
        if first != held.num_rows:
            raise DamagedFileError(
                f"row group {group}: expected {held.num_rows} records, found {first}"
            )

    def may_share(self, one: str, other: str) -> bool:
        return self._values(one) & self._values(other) != set()

    def _values(self, column: str) -> set[tuple[int, ...]]:
        """Return in what proportion to each other row groups have values, for each leaf.

        Where lists are the same, it is, whatever the shape of a row.
        """
        with damage():
            for number in range(self._groups.num_row_groups):
                # Damaged statistics end the process when a column's metadata is asked for from
                # Python; reading meets them first, and says so.
                next(self._file.iter_batches(1, [number], [column]), None)
        groups = [self._groups.row_group(n) for n in range(self._groups.num_row_groups)]
        found = set()
        for leaf in self._leaves[column]:
            values = [group.column(leaf).num_values for group in groups]
            found.add(tuple(value // (math.gcd(*values) or 1) for value in values))
        return found


def pieces(batch: pa.RecordBatch, limit_bytes: int) -> Iterator[Found]:
    """Yield a record batch in parts of about `limit_bytes`, were its records of equal size."""
    count = batch.num_rows
    step = max(1, count * limit_bytes // max(1, batch.nbytes))
    for start in range(0, count, step):
        yield start, batch.slice(start, step)


@contextmanager
def damage() -> Iterator[None]:
    """Turn what pyarrow raises for damaged files into our error."""
    try:
        yield
    except LodError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"cannot be read ({brief(error)})") from None
    except (pa.ArrowException, ValueError, IndexError, KeyError) as error:
        raise DamagedFileError(f"is damaged ({brief(error)})") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise DamagedFileError(f"is damaged ({brief(error)})") from None
    except MemoryError as error:
        raise DamagedFileError(f"needs more memory than there is ({brief(error)})") from None


def brief(error: Exception) -> str:
    """Return an error's words in one short line."""
    return " ".join(str(error).split())[:200]
