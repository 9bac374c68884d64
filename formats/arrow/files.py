"""The record batches of a file, memory-mapped if possible."""

from __future__ import annotations

import mmap
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import DamagedFileError, TooLargeError
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.platform.machine import advise

Found = tuple[int, pa.RecordBatch]


class Records(ABC):
    """A file of records.

    Attributes:
        schema: its columns.
        count: number of its records, or None while unknown.
        mapped: whether its arrays lie in the file as they are, so that reading them again
            costs nothing.
        bounds: what it may come to.
        notes: see Source; the same list for as long as the file is open.
    """

    schema: pa.Schema
    bounds: Bounds = Bounds()
    notes: list[str] = []  # noqa: RUF012 - replaced, never changed
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

    def may_be_null(self, column: str) -> bool:
        """Return whether a column without lists may have nulls, as far as is known at once."""
        return True

    def close(self) -> None:  # noqa: B027 - a pipe has nothing to release
        """Release the file."""


class Map:
    """A memory-mapped file whose pages are released after use.

    Attributes:
        buffer: all of it, for pyarrow.
        view: the same.
    """

    def __init__(self, source: Input) -> None:
        file = source.make_seekable()
        self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.buffer = pa.py_buffer(self._map)
        self.view = memoryview(self._map)

    def release(self) -> None:
        """Let go of the pages; those still in use come back from the system's cache."""
        advise(self._map, "MADV_DONTNEED")


def pieces(batch: pa.RecordBatch, limit_bytes: int) -> Iterator[Found]:
    """Yield a record batch in parts of about `limit_bytes`, were its records of equal size."""
    count = batch.num_rows
    # Runs and rows without values take no room; then a record counts as one byte.
    step = max(1, count * limit_bytes // max(1, count, batch.nbytes))
    for start in range(0, count, step):
        yield start, batch.slice(start, step)


@contextmanager
def damage() -> Iterator[None]:
    """Convert pyarrow's errors for damaged files to DamagedFileError."""
    try:
        yield
    except LodError:
        raise
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedError(f"cannot be read ({brief(error)})") from None
    except (pa.ArrowException, ValueError, IndexError, KeyError, struct.error) as error:
        raise DamagedFileError(f"is damaged ({brief(error)})") from None
    except OSError as error:
        if error.errno is not None:
            raise
        raise DamagedFileError(f"is damaged ({brief(error)})") from None
    except MemoryError as error:
        raise TooLargeError(f"needs more memory than is available ({brief(error)})") from None


def brief(error: Exception) -> str:
    """Return an error's words in one short line."""
    return " ".join(str(error).split())[:200]
