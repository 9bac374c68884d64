"""Rows of one dataset of a container: read, decoded and checked, block by block."""

from __future__ import annotations

import math
import mmap
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from typing import TypeVar

import numpy as np

from lodcli.formats.arrays.byte_blocks import Bytes, flat_bytes
from lodcli.formats.container.checksums import (
    CheckedBlocks,
    FileState,
    first_bad_block,
    first_other,
)
from lodcli.formats.container.chunks import decode
from lodcli.formats.container.header import DatasetEntry
from lodcli.formats.container.stored import Chunks, StoredDataset
from lodcli.formats.container.types import numpy_type
from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.storage.pread import read_into
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files
from lodcli.kernels.platform.pools import thread_pool
from lodcli.kernels.runtime import buffers as memory
from lodcli.kernels.runtime.threads import thread_count

# Read size: blocks are verified while in the processor's cache.
PIECE_BYTES = 1 << 20
# Minimum size for several threads, which copy or decode in parallel.
SHARED_PIECES, SHARED_CHUNKS = 32, 4
# More threads do not increase memory bandwidth.
MOST_THREADS = 8
# Size after which a thread reports progress.
CHECKED_BYTES = 32 << 20
# Minimum size per thread: starting threads takes time too.
SHARED_BYTES = 4 << 20

T = TypeVar("T")


class Rows:
    """The rows of a dataset.

    Args:
        fd: the open file; the caller keeps and closes it.
        state: detects changes of the file.
        path: of the dataset, for messages.
        entry: of the dataset in the header.
        stored: its position in the file.

    Attributes:
        entry: as the argument.
        row_bytes: bytes of one row.
        offset: position of the first row in the file; None if chunked, or without bytes.
    """

    def __init__(
        self, fd: int, state: FileState, path: str, entry: DatasetEntry, stored: StoredDataset
    ) -> None:
        self._fd = fd
        self._path = path
        self._naming = naming(path)
        self.entry = entry
        self._dtype = numpy_type(entry.dtype)
        self._chunks = stored.chunks
        self._row_shape = entry.shape[1:]
        self.row_bytes = math.prod(self._row_shape) * self._dtype.itemsize
        self.offset = stored.offset
        self._checked = CheckedBlocks(state, -(-entry.shape[0] // entry.block_rows))

    def read(self, start: int, stop: int, *, check: bool = True) -> Array:
        """Return rows start..stop; reads only the blocks that contain them.

        If they are contiguous, and their blocks were verified since the file last changed, reads
        only the rows themselves.

        Args:
            check: whether to verify checksums; if False, the caller must call `check`.
        """
        if stop <= start:
            return memory.empty((0, *self._row_shape), self._dtype)
        rows = self.entry.block_rows
        first, last = start // rows, -(-stop // rows)
        whole, changes = self._checked.hold(first, last) if check else (False, 0)
        if whole and self.offset is not None:
            found = memory.empty((stop - start, *self._row_shape), self._dtype)
            with self._naming:
                read_into(self._fd, found, self.offset + start * self.row_bytes)
            return found
        low, high = first * rows, min(last * rows, self.entry.shape[0])
        found = memory.empty((high - low, *self._row_shape), self._dtype)
        self.fill(low, found, check=check)
        if check:
            self._checked.add(first, last, changes)
        return found[start - low : stop - low]

    def fill(self, start: int, out: Array, *, check: bool = True) -> None:
        """Fill `out` (n, D1, ..), C-contiguous, with rows from `start`, the first of a block.

        `out` must end where a block or the dataset ends.
        """
        if not out.size:
            return
        if len(out) <= self.entry.block_rows:  # of small tensors all rows
            self._read_piece(start, out, check)
            return
        step = self._piece_rows

        def read(begin: int) -> None:
            self._read_piece(start + begin, out[begin : begin + step], check)

        pieces = range(0, len(out), step)
        if len(pieces) >= (SHARED_PIECES if self._chunks is None else SHARED_CHUNKS):
            for _ in on_threads(read, pieces):
                pass
        else:
            for begin in pieces:
                read(begin)

    def _read_piece(self, start: int, part: Array, check: bool) -> None:
        with self._naming:
            self._fill(start, part)
        if check:
            self.check(part, start // self.entry.block_rows)

    @property
    def _piece_rows(self) -> int:
        """How many rows are read before they are checked: whole blocks, or a chunk."""
        rows = self.entry.block_rows
        if self._chunks is not None:
            return rows
        return rows * max(1, PIECE_BYTES // (rows * self.row_bytes))

    def check_all(
        self, put: Callable[[Bytes, int], None] = lambda part, position: None
    ) -> Generator[int, None, None]:
        """Verify all rows on several threads, discard them, and yield the count of each part.

        Args:
            put: called in any of the threads with the bytes of verified rows, and their position
                in the dataset.

        Raises:
            DamagedFileError, InvalidDataError: as `read` does, at the first rows that are wrong.
        """
        count = self.entry.shape[0]
        if not self.row_bytes:
            yield count
            return
        piece = self._piece_rows
        piece_bytes = piece * self.row_bytes
        share = max(SHARED_BYTES, count * self.row_bytes // thread_count())
        step = piece * max(1, min(share, CHECKED_BYTES) // piece_bytes)

        def check(first: int) -> int:
            stop = min(first + step, count)
            # One buffer for all pieces, which stays in the processor's cache.
            buffer: Array = np.empty((min(piece, stop - first), *self._row_shape), self._dtype)
            for start in range(first, stop, piece):
                part = buffer[: stop - start]
                self.fill(start, part)
                put(flat_bytes(part), start * self.row_bytes)
            return stop - first

        starts = range(0, count, step)
        yield from on_threads(check, starts) if len(starts) > 1 else map(check, starts)

    def _fill(self, start: int, out: Array) -> None:
        if self._chunks is not None:
            self._decode(self._chunks, start // self.entry.block_rows, flat_bytes(out))
        elif self.offset is not None:
            read_into(self._fd, out, self.offset + start * self.row_bytes)

    def _decode(self, chunks: Chunks, number: int, out: Bytes) -> None:
        """Fill `out` with a chunk; with the last one up to the last row."""
        raw = files.pread(self._fd, int(chunks.sizes[number]), int(chunks.offsets[number]))
        whole = out
        if len(out) < self.entry.block_rows * self.row_bytes:
            whole = np.empty(self.entry.block_rows * self.row_bytes, np.uint8)
        skipped = int(chunks.skipped[number])
        decode(raw, chunks.filters, skipped, whole, self._dtype.itemsize)
        if whole is not out:
            out[:] = whole[: len(out)]

    def mapped(self) -> Array | None:
        """Return all rows, checked, as a read-only memory map; None if that is not possible.

        Raises:
            DamagedFileError: as `fill` does.
        """
        if self.offset is None or self.offset % self._dtype.alignment:
            return None
        count = math.prod(self.entry.shape)
        files.fetch(self._fd, self.offset, count * self._dtype.itemsize)
        with suppress(OSError, ValueError):  # the file cannot be mapped: read it instead
            whole = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
            flat: Array = np.frombuffer(whole, self._dtype, count, self.offset)
            found = flat.reshape(self.entry.shape)
            self.check(found, 0)
            return found
        return None

    def check(self, data: Array, first: int) -> None:
        """Raise if rows are not those that were written.

        Args:
            data: whole blocks; the last may be short.
            first: number of the first block.

        Raises:
            DamagedFileError: a checksum does not match.
            InvalidDataError: a boolean that is neither 0 nor 1.
        """
        self._refuse(first_bad_block(data, self.entry.crc32c, first, self.entry.block_rows))
        if data.dtype == np.bool_ and data.size:
            self._refuse_boolean(int(data.view("u1").max()))

    def check_sums(self, found: Array, highest: int) -> None:
        """Raise as `check` would, for all rows, from checksums computed elsewhere.

        Args:
            found: (blocks,) uint32, the checksums.
            highest: the highest byte, of booleans.
        """
        self._refuse(first_other(found, self.entry.crc32c))
        if self.entry.dtype == "bool":
            self._refuse_boolean(highest)

    def _refuse(self, bad: int | None) -> None:
        if bad is None:
            return
        start = bad * self.entry.block_rows
        stop = min(start + self.entry.block_rows, self.entry.shape[0])
        raise DamagedFileError(
            f"{self._path}: rows {start} to {stop - 1} were altered (the checksum does not match)"
        )

    def _refuse_boolean(self, highest: int) -> None:
        if highest > 1:
            raise InvalidDataError(f"{self._path}: a boolean must be stored as 0 or 1")


def on_threads(work: Callable[[int], T], items: Iterable[int]) -> Iterator[T]:
    """Yield a function of each item, computed on several threads; raises the first exception."""
    pool = thread_pool(min(thread_count(), MOST_THREADS), "lod-read")
    try:
        yield from pool.map(work, items)
    finally:
        pool.shutdown(cancel_futures=True)
