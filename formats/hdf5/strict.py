"""Opens untrusted HDF5: numeric datasets only, without following links.

External links and storage, virtual datasets and variable-length data let a file read other
files or hang the library; attributes load whole. All are refused before a byte of them is
touched. What libhdf5 itself may do with damaged metadata, it does in a sandboxed child process
(`Format.isolated`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from h5py import h5d, h5f, h5fd, h5g, h5l, h5o, h5p, h5s, h5t

from lodcli.formats.container.chunks import CODECS
from lodcli.formats.container.hdf5plugin import register
from lodcli.formats.container.owned import require_memory
from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.hdf5.guarded import GuardedFile
from lodcli.formats.storage.interrupts import shielded
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.platform import files

SIGNATURE = b"\x89HDF\r\n\x1a\n"
FILTERS = {1: "deflate", 2: "shuffle", 3: "fletcher32", 5: "nbit", 6: "scaleoffset"}
FILTERS |= {code: name for name, code in CODECS.items()}
LAYOUTS = (h5d.CONTIGUOUS, h5d.CHUNKED, h5d.COMPACT)
# Deflate cannot expand further; what declares more was not written by a compressor.
MAX_EXPANSION = 1100
FREE_BYTES = 1 << 20
# Of names in a message.
MOST_OFFERED, MOST_NAME_CHARS = 10, 60

# SystemError: an error of lod's file object that HDF5 ignored.
_RAISED = (RuntimeError, ValueError, LookupError, OSError, TypeError, SystemError)


class StrictFile:
    """Someone's HDF5 file. Attributes are never read.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
        size: bytes of the file.
    """

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        self._reading = GuardedFile(fd, _find_superblock(fd, size))
        require_memory()
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_fileobj_driver(h5fd.fileobj_driver, self._reading)
        with self.damage("file"):
            self._file = h5f.open(repr(self._reading).encode(), h5f.ACC_RDONLY, fapl=access)
            self._root = h5g.open(self._file, b"/")

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
        """Convert HDF5's errors for broken metadata to DamagedFileError."""
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

    def dataset(self, path: str) -> h5d.DatasetID:
        """Return a numeric dataset stored within the file."""
        with self.damage(path):
            dataset = self._opened(path)
            self._check_storage(dataset, path)
            if dataset.get_space().get_simple_extent_type() == h5s.NULL:
                raise UnsupportedError(f"{path}: holds nothing (a null dataspace)")
            kind = dataset.get_type()
            if kind.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND):
                raise UnsupportedError(f"{path}: holds no numbers ({dataset.dtype})")
            native(dataset, path)
            size = kind.get_size() * math.prod(dataset.shape)
            if dataset.get_create_plist().get_layout() == h5d.CONTIGUOUS:
                self._check_place(dataset.get_offset(), path, size)
            else:
                self._refuse_expansion(path, size)
            if not size:
                self._refuse_expansion(path, dataset.shape[0] if dataset.shape else 0)
            return dataset

    def read_rows(self, dataset: h5d.DatasetID, path: str, start: int, out: Array) -> None:
        """Fill `out` (n, D1, ..) with rows start.. of a dataset, converted to its dtype.

        Args:
            dataset: checked before.
            path: for messages.
            start: the first row.
            out: where the rows go, C-contiguous.
        """
        shape = out.shape
        if 0 in shape:
            return
        with self.damage(path):
            space = dataset.get_space()
            space.select_hyperslab((start, *(0,) * (len(shape) - 1)), shape)
            kind = h5t.py_create(out.dtype, logical=True)
            dataset.read(h5s.create_simple(shape), space, out, kind)

    def _opened(self, path: str) -> h5d.DatasetID:
        """Return the object at `path`; every component must be a hard link."""
        place: object = self._root
        for part in [part for part in path.split("/") if part]:
            if not isinstance(place, h5g.GroupID):
                raise DamagedFileError(f"{path}: a component is no group")
            name = part.encode()
            if not place.links.exists(name):
                raise SelectionError(f"{path}: there is no such dataset{_names_in(place)}")
            if place.links.get_info(name).type != h5l.TYPE_HARD:
                raise DamagedFileError(f"{path}: {part!r} is a soft or external link")
            place = h5o.open(place, name)
        if not isinstance(place, h5d.DatasetID):
            raise DamagedFileError(f"{path}: is a {type(place).__name__[:-2].lower()}")
        return place

    def _check_storage(self, dataset: h5d.DatasetID, path: str) -> None:
        plist = dataset.get_create_plist()
        if plist.get_layout() not in LAYOUTS:
            raise DamagedFileError(f"{path}: is virtual: other files have its rows")
        if plist.get_external_count():
            raise DamagedFileError(f"{path}: is stored in another file")
        codes = [plist.get_filter(number)[0] for number in range(plist.get_nfilters())]
        for code in codes:
            if code not in FILTERS:
                allowed = ", ".join(FILTERS.values())
                raise UnsupportedError(f"{path}: filter {code} is not allowed ({allowed})")
            if FILTERS[code] in ("lz4", "zstd"):
                register(FILTERS[code])
        if len(set(codes)) < len(codes):
            raise DamagedFileError(f"{path}: filters {codes}; none may be there twice")

    def _check_place(self, offset: int | None, path: str, size: int) -> None:
        if not size:
            return
        if offset is None or offset < 0:
            raise DamagedFileError(f"{path}: its rows were not written")
        if offset + size > self._size:
            raise DamagedFileError(
                f"{path}: needs bytes {offset} to {offset + size}, the file ends at {self._size}; "
                "it is truncated"
            )

    def _refuse_expansion(self, path: str, size: int) -> None:
        if size > self._size * MAX_EXPANSION + FREE_BYTES:
            raise DamagedFileError(
                f"{path}: {size} bytes cannot come from {self._size} stored bytes"
            )


def _names_in(group: h5g.GroupID) -> str:
    """Return some names in a group, for a message."""
    names: list[str] = []
    for name in group:
        if len(names) == MOST_OFFERED:
            names.append("..")
            break
        names.append(name.decode("utf-8", "replace")[:MOST_NAME_CHARS])
    return f"; beside it are: {', '.join(names)}" if names else ""


def native(dataset: h5d.DatasetID, path: str) -> np.dtype[Any]:
    """Return the dtype that the numbers of a dataset have in memory."""
    try:
        dtype: np.dtype[Any] = dataset.dtype
    except (TypeError, ValueError, KeyError):  # KeyError: a byte order that h5py has not
        raise UnsupportedError(
            f"{path}: holds numbers of a kind that NumPy has not, such as VAX floats; convert "
            "them with h5repack or the program that wrote them"
        ) from None
    if dtype.kind not in "biufc" or dtype.itemsize > 16 or dtype.name == "float128":
        raise UnsupportedError(f"{path}: holds {dtype}, which tensors cannot hold")
    return dtype.newbyteorder("=")


def _find_superblock(fd: int, size: int) -> int:
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
        raise NotThisFormatError("is no HDF5 file")
    if (head[13:15] if head[8:9] < b"\2" else head[9:11]) != b"\x08\x08":
        raise UnsupportedError("its addresses are not of eight bytes; rewrite it with h5repack")
    return base
