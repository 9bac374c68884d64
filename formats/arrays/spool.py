"""An anonymous temporary file that buffers arrays of unknown position."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from lodcli.formats.arrays.byte_blocks import Bytes, byte_blocks
from lodcli.formats.storage.outputs import COPY_BYTES, Output
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files

# Buffer size per array, so that short batches do not create short extents.
_HELD_BYTES = 16 << 10
# Of stored arrays, for any dtype.
_ALIGNMENT = 64


class Spool:
    """One temporary file for all arrays: their number may exceed the open-file limit.

    Args:
        output: the target of the arrays; the file is created on the same file system.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._file: IO[bytes] | None = None
        self._end = 0
        self._map: mmap.mmap | None = None

    @property
    def fd(self) -> int:
        """The descriptor of the file."""
        if self._file is None:
            self._file = self._output.spool(buffering=0)
        return self._file.fileno()

    def append(self, view: memoryview) -> int:
        """Write bytes at the end, and return where they begin."""
        start, fd = self._end, self.fd
        self._end += len(view)
        with self._output.naming(spooling=True):
            files.write_all(fd, view)
        return start

    def store(self, data: Array) -> WholeArray:
        """Write an array to the file."""
        self.append(memoryview(bytes(-self._end % _ALIGNMENT)))
        start = self._end
        for block in byte_blocks(data):
            self.append(block.data)
        return WholeArray(self, start, data.dtype.newbyteorder("<"), data.shape)

    def map(self) -> mmap.mmap:
        """Return a read-only map of the file, the same one until the file grows.

        Each map has a separate descriptor: one for each array would exceed the open-file limit.
        """
        if self._map is None or len(self._map) < self._end:
            with self._output.naming(spooling=True):
                self._map = mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ)
        return self._map

    def clear(self) -> None:
        """Remove the file if there is one, and begin another; maps of it stay valid."""
        self.close()
        self._file = self._map = None
        self._end = 0

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@dataclass(frozen=True)
class WholeArray:
    """An array that was written to a Spool as a whole."""

    spool: Spool
    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def mapped(self) -> Array:
        """Return it as a read-only map of the file."""
        if (size := math.prod(self.shape)) == 0:
            return np.empty(self.shape, self.dtype)
        flat = np.frombuffer(self.spool.map(), self.dtype, size, self.start)
        return flat.reshape(self.shape)


class SpooledArray:
    """The bytes of one array in a Spool."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._extents: list[tuple[int, int]] = []
        self._held = bytearray()

    def append(self, data: Array) -> None:
        """Append the bytes of an array."""
        for block in byte_blocks(data):
            self.write(block)

    def write(self, block: Bytes) -> None:
        """Append the next bytes."""
        view = block.data
        if len(self._held) + len(view) > _HELD_BYTES:
            self._flush()
        if len(view) > _HELD_BYTES:
            self._append(view)
        else:
            self._held += view

    def _flush(self) -> None:
        if self._held:
            self._append(memoryview(self._held))
            self._held = bytearray()

    def _append(self, view: memoryview) -> None:
        start = self._spool.append(view)
        if self._extents and sum(self._extents[-1]) == start:
            start, size = self._extents.pop()
            self._extents.append((start, size + len(view)))
        else:
            self._extents.append((start, len(view)))

    def extents(self) -> list[tuple[int, int]]:
        """Return the (start, size) of each run of its bytes in the spool, in order."""
        self._flush()
        return self._extents

    def blocks(self) -> Iterator[bytes]:
        """Yield its bytes, in order."""
        for start, size in self.extents():
            stop = start + size
            while part := files.pread(self._spool.fd, min(COPY_BYTES, stop - start), start):
                start += len(part)
                yield part
