"""Stores for zarr over files that are already open."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from lodcli.formats.catalogue.unread import refuse_pointer
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError, naming
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.zip_archive import open_archive
from lodcli.formats.zarr.lost_errors import interrupt_for_lost_errors
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.platform import files
from lodcli.kernels.platform.processes import OpenFileLock

MOST_KEYS = 1_000_000
# Aliases, because `list` is a method in the classes below.
Keys = list[str]
Buffers = list[Buffer | None]


class ReadStore(Store):
    """Files by key, for reading.

    Attributes:
        whole: whether a missing chunk means damage, instead of the fill value.
        error: the error of a read; zarr may convert it to another one.
    """

    supports_writes = supports_deletes = False
    supports_listing = True
    supports_partial_writes = False

    def __init__(self, bounds: Bounds) -> None:
        super().__init__(read_only=True)
        interrupt_for_lost_errors()
        self._is_open = True
        self._bounds = bounds
        self.whole = False
        self.error: Exception | None = None

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = Store.__hash__

    @abstractmethod
    def names(self) -> Keys:
        """Return all keys of metadata files, in order."""

    def arrays(self) -> Keys:
        """Return the paths of all arrays."""
        found = []
        for name in self.names():
            path, _, last = name.rpartition("/")
            if last == ".zarray" or (last == "zarr.json" and self.is_array(name)):
                found.append(path)
        return found

    def is_array(self, name: str) -> bool:
        """Return whether a file of metadata of version 3 describes an array."""
        content = self.metadata(name)
        return isinstance(content, dict) and content.get("node_type") == "array"

    def metadata(self, name: str) -> Any:
        """Return a file of JSON; None if there is none.

        Raises:
            DamagedFileError: it is not JSON.
            NotThisFormatError: it is a pointer of Git LFS.
        """
        content = self.read(name, self._place(name))
        try:
            return json.loads(content or b"null")
        except (ValueError, RecursionError):
            raise DamagedFileError(f"{name}: is not JSON") from None

    def _place(self, key: str, part: ByteRequest | None = None) -> Callable[[int], tuple[int, int]]:
        """Return the argument `place` of `read` for a part of a file; None for all of it."""

        def place(size: int) -> tuple[int, int]:
            if size == 0:  # zarr reads the fill value from it
                raise DamagedFileError(f"{key}: is empty; the store is incomplete{FETCH_AGAIN}")
            if part is None:
                found = 0, size
            elif isinstance(part, RangeByteRequest):
                found = part.start, min(part.end, size)
            elif isinstance(part, SuffixByteRequest):
                found = max(0, size - part.suffix), size
            else:
                found = part.offset, size
            self._bounds.check_block(found[1] - found[0], f"{key}: has")
            return found

        return place

    @abstractmethod
    def read(self, key: str, place: Callable[[int], tuple[int, int]]) -> bytes | None:
        """Return a part of a file, None if there is no such file.

        Args:
            key: of the file.
            place: returns the range of the part from the size of the file.
        """

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        try:
            data = self.read(key, self._place(key, byte_range))
            if data is None and self.whole and not key.endswith((".json", ".zarray", ".zattrs")):
                raise DamagedFileError(f"{key}: is missing; the store is incomplete{FETCH_AGAIN}")
        except LodError as error:
            self.error = error
            raise
        return None if data is None else prototype.buffer.from_bytes(data)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> Buffers:
        return [await self.get(key, prototype, part) for key, part in key_ranges]

    async def exists(self, key: str) -> bool:
        return self.read(key, lambda size: (0, 0)) is not None

    async def set(self, key: str, value: Buffer) -> None:
        raise UnsupportedError("this store is read-only")

    async def delete(self, key: str) -> None:
        raise UnsupportedError("this store is read-only")

    async def list(self) -> AsyncIterator[str]:
        for name in self.names():
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        for name in self.names():
            if name.startswith(prefix):
                yield name

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        start = f"{prefix}/" if prefix else ""
        below = (name[len(start) :] for name in self.names() if name.startswith(start))
        for name in dict.fromkeys(one.partition("/")[0] for one in below):
            yield name


def _is_metadata(name: str) -> bool:
    return name in ("zarr.json", ".zarray", ".zgroup", ".zattrs")


class FolderStore(ReadStore):
    """A folder, read through its descriptor: it stays the same if another one takes its name."""

    def __init__(self, source: Input) -> None:
        super().__init__(source.bounds)
        self._folder = source.listed

    def names(self) -> Keys:
        return sorted(self._walk("", 0))

    def _walk(self, prefix: str, count: int) -> Iterator[str]:
        files, folders, _ = self._folder.entries(prefix)
        yield from (prefix + name for name in files if _is_metadata(name))
        if ".zarray" in files or ("zarr.json" in files and self.is_array(f"{prefix}zarr.json")):
            folders = []  # they hold chunks
        for name in folders:
            count += 1
            if count > MOST_KEYS or prefix.count("/") > 64:
                raise UnsupportedError(
                    f"has more than {MOST_KEYS:,} folders, or 64 levels of them; read a part of it"
                )
            yield from self._walk(f"{prefix}{name}/", count)

    def read(self, key: str, place: Callable[[int], tuple[int, int]]) -> bytes | None:
        try:
            mode = self._folder.stat(key).st_mode
            if stat.S_ISDIR(mode):
                return None
            # Opening a pipe would wait for its writer.
            if not stat.S_ISREG(mode):
                raise DamagedFileError(f"{key}: is not a regular file")
            fd = self._folder.open(key)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        try:
            size = os.fstat(fd).st_size
            with naming(key):
                refuse_pointer(lambda count: files.pread(fd, count, 0), size)
            start, stop = place(size)
            parts = []
            while start < stop and (part := files.pread(fd, stop - start, start)):
                parts.append(part)
                start += len(part)
            return b"".join(parts)
        finally:
            os.close(fd)


class ZipStore(ReadStore):
    """A zip file."""

    def __init__(self, source: Input) -> None:
        super().__init__(source.bounds)
        self._archive = open_archive(source.make_seekable())
        self._infos = {info.filename: info for info in self._archive.infolist()}
        # All members are read through the same file position.
        self._lock = OpenFileLock()

    def names(self) -> Keys:
        return sorted(name for name in self._infos if _is_metadata(name.rpartition("/")[2]))

    def read(self, key: str, place: Callable[[int], tuple[int, int]]) -> bytes | None:
        info = self._infos.get(key)
        if info is None or info.is_dir():
            return None
        start, stop = place(info.file_size)
        try:
            with self._lock, self._archive.open(info) as member:
                member.seek(start)
                return member.read(stop - start)
        except (zipfile.BadZipFile, EOFError, ValueError) as error:
            raise DamagedFileError(f"{key}: {error}") from None

    def close(self) -> None:
        self._archive.close()


class Collected(ReadStore):
    """Holds the files that zarr writes until they are taken."""

    supports_writes = True

    def __init__(self) -> None:
        super().__init__(Bounds())
        self._read_only = False
        self._files: dict[str, bytes] = {}

    def taken(self) -> dict[str, bytes]:
        """Return the files written since the last call, and drop them."""
        found, self._files = self._files, {}
        return found

    def names(self) -> Keys:
        return sorted(self._files)

    def read(self, key: str, place: Callable[[int], tuple[int, int]]) -> bytes | None:
        return self._files.get(key)

    async def set(self, key: str, value: Buffer) -> None:
        self._files[key] = value.to_bytes()
