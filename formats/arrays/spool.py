"""An anonymous temporary file that buffers arrays of unknown position."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import IO

import numpy as np

from lodcli.formats.arrays.byte_blocks import Bytes, byte_blocks
from lodcli.formats.storage.outputs import COPY_BYTES, Output
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files

# Buffer size per array, so that short batches do not create short extents.
_HELD_BYTES = 16 << 10
# Of maps, for any dtype.
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

    def mapped(self, data: Array) -> Array:
        """Write an array to the file, and return a read-only map of it."""
        self.append(memoryview(bytes(-self._end % _ALIGNMENT)))
        start = self._end
        for block in byte_blocks(data):
            self.append(block.data)
        if self._end == start:
            return data
        whole = mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ)
        stored = np.frombuffer(whole, data.dtype.newbyteorder("<"), data.size, start)
        return stored.reshape(data.shape)

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


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
