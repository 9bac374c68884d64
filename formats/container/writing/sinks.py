"""Datasets of a container during writing: in place, buffered until sized, or in chunks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from lodcli.formats.arrays.array_writer import ArraySpec
from lodcli.formats.arrays.byte_blocks import Bytes
from lodcli.formats.arrays.spool import SpooledArray
from lodcli.formats.container.checksums import HEX_DIGITS, BlockChecksums, block_rows
from lodcli.formats.container.chunks import encode, filter_message
from lodcli.formats.container.header import LIMIT_BYTES, DatasetEntry
from lodcli.formats.container.rows import on_threads
from lodcli.formats.container.types import datatype_message, numpy_type
from lodcli.formats.container.writing.structures import Chunk, ChunkedRows, PlacedDataset
from lodcli.formats.container.writing.written_file import WrittenFile
from lodcli.kernels.dtypes import dtype_name
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.options import option

# Limit of HDF5.
CHUNK_LIMIT_BYTES = 1 << 32
# Number of chunks from which on several threads compress them.
SHARED_CHUNKS = 4
# Minimum size for which another thread computes the checksums.
SHARED_BYTES = 1 << 20
# Buffer limit while the size is unknown; larger data is written at its final position, after a gap.
SPOOLED_BYTES = 4 << 20


class Sink(ABC):
    """One dataset being written."""

    def __init__(self, file: WrittenFile, array: ArraySpec) -> None:
        self.file = file
        self.path = array.name
        self._dtype_name = dtype_name(array.dtype)
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
        """Whether it must be completed before other datasets are placed."""
        return False

    @abstractmethod
    def placed(self) -> PlacedDataset:
        """Return the dataset, which is complete."""

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
            self._offset = self.file.place(self.known * self.row_bytes)
        else:
            self._spooled = SpooledArray(self.file.spool)

    def _put(self, block: Bytes) -> None:
        if self._spooled is not None and self._size_bytes >= SPOOLED_BYTES:
            self._offset = self.file.reserve()
            if self._offset is not None:
                self._unspool(self._spooled, self._offset)
        if self._spooled is not None:
            self._spooled.write(block)
        else:
            assert self._offset is not None
            self.file.output.write_at(block.data, self._offset + self._size_bytes - len(block))

    def _unspool(self, spooled: SpooledArray, offset: int) -> None:
        """Copy the buffered bytes to their final position."""
        for start, size in spooled.extents():
            self.file.copy_from(self.file.spool.fd, start, size, offset)
            offset += size
        self._spooled = None

    @property
    def begun(self) -> bool:
        return self.known is None and self._spooled is None  # its rows have a reserved position

    def complete(self, rows: int) -> None:
        super().complete(rows)
        if self._offset is None:
            self._offset = self.file.place(self._size_bytes)
        elif self.known is None:
            self.file.grown(self._offset + self._size_bytes)
        if self._spooled is not None and self._size_bytes:
            self._unspool(self._spooled, self._offset)

    def placed(self) -> PlacedDataset:
        assert self._offset is not None
        size = self.rows * self.row_bytes
        return contiguous(self._dtype_name, (self.rows, *self.row_shape), self._offset, size)


def contiguous(dtype: str, shape: tuple[int, ...], offset: int, size: int) -> PlacedDataset:
    """Return a contiguous dataset; without bytes it has no position."""
    return PlacedDataset(datatype_message(dtype), shape, *((offset, size) if size else ()))


class ChunkedSink(Sink):
    """Rows in compressed chunks.

    If there are fewer rows than in a chunk, they are one chunk of their size: a chunk is
    compressed, and decompressed, whole.
    """

    def __init__(self, file: WrittenFile, array: ArraySpec, codec: str) -> None:
        super().__init__(file, array)
        self._codec = codec
        self._waiting: list[Bytes] = []
        self._waiting_bytes = 0
        self._chunks: list[Chunk] = []
        if self.row_bytes >= CHUNK_LIMIT_BYTES:
            raise UnsupportedError(
                f"{self.path}: rows of {self.row_bytes} bytes are too large to compress, at most "
                f"{CHUNK_LIMIT_BYTES - 1}; leave {option('compress')} out"
            )

    def _put(self, block: Bytes) -> None:
        self._waiting.append(block)
        self._waiting_bytes += len(block)
        chunk_bytes = self.block_rows * self.row_bytes
        if self._waiting_bytes >= chunk_bytes:
            self._flush(self._waiting_bytes - self._waiting_bytes % chunk_bytes)

    def _flush(self, size: int) -> None:
        """Write this many of the waiting bytes as chunks, the last one filled up with zeros."""
        data = np.concatenate(self._waiting)
        chunk_bytes = self.block_rows * self.row_bytes

        def encoded(start: int) -> tuple[bytes, int]:
            part = data[start : min(start + chunk_bytes, size)]
            if len(part) < chunk_bytes:
                part = np.concatenate([part, np.zeros(chunk_bytes - len(part), np.uint8)])
            return encode(part, self._codec, self.dtype.itemsize)

        starts = range(0, size, chunk_bytes)
        several = len(starts) >= SHARED_CHUNKS
        for stored, skipped in on_threads(encoded, starts) if several else map(encoded, starts):
            place = self.file.place(len(stored))
            self.file.output.write_at(stored, place)
            self._chunks.append(Chunk(place, len(stored), skipped))
        # A copy: the rest must not keep the whole block alive.
        self._waiting, self._waiting_bytes = [data[size:].copy()], len(data) - size

    def complete(self, rows: int) -> None:
        super().complete(rows)
        if not self._chunks:
            self.block_rows = max(1, min(self.block_rows, rows))
        if self._waiting_bytes:
            self._flush(self._waiting_bytes)

    def placed(self) -> PlacedDataset:
        filters = filter_message(self._codec, self.dtype.itemsize)
        chunked = ChunkedRows(self.block_rows, self.dtype.itemsize, filters, self._chunks)
        shape = (self.rows, *self.row_shape)
        return PlacedDataset(datatype_message(self._dtype_name), shape, chunked=chunked)
