"""The record batches of a file, and checked reads of its bytes."""

from __future__ import annotations

import errno
import os
import re
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pyarrow as pa

from lodcli.formats.choosing.choice import ValueRange
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, TooLargeError
from lodcli.formats.core.names import shown
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.pread import read_into
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.options import option
from lodcli.kernels.platform.pools import NO_THREAD
from lodcli.kernels.runtime import buffers as memory

Found = tuple[int, pa.RecordBatch]
# Size limit of joined batches, and minimum size that a record counts as.
_JOINED_BYTES, _RECORD_BYTES = 1 << 16, 1 << 6
_AHEAD_BYTES = 4 << 10
# In messages of the Parquet reader about sound files, which are the same exception as damage.
_NOT_READ = ("Not yet implemented", "not supported by the C++ implementation")

# By words in pyarrow's messages about values, types and messages that some writers store.
_NO_DAMAGE = {
    "Integers with more than 64 bits": "has a column of integers of 128 bits, which tensors cannot "
    "hold; cast it, as to Int64, or leave it out, when you write the file",
    "of type schema but got tensor": "holds a single tensor without a schema, as "
    "pyarrow.ipc.write_tensor writes it; save it with numpy.save",
    "whole number of days": "has dates with a time of day ({}); write them as timestamps, in "
    "JavaScript with the type TimestampMillisecond, or choose other columns",
    "ORC timestamp": "has timestamps outside of the years 1677 to 2262, which lod does not read "
    "from ORC",
    "install IANA time zone database": "has timestamps of a time zone that this system does not "
    "know ({}); install the time zones of the system (tzdata)",
    "not within the acceptable range": "has times outside of a day ({}); write durations as "
    "numbers, or choose other columns",
}
# DuckDB 2.0 stores an array of two that is null as two nulls, where Parquet has one.
_SHORT_LISTS = "Length spanned by list offsets"
_OF_DUCKDB = "; if DuckDB wrote null arrays in it, cast them to lists there, x::INT[]"
# Words in pyarrow's messages about files without their end: of Arrow, Parquet and ORC, and streams.
_NO_END = (
    "Not an Arrow file",
    "magic bytes not found in footer",
    "the postscript",
    "ORC postscript length",
    "too small",
    "smaller than the minimum",
    "bytes available",
    "Expected to read",
)


@dataclass(frozen=True)
class Wanted:
    """What to read of a file of records.

    Attributes:
        names: of the columns, or of tensors in them.
        limit_bytes: approximate size of a batch; a single record may exceed it.
        start: a record; earlier ones may be left out.
        stop: a record; it and later ones may be left out. None: the end.
        values: whether numbers are needed; else they may be 0.
    """

    names: Sequence[str]
    limit_bytes: int
    start: int = 0
    stop: int | None = None
    values: bool = True


class Records(ABC):
    """A file of records.

    Attributes:
        count: number of its records, or None while unknown.
        plain: whether arrays are stored uncompressed, so that lists can be read without their
            numbers.
        parts: (P + 1,) offsets, in records, of the parts that can be read without the others; None
            if they are unknown.
        bounds: maximum decompressed size.
        notes: see Source; the same list for as long as the file is open.
        advises: whether the errors of `refused` say how to read the other columns.
        refused: the error about each column that cannot be read. `batches` may find more; from
            then on, batches are without these.
    """

    schema: pa.Schema
    bounds: Bounds = Bounds()
    notes: list[str] = []  # noqa: RUF012 - replaced, never changed
    refused: Mapping[str, LodError] = MappingProxyType({})
    advises: bool = False
    count: int | None = None
    plain: bool = False
    parts: Offsets | None = None

    @abstractmethod
    def batches(self, wanted: Wanted) -> Iterator[Found]:
        """Yield checked record batches, each with the number of its first record."""

    def may_share(self, one: str, other: str) -> bool:
        """Return whether two columns may have equal lists, from metadata only."""
        return True

    def ranges(self, path: tuple[str, ...]) -> Sequence[ValueRange] | None:
        """Return the ranges of the values of a tensor in each of the parts; None if unknown.

        Args:
            path: the column, and the fields of structs.
        """
        return None

    def note(self, path: tuple[str, ...]) -> str:
        """Return a note on a tensor, from metadata only; "" for none. See `ranges`."""
        return ""

    def size(self, columns: Sequence[str]) -> int:
        """Return about how many bytes of columns are decoded, from metadata only; 0 if unknown."""
        return 0

    def may_be_null(self, column: str) -> bool:
        """Return whether a column without lists may have nulls, from metadata only."""
        return True

    def close(self) -> None:  # noqa: B027 - a pipe has nothing to release
        """Release the file."""


class Bytes(Protocol):
    """Source of byte ranges: bytes in memory, or a file."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: slice, /) -> bytes | memoryview: ...


class File:
    """The bytes of a file, read on demand; an error if it is truncated meanwhile.

    Never memory-mapped: truncation by another process would raise SIGBUS.
    """

    def __init__(self, source: Input) -> None:
        self._file = source.make_seekable()
        self._size = os.fstat(self._file.fileno()).st_size
        if not self._size:
            raise DamagedFileError("is damaged (it is empty)")

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, key: slice) -> memoryview:
        start, stop, _ = key.indices(self._size)
        return self.read(start, max(0, stop - start)).data

    def read(self, position: int, size: int) -> Array:
        """Return `size` bytes from a position on as a new array, uint8 (size,).

        Raises:
            DamagedFileError: the file was truncated since it was opened.
        """
        out = memory.empty((size,), np.dtype(np.uint8))
        try:
            read_into(self._file.fileno(), out, position)
        except DamagedFileError:
            found = os.fstat(self._file.fileno()).st_size
            raise DamagedFileError(
                f"was truncated while bytes {position} to {position + size} were read: expected "
                f"a file of {self._size} bytes, found {found}"
            ) from None
        return out


class Ahead:
    """Bytes of which many short pieces are read one after another: each read reads some more."""

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._start = self._stop = 0
        self._held: bytes | memoryview = b""

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, key: slice) -> bytes | memoryview:
        start, stop, _ = key.indices(len(self._data))
        if not self._start <= start <= stop <= self._stop:
            self._held = self._data[start : max(stop, start + _AHEAD_BYTES)]
            self._start, self._stop = start, start + len(self._held)
        return self._held[start - self._start : stop - self._start]


class Cursor:
    """A seekable read position, with the interface of Python's files."""

    closed = False

    def __init__(self, data: Bytes, at: int = 0) -> None:
        self._data = data
        self._at = at

    def seek(self, position: int, whence: int = 0) -> int:
        """Set the position; `whence` as in `io.IOBase.seek`."""
        self._at = position + (0, self._at, len(self._data))[whence]
        return self._at

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def read(self, size: int = -1) -> bytes | memoryview:
        """Return the next bytes, fewer at the end."""
        stop = len(self._data) if size < 0 else min(self._at + size, len(self._data))
        part = self._data[self._at : max(self._at, stop)]
        self._at += len(part)
        return part


def opened(data: Bytes) -> pa.NativeFile:
    """Return bytes for pyarrow, with an independent read position."""
    return pa.PythonFile(Cursor(data), "r")


def pieces(batch: pa.RecordBatch, size_bytes: int, limit_bytes: int) -> Iterator[Found]:
    """Yield a record batch of `size_bytes` in parts of about `limit_bytes`, assuming records of
    equal size."""
    step = step_of(batch.num_rows, size_bytes, limit_bytes)
    for start in range(0, batch.num_rows, step):
        yield start, batch.slice(start, step)


def step_of(count: int, size_bytes: int, limit_bytes: int) -> int:
    """Return how many of `count` records that take `size_bytes` take about `limit_bytes`."""
    # Runs and rows without values have no size; count a record as at least one byte.
    return max(1, count * limit_bytes // max(1, count, size_bytes))


def joined(found: Iterator[Found]) -> Iterator[Found]:
    """Yield consecutive batches, small ones joined: each takes time, however few records it has."""
    held: list[pa.RecordBatch] = []
    first = size = 0
    for place, batch in found:
        own = max(batch.num_rows * _RECORD_BYTES, batch.get_total_buffer_size())
        if size + own > _JOINED_BYTES:
            yield from _joined(first, held)
            held, size = [], 0
        if own > _JOINED_BYTES:
            yield place, batch
            continue
        first = first if held else place
        held.append(batch)
        size += own
    yield from _joined(first, held)


def _joined(first: int, batches: list[pa.RecordBatch]) -> Iterator[Found]:
    with suppress(pa.ArrowException):  # such as dictionaries with too many words together
        batches = [pa.concat_batches(batches)] if len(batches) > 1 else batches
    for batch in batches:
        yield first, batch
        first += batch.num_rows


def _remedy(error: Exception) -> str:
    """Return the remedy for a file whose end pyarrow misses; "" for other errors."""
    return FETCH_AGAIN if any(words in str(error) for words in _NO_END) else ""


@contextmanager
def damage() -> Iterator[None]:
    """Convert pyarrow's errors for damaged files to DamagedFileError."""
    try:
        yield
    except LodError:
        raise
    except (pa.ArrowException, ValueError, IndexError, KeyError, struct.error) as error:
        if "Failed to launch worker thread" in str(error):
            raise OSError(errno.EAGAIN, NO_THREAD) from None
        _refuse_sound(error)
        if isinstance(error, pa.ArrowNotImplementedError):
            raise UnsupportedError(f"cannot be read ({brief(error)})") from None
        cause = _OF_DUCKDB if _SHORT_LISTS in str(error) else ""
        raise DamagedFileError(f"is damaged ({brief(error)}){cause or _remedy(error)}") from None
    except OSError as error:
        if error.errno is not None:
            raise
        _refuse_sound(error)
        if any(words in str(error) for words in _NOT_READ):
            raise UnsupportedError(f"cannot be read ({brief(error)})") from None
        raise DamagedFileError(f"is damaged ({brief(error)}){_remedy(error)}") from None
    except MemoryError as error:
        raise TooLargeError(f"needs more memory than is available ({brief(error)})") from None


def _refuse_sound(error: Exception) -> None:
    """Raise UnsupportedError if pyarrow's error is about a file that is not damaged."""
    for words, message in _NO_DAMAGE.items():
        if words in str(error):
            raise UnsupportedError(message.format(brief(error))) from None


def validate(batch: pa.RecordBatch) -> None:
    """Check a batch in full.

    Raises:
        DamagedFileError: a text is not UTF-8.
        pa.ArrowInvalid: it is damaged; names the column.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        found = re.match(r"In column (\d+): (?:Invalid: )?", str(error))
        if found is None:
            raise
        name, said = batch.schema.names[int(found[1])], str(error)[found.end() :]
        if said.startswith("Invalid UTF8"):  # ClickHouse writes any bytes as text
            raise DamagedFileError(
                f"column {shown(name)}: holds text that is not UTF-8; if these are bytes, write "
                f"them as binary, or choose other columns with {option('columns')}"
            ) from None
        raise pa.ArrowInvalid(f"column {shown(name)}: {said}") from None


def brief(error: Exception) -> str:
    """Return the message of an error as one short line."""
    return " ".join(str(error).split())[:200]
