"""An emulated kvikio without a GPU: it reads files into arrays of the emulated cupy.

It has the functions that lodcli.formats.gpu.kvikio uses, and is as strict as the real one. It reads
as late as possible, when the result is awaited, and to an address: nothing keeps that memory alive.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any


class IOFuture:
    """A read in progress."""

    def __init__(self, file: CuFile, address: int, size: int, offset: int) -> None:
        self._file: CuFile | None = file
        self._where = address, size, offset
        file.under_way += 1

    def get(self) -> int:
        """Return how many bytes were read. Works once."""
        if self._file is None:
            raise RuntimeError("std::future_error: No associated state")
        file, self._file = self._file, None
        file.under_way -= 1
        return file.read_at(*self._where)


class CuFile:
    """An open file."""

    def __init__(self, file: os.PathLike[str] | str, flags: str = "r") -> None:
        if flags != "r":
            raise ValueError("Unknown file open flag")
        self.under_way = 0
        try:
            self._fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise RuntimeError(f"Unable to open file: {error}") from None

    def close(self) -> None:
        """Close it; no read may be in progress."""
        if self.under_way:
            raise AssertionError(f"closed while {self.under_way} reads are under way")
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    @property
    def closed(self) -> bool:
        return self._fd < 0

    def pread(
        self, buf: Any, size: int | None = None, file_offset: int = 0, task_size: int | None = None
    ) -> IOFuture:
        """Start reading into an array on the device."""
        there = buf.__cuda_array_interface__
        if there.get("strides") is not None:
            raise ValueError("Array must be contiguous")
        if size is not None and size > buf.nbytes:
            raise ValueError("Size is greater than the size of the buffer")
        if self.closed:
            raise RuntimeError("File handle is closed")
        wanted = buf.nbytes if size is None else size
        return IOFuture(self, there["data"][0], wanted, file_offset)

    def read_at(self, address: int, size: int, offset: int) -> int:
        """Fill memory with bytes of the file; all of them, as kvikio's own threads do."""
        done = 0
        while done < size:
            part = os.pread(self._fd, size - done, offset + done)
            if not part:
                raise RuntimeError("POSIX error on pread: EOF")
            ctypes.memmove(address + done, part, len(part))
            done += len(part)
        return done
