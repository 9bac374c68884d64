"""File objects for HDF5 over a descriptor that lod opened.

HDF5 cannot open an anonymous file, such as a copy of a pipe, and may open another file than ours
under the same name. It can also ignore a write error on close, and report success. So it reads and
writes through these objects, which hide errors from it: the first error is stored and raised by the
caller of HDF5.
"""

from __future__ import annotations

import io
import os
import struct
from typing import Any

from lodcli.formats.container.parser import LIST_END
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, NotThisFormatError
from lodcli.formats.core.table import HDF5_MAGIC
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import files, machine

LONGEST_LIST = 10_000
# HDF5 takes about 1 MiB to open or create a file.
_NEEDED_BYTES = 4 << 20


def require_memory() -> None:
    """Raise MemoryError if HDF5 lacks memory to open a file: it would abort the process."""
    machine.require_memory(_NEEDED_BYTES)


def find_superblock(fd: int, size: int) -> int:
    """Return where HDF5 finds its signature: at 0, 512, 1024, 2048, ..

    Raises:
        NotThisFormatError: nowhere.
        DamagedFileError: the file ends within it.
        UnsupportedError: the file has addresses of an unusual width.
    """
    base = 0
    while base < size and files.pread(fd, len(HDF5_MAGIC), base) != HDF5_MAGIC:
        base = base * 2 or 512
    head = files.pread(fd, 16, base)
    if not head.startswith(HDF5_MAGIC):
        raise NotThisFormatError("is not an HDF5 file")
    if len(head) < 16:
        raise DamagedFileError(f"file: ends within its superblock{FETCH_AGAIN}")
    if (head[13:15] if head[8:9] < b"\2" else head[9:11]) != b"\x08\x08":
        raise UnsupportedError("its addresses are not of eight bytes; rewrite it with h5repack")
    return base


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


class WritableFile(ReadFile):
    """A ReadFile that can be written to; after an error, nothing is written."""

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self.error is None:
            try:
                files.write_all_at(self._fd, view, self._position)
            except OSError as error:
                self.error = error
        self._position += len(view)
        self._size = max(self._size, self._position)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        self._size = self._position if size is None else size
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self.error = self.error or error
        return self._size


class GuardedFile(ReadFile):
    """A ReadFile that blocks reads on which HDF5 (2.0) would loop forever.

    HDF5 reads as many bytes as a file declares. It follows the free list of a local heap (which
    has the names of a group), and the chain of nodes of a B-tree, without end if they have a
    cycle, and allocates memory all the while. Each read of this driver is one structure, which
    begins with its signature.

    Args:
        fd: see ReadFile.
        base: the position in the file that is address 0.

    Raises:
        DamagedFileError: in the call of HDF5 that would read such a structure, or that reads after
            the file was truncated.
        OSError: in the call of HDF5, if reading fails.
    """

    def __init__(self, fd: int, base: int) -> None:
        super().__init__(fd)
        self._base = base
        self._next_nodes: dict[int, int] = {}

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        if len(view) > self._size:
            raise DamagedFileError(f"file: refers to {len(view)} bytes, more than it has")
        address = self._position - self._base
        size = super().readinto(buffer)
        self.raise_error()
        if self.truncated:  # missing bytes were read as zeros
            found = os.fstat(self._fd).st_size
            raise DamagedFileError(
                f"file: was truncated while it was read: expected {self._size} bytes, found "
                f"{found}; read it again when it is complete"
            )
        head = bytes(view[:32])
        if len(head) < 32:
            return size
        if self._is_endless_heap(head) or self._is_endless_tree(address, head):
            raise DamagedFileError(f"file: what is at {address} refers to itself")
        return size

    def _is_endless_heap(self, head: bytes) -> bool:
        if not head.startswith(b"HEAP\0"):
            return False
        size, place, address = (int(number) for number in struct.unpack("<8xQQQ", head))
        seen: set[int] = set()
        while place != LIST_END and place not in seen and len(seen) < LONGEST_LIST:
            position = self._base + address + place
            if place >= size or position + 8 > self._size:
                return False  # HDF5 itself reports this
            seen.add(place)
            place = int.from_bytes(files.pread(self._fd, 8, position), "little")
        return place != LIST_END

    def _is_endless_tree(self, address: int, head: bytes) -> bool:
        if not head.startswith(b"TREE"):
            return False
        after = int.from_bytes(head[16:24], "little")
        self._next_nodes[address] = after
        passed = {address}
        # Nodes are read in order, so usually the next one has not been read yet.
        while after in self._next_nodes and after not in passed:
            passed.add(after)
            after = self._next_nodes[after]
        return after in passed
