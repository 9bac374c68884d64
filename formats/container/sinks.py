"""The datasets of a container being written: in place, waiting for their size, or in chunks."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from h5py import h5s

from lodcli.formats.container.checksums import BlockChecksums, block_rows, flat_bytes
from lodcli.formats.container.hdf5_types import hdf5_type
from lodcli.formats.container.header import DatasetEntry
from lodcli.formats.container.types import numpy_type
from lodcli.formats.container.written_file import WrittenFile
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.storage.outputs import COPY_BYTES
from lodcli.kernels.errors import ShapeMismatchError, UnsupportedError
from lodcli.kernels.index.checks import Array

# HDF5's own.
CHUNK_LIMIT_BYTES = 1 << 32
# So much waits for its size; more goes to a place of its own, behind a gap.
SPOOLED_BYTES = 4 << 20


class Sink(ABC):
    """One dataset being written."""

    def __init__(
        self,
        file: WrittenFile,
        path: str,
        dtype: np.dtype[Any],
        row_shape: tuple[int, ...],
        rows: int | None,
    ) -> None:
        self.file = file
        self.path = path
        self.dtype = numpy_type(dtype.name)
        self.row_shape = row_shape
        self.known = rows
        self.rows = 0
        self.row_bytes = int(np.prod(row_shape, dtype=np.int64)) * dtype.itemsize
        self.block_rows = block_rows(self.row_bytes)
        self.checksums = BlockChecksums(self.block_rows * self.row_bytes)

    def append(self, data: Array) -> None:
        """Write rows (n, D1, ..) after the others, a few MB at a time."""
        if self.known is not None and self.rows + data.shape[0] > self.known:
            raise ShapeMismatchError(f"{self.path}: more than the {self.known} rows announced")
        step = max(1, COPY_BYTES // self.row_bytes if self.row_bytes else data.shape[0])
        for start in range(0, data.shape[0], step):
            part = np.ascontiguousarray(data[start : start + step], self.dtype)
            with self.file.meanwhile(self.checksums.update, flat_bytes(part)):
                self._put(part)
            self.rows += part.shape[0]

    def complete(self) -> None:
        """Make the dataset what it will be: all rows are there."""
        if self.known is not None and self.rows != self.known:
            raise ShapeMismatchError(f"{self.path}: expected {self.known} rows, got {self.rows}")
        self._complete()

    @property
    def placed(self) -> bool:
        """Whether its rows lie where it must be created."""
        return False

    def entry(self) -> DatasetEntry:
        """Return its line in the header."""
        return DatasetEntry(
            self.dtype.name,
            (self.rows, *self.row_shape),
            self.block_rows,
            self.checksums.finish(),
        )

    @abstractmethod
    def _put(self, part: Array) -> None:
        """Write contiguous rows behind those before."""

    @abstractmethod
    def _complete(self) -> None:
        """See `complete`."""

    def close(self) -> None:  # noqa: B027 - not every sink holds something
        """Release what the sink holds."""


class ContiguousSink(Sink):
    """Rows at one place: known at once if their number is.

    If it is not, they wait in a nameless file. Once they are many, they go where the dataset
    is going to be, if there is still such a place; see `ContainerWriter.reserve`.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._spool: Any = None
        self._offset: int | None = None
        if self.known is not None:
            self._create(self.known)
        else:
            self._spool = self.file.spool()

    def _create(self, rows: int, at: int | None = None) -> None:
        with shielded():
            kind = hdf5_type(self.dtype.name)
            dataset = self.file.create(self.path, kind, (rows, *self.row_shape), at=at)
            self._offset = dataset.get_offset()

    def _put(self, part: Array) -> None:
        view = flat_bytes(part).data
        if self._spool is not None and self.rows * self.row_bytes + len(view) >= SPOOLED_BYTES:
            self._offset = self.file.reserve()
            if self._offset is not None:
                self._unspool()
        if self._spool is not None:
            while len(view):
                view = view[os.write(self._spool.fileno(), view) :]
        elif len(view):
            assert self._offset is not None
            self.file.pwrite(view, self._offset + self.rows * self.row_bytes)

    def _unspool(self) -> None:
        """Copy what waited to its place."""
        assert self._offset is not None
        self.file.copy_from(self._spool.fileno(), self.rows * self.row_bytes, self._offset)
        self.close()
        self._spool = None

    @property
    def placed(self) -> bool:
        return self.known is None and self._spool is None

    def _complete(self) -> None:
        if self.known is not None:
            return
        self._create(self.rows, self._offset)
        if self._spool is not None and self._offset is not None:  # there are bytes
            self._unspool()

    def close(self) -> None:
        if self._spool is not None:
            self._spool.close()


class ChunkedSink(Sink):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._waiting: list[Array] = []
        self._waiting_rows = 0
        self._written = 0
        if self.row_bytes >= CHUNK_LIMIT_BYTES:
            raise UnsupportedError(f"{self.path}: rows of {self.row_bytes} bytes: no compression")
        with shielded():
            kind = hdf5_type(self.dtype.name)
            shape = (self.known or 0, *self.row_shape)
            self._dataset = self.file.create(self.path, kind, shape, self.block_rows)

    def _put(self, part: Array) -> None:
        self._waiting.append(part)
        self._waiting_rows += part.shape[0]
        if self._waiting_rows >= self.block_rows:
            self._flush(self._waiting_rows - self._waiting_rows % self.block_rows)

    def _flush(self, rows: int) -> None:
        data = np.concatenate(self._waiting)
        ready, rest = data[:rows], data[rows:]
        with shielded():
            if self.known is None:
                self._dataset.set_extent((self._written + rows, *self.row_shape))
            if ready.size:
                space = self._dataset.get_space()
                space.select_hyperslab((self._written, *(0,) * len(self.row_shape)), ready.shape)
                memory = h5s.create_simple(ready.shape)
                self._dataset.write(memory, space, ready, self._dataset.get_type())
        self._written += rows
        # A copy: the rest must not keep the whole part alive.
        self._waiting, self._waiting_rows = [rest.copy()], rest.shape[0]

    def _complete(self) -> None:
        if self._waiting_rows:
            self._flush(self._waiting_rows)
