"""A file object for HDF5 that raises errors where libhdf5 would loop forever, or read zeros."""

from __future__ import annotations

import os
import struct
from typing import Any

from lodcli.formats.container.owned import ReadFile
from lodcli.formats.container.parser import LIST_END, SIGNATURE
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.platform import files

LONGEST_LIST = 10_000


def find_superblock(fd: int, size: int) -> int:
    """Return where HDF5 finds its signature: at 0, 512, 1024, 2048, ..

    Raises:
        NotThisFormatError: nowhere.
        UnsupportedError: the file has addresses of an unusual width.
    """
    base = 0
    while base < size and files.pread(fd, len(SIGNATURE), base) != SIGNATURE:
        base = base * 2 or 512
    head = files.pread(fd, 16, base)
    if not head.startswith(SIGNATURE):
        raise NotThisFormatError("is not an HDF5 file")
    if (head[13:15] if head[8:9] < b"\2" else head[9:11]) != b"\x08\x08":
        raise UnsupportedError("its addresses are not of eight bytes; rewrite it with h5repack")
    return base


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

    def __init__(self, fd: int, base: int = 0) -> None:
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
        if self.truncated:  # what is missing was read as zeros
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
