"""HDF5 opened with suspicion: only the constructs of docs/format.md, and nothing followed.

External links and storage, virtual datasets and variable-length data let a file read other
files or hang the library; attributes load whole. All are refused before a byte of them is
touched.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from h5py import h5a, h5d, h5f, h5fd, h5g, h5l, h5o, h5p, h5s, h5t

from lodcli.formats.container.chunks import CODECS, FILTERS, filters_of, read_chunk, usual
from lodcli.formats.container.header import LIMIT_BYTES, PATH, DatasetEntry
from lodcli.formats.container.owned import GuardedFile
from lodcli.formats.container.types import hdf5_type
from lodcli.formats.errors import DamagedFileError, NotThisFormatError, naming
from lodcli.formats.interrupts import shielded
from lodcli.kernels.checks import Array
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
FOREIGN_FILTERS = {3: "fletcher32", 5: "nbit", 6: "scaleoffset"}
# Deflate cannot expand further; what declares more was not written by a compressor.
MAX_EXPANSION = 1100
MAX_CHUNK_BYTES = 1 << 20
NOWHERE = b"\xff" * 8


# SystemError: an error of our own file object that HDF5 went on after.
_RAISED = (RuntimeError, ValueError, LookupError, OSError, TypeError, SystemError)


@dataclass(frozen=True)
class StoredDataset:
    """A dataset found to be as the header says.

    Attributes:
        offset: where its rows lie in the file; None if chunked, or without bytes.
        handle: the open HDF5 dataset.
    """

    offset: int | None
    handle: h5d.DatasetID


class StrictFile:
    """An HDF5 file whose structure is checked before anything is read through it.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
        size: bytes of the file.
        foreign: whether the file is someone's plain HDF5, in which attributes, compact
            datasets and HDF5's own other filters are welcome.
    """

    def __init__(self, fd: int, size: int, *, foreign: bool = False) -> None:
        self._size = size
        self._foreign = foreign
        self._filters = FILTERS | FOREIGN_FILTERS if foreign else FILTERS
        layouts = (h5d.CONTIGUOUS, h5d.CHUNKED)
        self._layouts = (*layouts, h5d.COMPACT) if foreign else layouts
        base = _find_superblock(fd, size) if foreign else _check_superblock(fd, size)
        self._reading = GuardedFile(fd, base)
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_fileobj_driver(h5fd.fileobj_driver, self._reading)
        with self.damage("file"):
            self._file = h5f.open(repr(self._reading).encode(), h5f.ACC_RDONLY, fapl=access)
            self._root = h5g.open(self._file, b"/")
        self._extents: list[tuple[int, int, str]] = []

    def close(self) -> None:
        """Close the file in HDF5."""
        with shielded():
            self._file.close()

    @property
    def root(self) -> h5g.GroupID:
        """The root group."""
        return self._root

    @contextmanager
    def damage(self, what: str) -> Iterator[None]:
        """Turn what HDF5 raises on broken metadata into our error."""
        try:
            with shielded():
                yield
        except _RAISED as error:
            self._reading.raise_error()
            if isinstance(error, LodError):
                raise
            # Of a KeyError, str() would be the repr.
            lines = str(error.args[0]).splitlines() if error.args else []
            words = lines[0][:200] if lines else type(error).__name__
            raise DamagedFileError(f"{what}: HDF5 cannot read it ({words})") from None
        self._reading.raise_error()

    def header(self) -> tuple[int, int]:
        """Return the place and the size of the header's text."""
        with self.damage(PATH):
            if not self._root.links.exists(PATH[1:].encode()):
                raise NotThisFormatError(
                    "an HDF5 file, but no lod container (no /header); name its datasets with "
                    "--data and --offsets to import it"
                )
            dataset = self._dataset(PATH)
            kind = dataset.get_type()
            if dataset.get_create_plist().get_layout() != h5d.CONTIGUOUS:
                raise DamagedFileError(f"{PATH}: must be contiguous")
            if kind.get_class() != h5t.STRING or kind.is_variable_str():
                raise DamagedFileError(f"{PATH}: must be a fixed-length string")
            size, extent = int(kind.get_size()), dataset.get_space().get_simple_extent_type()
            if extent != h5s.SCALAR or not 2 <= size <= min(LIMIT_BYTES, self._size):
                raise DamagedFileError(f"{PATH}: must be one string within the file")
            offset = self._place(dataset, PATH, size)
            assert offset is not None
            return offset, size

    def check_names(self, paths: list[str]) -> None:
        """Raise DamagedFileError unless the file holds exactly these datasets."""
        groups: dict[str, set[str]] = {"/": set()}
        for path in paths:
            parts = path.strip("/").split("/")
            for depth, part in enumerate(parts):
                parent = "/" + "/".join(parts[:depth])
                groups.setdefault(parent, set()).add(part)
        for group, expected in groups.items():
            with self.damage(group):
                self._check_group(group, expected)

    def dataset(self, path: str, entry: DatasetEntry) -> StoredDataset:
        """Return the dataset at `path`, checked against what the header says of it."""
        with self.damage(path):
            dataset = self._dataset(path)
            kind = dataset.get_type()
            if kind.committed() or not kind == hdf5_type(entry.dtype):
                raise DamagedFileError(f"{path}: is not stored as little-endian {entry.dtype}")
            if dataset.shape != entry.shape:
                raise DamagedFileError(
                    f"{path}: expected shape {entry.shape}, found {dataset.shape}"
                )
            size = kind.get_size()
            for extent in entry.shape:
                size *= extent
            if not size:
                # Such rows cost nothing in the file, but their numbers do in memory.
                self._refuse_expansion(path, entry.shape[0], self._size, "rows")
            plist = dataset.get_create_plist()
            if plist.get_layout() == h5d.CHUNKED:
                self._check_chunks(dataset, path, entry, size)
                return StoredDataset(None, dataset)
            return StoredDataset(self._place(dataset, path, size), dataset)

    def foreign_dataset(self, path: str) -> h5d.DatasetID:
        """Return a dataset of someone's plain HDF5 file, of numbers and within the file."""
        with self.damage(path):
            dataset = self._dataset(path)
            if dataset.get_space().get_simple_extent_type() == h5s.NULL:
                raise UnsupportedError(f"{path}: holds nothing (a null dataspace)")
            kinds = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND)
            if dataset.get_type().get_class() not in kinds:
                raise UnsupportedError(f"{path}: holds no numbers ({dataset.dtype})")
            size = dataset.get_type().get_size()
            for extent in dataset.shape:
                size *= extent
            layout = dataset.get_create_plist().get_layout()
            if layout == h5d.CONTIGUOUS:
                self._place(dataset, path, size)
            else:
                self._refuse_expansion(path, size, self._size)
            if not size:
                self._refuse_expansion(path, dataset.shape[0] if dataset.shape else 0, self._size)
            return dataset

    def check_overlaps(self) -> None:
        """Raise DamagedFileError if two datasets claim the same bytes."""
        self._extents.sort()
        for (_, end, first), (start, _, second) in zip(
            self._extents, self._extents[1:], strict=False
        ):
            if start < end:
                raise DamagedFileError(f"{second}: overlaps {first}")

    def read_chunks(
        self, dataset: h5d.DatasetID, path: str, start: int, rows: int, out: Array
    ) -> None:
        """Fill `out` (n, D1, ..) with rows start.. of a chunked dataset of a container.

        Args:
            dataset: checked before.
            path: for messages.
            start: the first row, at which a chunk begins.
            rows: of a chunk.
            out: where the rows go, C-contiguous; ends where a chunk or the dataset ends.
        """
        chunk: Array = np.empty((rows, *out.shape[1:]), out.dtype)
        for begin in range(0, out.shape[0], rows):
            part = out[begin : begin + rows]
            with naming(path), self.damage(path):
                decoded = read_chunk(dataset, start + begin, chunk)
            if decoded:
                part[:] = chunk[: part.shape[0]]
            else:
                self.read_rows(dataset, path, start + begin, part)

    def read_rows(
        self,
        dataset: h5d.DatasetID,
        path: str,
        start: int,
        out: Array,
        *,
        convert: bool = False,
    ) -> None:
        """Fill `out` (n, D1, ..) with rows start.. of a dataset, through HDF5.

        Args:
            dataset: checked before.
            path: for messages.
            start: the first row.
            out: where the rows go, C-contiguous.
            convert: whether HDF5 may convert to the dtype of `out`; else the bytes are taken
                as they are.
        """
        shape = out.shape
        if 0 in shape:
            return
        with self.damage(path):
            space = dataset.get_space()
            space.select_hyperslab((start, *(0,) * (len(shape) - 1)), shape)
            kind = h5t.py_create(out.dtype, logical=True) if convert else dataset.get_type()
            dataset.read(h5s.create_simple(shape), space, out, kind)

    def _object(self, path: str, kind: type[h5g.GroupID] | type[h5d.DatasetID]) -> object:
        """Return what is at `path`, every component of which must be a hard link."""
        place: object = self._root
        for part in [part for part in path.split("/") if part]:
            if not isinstance(place, h5g.GroupID):
                raise DamagedFileError(f"{path}: a component is no group")
            name = part.encode()
            if not place.links.exists(name):
                if self._foreign:  # named by a person
                    raise SelectionError(f"{path}: there is no such dataset")
                raise DamagedFileError(f"{path}: is missing")
            if place.links.get_info(name).type != h5l.TYPE_HARD:
                raise DamagedFileError(f"{path}: {part!r} is a soft or external link")
            place = h5o.open(place, name)
        if not isinstance(place, kind):
            raise DamagedFileError(f"{path}: is a {type(place).__name__[:-2].lower()}")
        if not self._foreign:
            if h5a.get_num_attrs(place):
                raise DamagedFileError(f"{path}: has attributes; a lod container has none")
            # Not h5o.get_info, which walks through all chunks to add up their index.
            names = h5g.get_objinfo(place, b".").nlink
            if names > 1:
                raise DamagedFileError(f"{path}: has {names} names; must have one")
        return place

    def _check_group(self, path: str, expected: set[str]) -> None:
        """Raise DamagedFileError unless a group links to exactly these names."""
        group = self._object(path, h5g.GroupID)
        assert isinstance(group, h5g.GroupID)

        def check(name: bytes, link: h5l.LinkInfo) -> str | None:
            """Return what is wrong with a link, which ends the iteration."""
            if link.type != h5l.TYPE_HARD:
                return f"{shown(name)}: is a soft or external link; a lod container has none"
            if name.decode(errors="replace") not in expected:
                return f"{shown(name)}: is not named by the header"
            found.add(name.decode())
            return None

        def shown(name: bytes) -> str:
            return f"{path.rstrip('/')}/{name.decode(errors='replace')[:255]}"

        found: set[str] = set()
        # Not one by one, which takes quadratic time where somebody made a million links.
        problem, _ = group.links.iterate(check, info=True)
        if problem:
            raise DamagedFileError(problem)
        for name in sorted(expected - found):
            raise DamagedFileError(f"{path.rstrip('/')}/{name}: is missing")

    def _dataset(self, path: str) -> h5d.DatasetID:
        dataset = self._object(path, h5d.DatasetID)
        assert isinstance(dataset, h5d.DatasetID)
        plist = dataset.get_create_plist()
        if plist.get_layout() not in self._layouts:
            kind = "virtual" if plist.get_layout() == h5d.VIRTUAL else "compact"
            raise DamagedFileError(f"{path}: is {kind}; must be contiguous or chunked")
        if plist.get_external_count():
            raise DamagedFileError(f"{path}: is stored in another file")
        filters = filters_of(plist)
        for code in filters:
            if code not in self._filters:
                allowed = ", ".join(self._filters.values())
                refusal = UnsupportedError if self._foreign else DamagedFileError
                raise refusal(f"{path}: filter {code} is not allowed ({allowed})")
            if code in (CODECS["lz4"], CODECS["zstd"]):
                load_codec(FILTERS[code])
        if len(set(filters)) < len(filters) or not (self._foreign or usual(filters)):
            raise DamagedFileError(
                f"{path}: filters {filters}; must be shuffle, one codec, or both in this order"
            )
        return dataset

    def _place(self, dataset: h5d.DatasetID, path: str, size: int) -> int | None:
        offset = dataset.get_offset()
        if size == 0:
            return None
        if offset is None or offset < 0:
            raise DamagedFileError(f"{path}: its rows were never written")
        if offset + size > self._size:
            raise DamagedFileError(
                f"{path}: needs bytes {offset} to {offset + size}, the file ends at {self._size}; "
                "it is truncated"
            )
        self._extents.append((offset, offset + size, path))
        return int(offset)

    def _check_chunks(
        self, dataset: h5d.DatasetID, path: str, entry: DatasetEntry, size: int
    ) -> None:
        chunk = dataset.get_create_plist().get_chunk()
        if chunk != (entry.block_rows, *(max(1, extent) for extent in entry.shape[1:])):
            raise DamagedFileError(
                f"{path}: chunks of {chunk} are not whole rows by blocks of {entry.block_rows}"
            )
        row_bytes = size // max(1, entry.shape[0])
        if entry.block_rows > 1 and entry.block_rows * row_bytes > MAX_CHUNK_BYTES:
            raise DamagedFileError(f"{path}: chunks of {chunk} are too large")
        blocks = -(-entry.shape[0] // entry.block_rows) if size else 0
        if blocks and dataset.get_num_chunks() != blocks:
            raise DamagedFileError(
                f"{path}: {blocks} chunks expected, found {dataset.get_num_chunks()}"
            )
        self._refuse_expansion(path, size, min(dataset.get_storage_size(), self._size))

    def _refuse_expansion(self, path: str, size: int, stored: int, what: str = "bytes") -> None:
        if size > stored * MAX_EXPANSION + MAX_CHUNK_BYTES:
            raise DamagedFileError(f"{path}: {size} {what} cannot come from {stored} stored bytes")


def _find_superblock(fd: int, size: int) -> int:
    """Return where HDF5 finds its signature: at 0, 512, 1024, 2048, ..

    Raises:
        NotThisFormatError: nowhere.
        UnsupportedError: the file has addresses of an unusual width.
    """
    base = 0
    while base < size and os.pread(fd, len(SIGNATURE), base) != SIGNATURE:
        base = base * 2 or 512
    head = os.pread(fd, 16, base)
    if not head.startswith(SIGNATURE):
        raise NotThisFormatError("is no HDF5 file")
    if (head[13:15] if head[8:9] < b"\2" else head[9:11]) != b"\x08\x08":
        raise UnsupportedError("its addresses are not of eight bytes; rewrite it with h5repack")
    return base


def _check_superblock(fd: int, size: int) -> int:
    """Return 0, where the superblock is, if the file ends where it says.

    HDF5 itself looks for its signature further on as well, and ignores what lies behind.
    """
    head = os.pread(fd, 64, 0)
    if not head.startswith(SIGNATURE):
        raise NotThisFormatError("is no HDF5 file")
    # Where the version is, how wide addresses are, the base address, the end of the file.
    version = head[8] if len(head) == 64 else -1
    if version in (0, 1):
        widths, base, end = head[13:15], 24 + 4 * version, 40 + 4 * version
        driver = head[48 + 4 * version :][:8]
    elif version in (2, 3):
        widths, base, end, driver = head[9:11], 12, 28, NOWHERE
    else:
        raise DamagedFileError("file: its superblock is damaged or of an unknown version")
    if widths != b"\x08\x08" or any(head[base : base + 8]) or driver != NOWHERE:
        raise DamagedFileError("file: its superblock is not that of a lod container")
    announced = int.from_bytes(head[end : end + 8], "little")
    if announced != size:
        what = "is truncated" if size < announced else "has bytes behind its end"
        raise DamagedFileError(f"file: {what} (expected {announced} bytes, found {size})")
    return 0


def load_codec(name: str) -> None:
    """Make the lz4 and zstd filters known to HDF5."""
    from lodcli.formats.container.hdf5plugin import register

    register(name)
