"""Datasets of a container during writing: in place, buffered until sized, or in chunks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from h5py import h5s

from lodcli.formats.arrays.array_writer import ArraySpec
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.spool import SpooledArray
from lodcli.formats.container.checksums import HEX_DIGITS, BlockChecksums, block_rows
from lodcli.formats.container.header import LIMIT_BYTES, DatasetEntry
from lodcli.formats.container.types import numpy_type
from lodcli.formats.container.writing.hdf5_types import hdf5_type
from lodcli.formats.container.writing.written_file import WrittenFile
from lodcli.formats.storage.interrupts import shielded
from lodcli.kernels.errors import UnsupportedError

# Limit of HDF5.
CHUNK_LIMIT_BYTES = 1 << 32
# Minimum size for which another thread computes the checksums.
SHARED_BYTES = 1 << 20
# Buffer limit while the size is unknown; larger data is written at its final position, after a gap.
SPOOLED_BYTES = 4 << 20


class Sink(ABC):
    """One dataset being written."""

    def __init__(self, file: WrittenFile, array: ArraySpec) -> None:
        self.file = file
        self.path = array.name
        self._dtype_name = array.dtype.name  # NumPy takes microseconds to make it
        self.dtype = numpy_type(self._dtype_name)
        self.row_shape = array.row_shape
        self.known = array.rows
        self.rows = 0
        self.row_bytes = math.prod(array.row_shape) * array.dtype.itemsize
        self.block_rows = block_rows(self.row_bytes)
        self._checksums = BlockChecksums(self.block_rows * self.row_bytes)
        self._size_bytes = 0
        self._require_checksums((self.known or 0) * self.row_bytes)

    def write(self, block: Bytes) -> None:
        """Write the next bytes, and add them to the checksums."""
        self._size_bytes += len(block)
        self._require_checksums(self._size_bytes)
        with self.file.output.naming():
            if block.size < SHARED_BYTES:
                self._checksums.update(block)
                self._put(block)
            else:
                with self.file.meanwhile(self._checksums.update, block):
                    self._put(block)

    def _require_checksums(self, size_bytes: int) -> None:
        """Raise an error if the header has no room for the checksums of this many bytes."""
        most = LIMIT_BYTES // HEX_DIGITS * max(1, self.block_rows * self.row_bytes)
        if size_bytes >= most:
            raise UnsupportedError(
                f"{self.path}: a container holds checksums for less than {most:,} bytes of it, but "
                f"there are {'' if self.known else 'at least '}{size_bytes:,}; divide the data, as "
                "`lod shard` does"
            )

    @property
    def begun(self) -> bool:
        """Whether it must be completed before other datasets are created."""
        return False

    def entry(self) -> DatasetEntry:
        """Return the entry in the header."""
        shape = (self.rows, *self.row_shape)
        return DatasetEntry(self._dtype_name, shape, self.block_rows, self._checksums.finish())

    @abstractmethod
    def _put(self, block: Bytes) -> None:
        """Append bytes."""

    def complete(self, rows: int) -> None:
        """Finish the dataset: all rows have been written."""
        self.rows = rows


class ContiguousSink(Sink):
    """Contiguous rows: placed at once if their number is known.

    Otherwise they are buffered in an anonymous file. Once they are many, they are written at the
    final position of the dataset, if one can be reserved; see `WrittenFile.reserve`.
    """

    def __init__(self, file: WrittenFile, array: ArraySpec) -> None:
        super().__init__(file, array)
        self._spooled: SpooledArray | None = None
        self._offset: int | None = None
        if self.known is not None:
            self._create(self.known)
        else:
            self._spooled = SpooledArray(self.file.spool)

    def _create(self, rows: int, at: int | None = None) -> None:
        with shielded():
            kind = hdf5_type(self._dtype_name)
            dataset = self.file.create(self.path, kind, (rows, *self.row_shape), at=at)
            self._offset = dataset.get_offset()

    def _put(self, block: Bytes) -> None:
        if self._spooled is not None and self._size_bytes >= SPOOLED_BYTES:
            self._offset = self.file.reserve()
            if self._offset is not None:
                self._unspool(self._spooled)
        if self._spooled is not None:
            self._spooled.write(block)
        else:
            assert self._offset is not None
            self.file.pwrite(block.data, self._offset + self._size_bytes - len(block))

    def _unspool(self, spooled: SpooledArray) -> None:
        """Copy the buffered bytes to their final position."""
        assert self._offset is not None
        offset = self._offset
        for start, size in spooled.extents():
            self.file.copy_from(self.file.spool.fd, start, size, offset)
            offset += size
        self._spooled = None

    @property
    def begun(self) -> bool:
        return self.known is None and self._spooled is None  # its rows have a reserved position

    def complete(self, rows: int) -> None:
        super().complete(rows)
        if self.known is None:
            self._create(self.rows, self._offset)
            if self._spooled is not None and self._size_bytes:
                self._unspool(self._spooled)


class ChunkedSink(Sink):
    """Rows in chunks, which libhdf5 compresses and writes.

    The dataset is created with its first whole chunk. If it has fewer rows, they are one chunk of
    their size: a chunk is compressed, and decompressed, whole.
    """

    def __init__(self, file: WrittenFile, array: ArraySpec) -> None:
        super().__init__(file, array)
        self._waiting: list[Bytes] = []
        self._waiting_bytes = 0
        self._written = 0
        self._dataset: Any = None
        if self.row_bytes >= CHUNK_LIMIT_BYTES:
            raise UnsupportedError(
                f"{self.path}: rows of {self.row_bytes} bytes are too large to compress, at most "
                f"{CHUNK_LIMIT_BYTES - 1}; leave --compress out"
            )

    def _create(self, rows: int) -> None:
        with shielded():
            kind = hdf5_type(self._dtype_name)
            shape = (rows, *self.row_shape)
            self._dataset = self.file.create(self.path, kind, shape, self.block_rows)

    def _put(self, block: Bytes) -> None:
        self._waiting.append(block)
        self._waiting_bytes += len(block)
        chunk_bytes = self.block_rows * self.row_bytes
        if self._waiting_bytes >= chunk_bytes:
            self._flush(self._waiting_bytes - self._waiting_bytes % chunk_bytes)

    def _flush(self, size: int) -> None:
        if self._dataset is None:
            self._create(self.known or 0)
        data = np.concatenate(self._waiting)
        rows = size // self.row_bytes
        ready = data[:size].view(self.dtype).reshape(rows, *self.row_shape)
        with shielded():
            if self.known is None:
                self._dataset.set_extent((self._written + rows, *self.row_shape))
            space = self._dataset.get_space()
            space.select_hyperslab((self._written, *(0,) * len(self.row_shape)), ready.shape)
            memory = h5s.create_simple(ready.shape)
            self._dataset.write(memory, space, ready, self._dataset.get_type())
        self.file.raise_error()
        self._written += rows
        # A copy: the rest must not keep the whole block alive.
        self._waiting, self._waiting_bytes = [data[size:].copy()], len(data) - size

    @property
    def begun(self) -> bool:
        return self._dataset is not None  # while it is open, the file cannot be opened again

    def complete(self, rows: int) -> None:
        super().complete(rows)
        if self._dataset is None:
            self.block_rows = max(1, min(self.block_rows, rows))
            self._create(rows)
        if self._waiting_bytes:
            self._flush(self._waiting_bytes)
        with shielded():
            if self.known is None:  # rows without bytes are never written
                self._dataset.set_extent((self.rows, *self.row_shape))
            self.file.close_dataset(self._dataset)
