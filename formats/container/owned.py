"""File objects for HDF5 over a descriptor that lod opened.

HDF5 cannot open an anonymous file, such as a copy of a pipe, and may open another file than ours
under the same name. It can also ignore a write error on close, and report success. So it reads and
writes through this object, which hides errors from it: the first error is stored and raised by the
caller of HDF5.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from typing import Any

from lodcli.kernels.platform import files, machine

# HDF5 takes about 1 MiB to open or create a file.
_NEEDED_BYTES = 4 << 20


def require_memory() -> None:
    """Raise MemoryError if HDF5 lacks memory to open a file: it would abort the process."""
    machine.require_memory(_NEEDED_BYTES)


class ReadFile(io.RawIOBase):
    """A seekable binary file over `fd`, which stays open when this is closed.

    Attributes:
        error: the first error of any call.
        truncated: whether the last read met the end of the file before that of its opening.
    """

    truncated = False

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._position = 0
        self._size = os.fstat(fd).st_size
        self.error: OSError | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = (0, self._position, self._size)[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        size, done = len(view), -1
        try:
            # HDF5 can request invalid offsets in a damaged file.
            while len(view) and done and 0 <= self._position < self._size:
                done = files.read_at(self._fd, view, self._position)
                view, self._position = view[done:], self._position + done
        except OSError as error:
            self.error = self.error or error
        self.truncated = not done
        # Beyond the end: HDF5 reads space that it has only allocated.
        view[:] = bytes(len(view))
        self._position += len(view)
        return size

    def flush(self) -> None:
        """Nothing is buffered here."""

    def raise_error(self) -> None:
        """Raise the first error that happened, if any did."""
        if self.error is not None:
            raise self.error


class OwnedFile(ReadFile):
    """A ReadFile that can be written to; after an error, nothing is written.

    Args:
        fd: see ReadFile.
        wrote: called with the number of bytes after each write.
    """

    def __init__(self, fd: int, wrote: Callable[[int], None] = lambda size_bytes: None) -> None:
        super().__init__(fd)
        self._wrote = wrote

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.pwrite(view, self._position)
        self._position += len(view)
        return len(view)

    def pwrite(self, view: memoryview, offset: int) -> None:
        """Write at `offset`, keeping the first error; after one, nothing is written."""
        if self.error is None:
            try:
                files.write_all_at(self._fd, view, offset)
                self._wrote(len(view))
            except OSError as error:
                self.error = error
        self._size = max(self._size, offset + len(view))

    def truncate(self, size: int | None = None) -> int:
        self._size = self._position if size is None else size
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self.error = self.error or error
        return self._size
