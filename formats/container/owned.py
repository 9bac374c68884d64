"""A file object for HDF5 over a descriptor that is ours.

HDF5 can swallow a write error when it closes a file, and then report success. Here it
writes through us: it never sees an error, the first one is kept, and the writer raises it
before anything is committed.
"""

from __future__ import annotations

import io
import os
from typing import Any


class OwnedFile(io.RawIOBase):
    """A seekable binary file over `fd`, which stays open when this is closed.

    Attributes:
        error: the first error of any call, to be raised before the file is committed.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._position = 0
        self._size = os.fstat(fd).st_size
        self.error: OSError | None = None

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
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
        data = b""
        try:
            data = os.pread(self._fd, len(view), self._position)
        except OSError as error:
            self.error = self.error or error
        view[: len(data)] = data
        # Beyond the end there is nothing yet: HDF5 reads what it has only allocated.
        view[len(data) :] = bytes(len(view) - len(data))
        self._position += len(view)
        return len(view)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.pwrite(view, self._position)
        self._position += len(view)
        return len(view)

    def pwrite(self, view: memoryview, offset: int) -> None:
        """Write at `offset`, keeping the first error; after one, nothing is written."""
        end = offset + len(view)
        try:
            while self.error is None and len(view):
                done = os.pwrite(self._fd, view, offset)
                view, offset = view[done:], offset + done
        except OSError as error:
            self.error = error
        self._size = max(self._size, end)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._position if size is None else size
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self.error = self.error or error
        return self._size

    def flush(self) -> None:
        """Nothing is buffered here."""

    def raise_error(self) -> None:
        """Raise the first error that happened, if any did."""
        if self.error is not None:
            raise self.error
