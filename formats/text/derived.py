"""A file that is converted while it is read, block by block."""

from __future__ import annotations

import io
from typing import Any, BinaryIO

BLOCK_BYTES = 1 << 18


class Derived(io.RawIOBase):
    """A file converted by `_next`. Seeking backwards reads it again from its beginning.

    Args:
        file: at its beginning.
        block_bytes: size of the blocks to read.
    """

    def __init__(self, file: BinaryIO, block_bytes: int = BLOCK_BYTES) -> None:
        self._file = file
        self._block_bytes = block_bytes
        self._ready = b""
        self._done = 0
        self._begin()

    def _begin(self) -> None:
        """Initialize the state that `_next` keeps between blocks."""
        raise NotImplementedError

    def _next(self, block: bytes) -> bytes:
        """Return a block converted; an empty one marks the end."""
        raise NotImplementedError

    def buffered(self) -> BinaryIO:
        """Return this with the methods of a file opened for reading."""
        return io.BufferedReader(self, BLOCK_BYTES)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        more = True
        while not self._ready and more:
            block = self._file.read(self._block_bytes)
            more = bool(block)
            self._ready = self._next(block)
        part, self._ready = self._ready[: len(view)], self._ready[len(view) :]
        view[: len(part)] = part
        self._done += len(part)
        return len(part)

    def seek(self, place: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_CUR:
            place += self._done
        elif whence != io.SEEK_SET:
            raise io.UnsupportedOperation("the end is not known")
        if place < self._done:
            self._file.seek(0)
            self._ready, self._done = b"", 0
            self._begin()
        while self._done < place and self.read(min(place - self._done, BLOCK_BYTES)):
            pass
        return self._done

    def tell(self) -> int:
        return self._done
