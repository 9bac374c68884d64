"""HDF5 opened with suspicion: only the constructs of docs/format.md, and nothing followed.

External links and storage, virtual datasets and variable-length data let a file read other
files or hang the library; attributes load whole. All are refused before a byte of them is
touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from h5py import h5d, h5f, h5g, h5l, h5o, h5p, h5s, h5t

from lodcli.formats.container.header import LIMIT_BYTES, PATH, DatasetEntry
from lodcli.formats.container.types import hdf5_type
from lodcli.formats.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.interrupts import shielded
from lodcli.kernels.checks import Array
from lodcli.kernels.errors import UnsupportedError

SIGNATURE = b"\x89HDF\r\n\x1a\n"
FILTERS = {1: "deflate", 2: "shuffle", 32004: "lz4", 32015: "zstd"}
FOREIGN_FILTERS = {3: "fletcher32", 5: "nbit", 6: "scaleoffset"}
# Deflate cannot expand further; what declares more was not written by a compressor.
MAX_EXPANSION = 1100
MAX_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class StoredDataset:
    """A dataset found to be as the header says.

    Attributes:
        offset: where its rows lie in the file; None if chunked, or without bytes.
        handle: the open HDF5 dataset.
    """

    offset: int | None
    handle: h5d.DatasetID


@contextmanager
def _damage(what: str) -> Iterator[None]:
    """Turn what HDF5 raises on broken metadata into our error."""
    try:
        with shielded():
            yield
    except (RuntimeError, ValueError, KeyError, OSError, TypeError, UnicodeDecodeError) as error:
        if isinstance(error, DamagedFileError | UnsupportedError | NotThisFormatError):
            raise
        words = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DamagedFileError(f"{what}: HDF5 cannot read it ({words})") from None


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
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_file_locking(False, True)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        with _damage("file"):
            # By descriptor: a rename between two opens must not mix two files.
            self._file = h5f.open(f"/dev/fd/{fd}".encode(), h5f.ACC_RDONLY, fapl=access)
            self._root = h5g.open(self._file, b"/")
        self._extents: list[tuple[int, int, str]] = []

    def close(self) -> None:
        """Close the file in HDF5."""
        with shielded():
            self._file.close()

    def header(self) -> tuple[int, int]:
        """Return the place and the size of the header's text."""
        with _damage(PATH):
            if PATH[1:] not in self._names(self._root, "/"):
                raise NotThisFormatError(
                    "an HDF5 file, but no lod container (no /header); name its datasets with "
                    "--data and --offsets to import it"
                )
            dataset = self._dataset(PATH)
            kind = dataset.get_type()
            if kind.get_class() != h5t.STRING or kind.is_variable_str():
                raise DamagedFileError(f"{PATH}: must be a fixed-length string")
            if dataset.shape != () or not 2 <= kind.get_size() <= min(LIMIT_BYTES, self._size):
                raise DamagedFileError(f"{PATH}: must be one string within the file")
            offset = self._place(dataset, PATH, kind.get_size())
            if offset is None:
                raise DamagedFileError(f"{PATH}: must be contiguous")
            return offset, int(kind.get_size())

    def check_names(self, paths: list[str]) -> None:
        """Raise DamagedFileError unless the file holds exactly these datasets."""
        groups: dict[str, set[str]] = {"/": set()}
        for path in paths:
            parts = path.strip("/").split("/")
            for depth, part in enumerate(parts):
                parent = "/" + "/".join(parts[:depth])
                groups.setdefault(parent, set()).add(part)
        for group, expected in groups.items():
            with _damage(group):
                found = self._names(self._object(group, h5g.GroupID), group)
            for name in sorted(expected ^ found):
                where = f"{group.rstrip('/')}/{name}"
                problem = "is missing" if name in expected else "is not named by the header"
                raise DamagedFileError(f"{where}: {problem}")

    def dataset(self, path: str, entry: DatasetEntry) -> StoredDataset:
        """Return the dataset at `path`, checked against what the header says of it."""
        with _damage(path):
            dataset = self._dataset(path)
            if not dataset.get_type() == hdf5_type(entry.dtype):
                raise DamagedFileError(f"{path}: is not stored as little-endian {entry.dtype}")
            if dataset.shape != entry.shape:
                raise DamagedFileError(
                    f"{path}: expected shape {entry.shape}, found {dataset.shape}"
                )
            size = hdf5_type(entry.dtype).get_size()
            for extent in entry.shape:
                size *= extent
            plist = dataset.get_create_plist()
            if plist.get_layout() == h5d.CHUNKED:
                self._check_chunks(dataset, path, entry, size)
                return StoredDataset(None, dataset)
            return StoredDataset(self._place(dataset, path, size), dataset)

    def foreign_dataset(self, path: str) -> h5d.DatasetID:
        """Return a dataset of someone's plain HDF5 file, of numbers and within the file."""
        with _damage(path):
            try:
                dataset = self._dataset(path)
            except KeyError:
                raise DamagedFileError(f"{path}: there is no such dataset") from None
            kinds = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND)
            if dataset.get_type().get_class() not in kinds:
                raise UnsupportedError(f"{path}: holds no numbers ({dataset.dtype})")
            size = dataset.get_type().get_size()
            for extent in dataset.shape:
                size *= extent
            layout = dataset.get_create_plist().get_layout()
            if layout == h5d.CONTIGUOUS:
                self._place(dataset, path, size)
            elif size > self._size * MAX_EXPANSION + MAX_CHUNK_BYTES:
                raise DamagedFileError(f"{path}: {size} bytes cannot come from this file")
            return dataset

    def check_overlaps(self) -> None:
        """Raise DamagedFileError if two datasets claim the same bytes."""
        self._extents.sort()
        for (_, end, first), (start, _, second) in zip(
            self._extents, self._extents[1:], strict=False
        ):
            if start < end:
                raise DamagedFileError(f"{second}: overlaps {first}")

    def _object(self, path: str, kind: type[h5g.GroupID] | type[h5d.DatasetID]) -> object:
        """Return what is at `path`, every component of which must be a hard link."""
        place: object = self._root
        for part in [part for part in path.split("/") if part]:
            if not isinstance(place, h5g.GroupID):
                raise DamagedFileError(f"{path}: a component is no group")
            name = part.encode()
            if place.links.get_info(name).type != h5l.TYPE_HARD:
                raise DamagedFileError(f"{path}: {part!r} is a soft or external link")
            place = h5o.open(place, name)
        if not isinstance(place, kind):
            raise DamagedFileError(f"{path}: is a {type(place).__name__[:-2].lower()}")
        self._refuse_attributes(place, path)
        return place

    def _refuse_attributes(self, place: object, path: str) -> None:
        if not self._foreign and h5o.get_info(place).num_attrs:
            raise DamagedFileError(f"{path}: has attributes; a lod container has none")

    def _names(self, group: object, path: str) -> set[str]:
        assert isinstance(group, h5g.GroupID)
        self._refuse_attributes(group, path)
        names = set()
        for index in range(group.get_num_objs()):
            name = group.get_objname_by_idx(index)
            if group.links.get_info(name).type != h5l.TYPE_HARD:
                raise DamagedFileError(
                    f"{path.rstrip('/')}/{name.decode(errors='replace')}: "
                    "is a soft or external link; a lod container has none"
                )
            names.add(name.decode())
        return names

    def _dataset(self, path: str) -> h5d.DatasetID:
        dataset = self._object(path, h5d.DatasetID)
        assert isinstance(dataset, h5d.DatasetID)
        plist = dataset.get_create_plist()
        if plist.get_layout() not in self._layouts:
            kind = "virtual" if plist.get_layout() == h5d.VIRTUAL else "compact"
            raise DamagedFileError(f"{path}: is {kind}; must be contiguous or chunked")
        if plist.get_external_count():
            raise DamagedFileError(f"{path}: is stored in another file")
        for number in range(plist.get_nfilters()):
            code = plist.get_filter(number)[0]
            if code not in self._filters:
                allowed = ", ".join(self._filters.values())
                raise DamagedFileError(f"{path}: filter {code} is not allowed ({allowed})")
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
        stored = dataset.get_storage_size()
        if stored > self._size or size > stored * MAX_EXPANSION + MAX_CHUNK_BYTES:
            raise DamagedFileError(f"{path}: {size} bytes cannot come from {stored} stored ones")


def read_rows(
    dataset: h5d.DatasetID, path: str, start: int, out: Array, *, convert: bool = False
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
    with _damage(path):
        space = dataset.get_space()
        space.select_hyperslab((start, *(0,) * (len(shape) - 1)), shape)
        kind = h5t.py_create(out.dtype, logical=True) if convert else dataset.get_type()
        dataset.read(h5s.create_simple(shape), space, out, kind)
