"""The members of an .npz archive: .npy arrays, checked before use."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import IO, Any

import numpy as np

from lodcli.formats.core.errors import DamagedFileError, naming
from lodcli.formats.npz.npy_header import Header, native, read_header
from lodcli.formats.storage.pread import read_into
from lodcli.formats.storage.zip_archive import damage, shown
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files

COPY_BYTES = 8 << 20


@dataclass(frozen=True)
class Member:
    """An array of the archive, described by its header."""

    info: zipfile.ZipInfo
    header: Header

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.header.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.header.shape

    @property
    def label(self) -> str:
        """Name in messages."""
        return shown(self.info.filename)


def read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Member:
    """Return the description of an array of the archive; its header is checked against its size."""
    with naming(shown(info.filename)), damage("is damaged"), archive.open(info) as stream:
        return Member(info, read_header(stream, info.file_size, marked=True))


class Rows:
    """The rows of one member, in order. Its checksum is verified with the last row."""

    def __init__(self, archive: zipfile.ZipFile, member: Member) -> None:
        self._member = member
        self._taken = 0
        self._whole: Array | None = None
        with self._reading():
            self._stream = archive.open(member.info)
            self._stream.read(member.header.size_bytes)

    def __enter__(self) -> Rows:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()

    def take(self, count: int) -> Array:
        """Return the next `count` rows, in native byte order."""
        shape = self._member.shape
        if not self._member.header.fortran:
            return self._read((count, *shape[1:]))
        if self._whole is None:
            self._whole = self._read(shape[::-1]).T
        start, self._taken = self._taken, self._taken + count
        return np.ascontiguousarray(self._whole[start : self._taken])

    def _read(self, shape: tuple[int, ...]) -> Array:
        with self._reading():
            data = np.empty(shape, self._member.dtype)
            view = data.reshape(-1).view(np.uint8).data
            while len(view):
                block = self._stream.read(min(len(view), COPY_BYTES))
                if not block:
                    raise DamagedFileError(f"ends {len(view)} bytes early")
                view[: len(block)] = block
                view = view[len(block) :]
            return native(data)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with naming(shown(self._member.info.filename)), damage("is damaged"):
            yield


def stored_rows(file: IO[bytes], member: Member, start: int, stop: int) -> Array:
    """Return some rows of a member, in native byte order, without verifying its checksum.

    Args:
        file: the archive, seekable.
        member: stored, not deflated, and not in Fortran order.
        start: the first row.
        stop: one past the last row.
    """
    row_bytes = prod(member.shape[1:]) * member.dtype.itemsize
    with naming(member.label):
        # The local header of the member may be longer than the entry in the directory.
        # Read with pread, because threads share the file's position.
        local = files.pread(file.fileno(), 30, member.info.header_offset)
        lengths = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        begin = member.info.header_offset + 30 + lengths + member.header.size_bytes
        data = np.empty((stop - start, *member.shape[1:]), member.dtype)
        read_into(file.fileno(), data.reshape(-1).view(np.uint8), begin + start * row_bytes)
        return native(data)
