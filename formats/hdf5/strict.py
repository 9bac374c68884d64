"""Opens untrusted HDF5: datasets of numbers and of texts of fixed length, without following links.

External links and storage, virtual datasets and variable-length data let a file read other
files or hang the library. All raise an error before any of their data is read. Of attributes, only
those of the root are read, and of a dataset those that say what its values are. Since damaged
metadata can crash or hang libhdf5 itself, it runs in a sandboxed child process (`Format.isolated`).
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h5py
import ml_dtypes
import numpy as np
from h5py import h5a, h5d, h5f, h5fd, h5g, h5l, h5o, h5p, h5s, h5t
from h5py._objects import phil

from lodcli.formats.core.errors import FETCH_AGAIN, DamagedFileError
from lodcli.formats.hdf5.columns import Column, column_of
from lodcli.formats.hdf5.file_objects import GuardedFile, find_superblock, require_memory
from lodcli.formats.hdf5.filters import check_filters
from lodcli.formats.storage.interrupts import shielded
from lodcli.formats.values.netcdf import (
    CALENDAR,
    CONVENTIONS,
    INSTANCES,
    UNITS,
    UNSIGNED,
    changes_sign,
)
from lodcli.kernels.errors import InvalidDataError, LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.marks import MOST_ATTRIBUTE_BYTES, attributes_text

LAYOUTS = (h5d.CONTIGUOUS, h5d.CHUNKED, h5d.COMPACT)
# Limit on rows without bytes, to which limits on bytes do not apply.
FREE_ROWS = 1 << 20
# What HDF5 says of a truncated file: its size without the user block at its beginning, the size of
# that block, and the size that the file declares.
_TRUNCATED = re.compile(
    r"truncated file: eof = (\d+), sblock->base_addr = (\d+), stored_eof = (\d+)"
)
# Limits on names in a message.
MOST_OFFERED, MOST_NAME_CHARS = 10, 60
# Limit on the attributes of the root.
MOST_ATTRIBUTES = 1000
# Attributes of a dataset, or of the group around it, that holds the sizes of an empty array.
_EMPTY_MARKS = (b"MATLAB_empty", b"OCTAVE_EMPTY_MATRIX")
# Attributes by which netCDF is known: of a variable, and of the root.
_NETCDF_MARKS, _NETCDF_FILE = (b"_Encoding", b"DIMENSION_LIST"), b"_NCProperties"
_MATLAB_CLASS = "MATLAB_class"
# The type of numbers that HDFStore of pandas stores for times; older versions omit nanoseconds.
_PANDAS_TIMES = re.compile(r"datetime64(?:\[(s|ms|us|ns)\])?")
_COPY = "copy it with h5py, file[NEW] = file[NAME][()]"

# SystemError: an error of lod's file object that HDF5 ignored.
RAISED = (RuntimeError, ValueError, LookupError, OSError, TypeError, SystemError)


class StrictFile:
    """An untrusted HDF5 file. Attributes are only read by `attributes`, `conventions`,
    `units` and `is_of_characters`.

    Args:
        fd: an open descriptor of the file; the caller keeps and closes it.
    """

    def __init__(self, fd: int) -> None:
        self._size = os.fstat(fd).st_size
        self._reading = GuardedFile(fd, find_superblock(fd, self._size))
        require_memory()
        access = h5p.create(h5p.FILE_ACCESS)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_fileobj_driver(h5fd.fileobj_driver, self._reading)
        with self.damage("file"):
            self._file = h5f.open(repr(self._reading).encode(), h5f.ACC_RDONLY, fapl=access)
            self._root = h5g.open(self._file, b"/")
        # The groups of the path that was opened last, from the root, and their names.
        self._way: list[str] = []
        self._groups: list[h5g.GroupID] = [self._root]

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
        except RAISED as error:
            self._reading.raise_error()
            if isinstance(error, LodError):
                raise
            raise unreadable(what, error) from None
        self._reading.raise_error()

    def dataset(self, path: str) -> h5d.DatasetID:
        """Return a dataset of numbers, none of whose items is an array."""
        found = self.column(path)
        if found.text or found.item_shape:
            raise UnsupportedError(f"{path}: holds no numbers ({found.dataset.dtype})")
        return found.dataset

    def column(self, path: str, *, bfloat16: bool = False) -> Column:
        """Return a dataset stored within the file, or a field of its compounds.

        Args:
            path: of the dataset, or the field.
            bfloat16: opaque values of two bytes are bfloat16, as h5py writes them.
        """
        with self.damage(path):
            dataset, members = self._opened(path)
            plist = dataset.get_create_plist()
            _check_storage(plist, path)
            if dataset.get_space().get_simple_extent_type() == h5s.NULL:
                raise UnsupportedError(f"{path}: holds nothing (a null dataspace)")
            kind = dataset.get_type()
            if bfloat16 and kind.get_class() == h5t.OPAQUE and kind.get_size() == 2:
                found = Column(path, dataset, kind, np.dtype(ml_dtypes.bfloat16), (), text=False)
            else:
                found = column_of(dataset, members, path)
            if plist.get_layout() == h5d.CONTIGUOUS:
                self._check_place(dataset, kind, path)
            if not found.size_bytes and found.shape and found.shape[0] > self._size + FREE_ROWS:
                raise DamagedFileError(f"{path}: {found.shape[0]} rows without values")
            return found

    def read_rows(self, column: Column, start: int, out: Array) -> None:
        """Fill `out` (n, D1, ..) with rows start.. of a column, converted to its dtype.

        Args:
            column: from `column`.
            start: the first row.
            out: where the rows go, C-contiguous, of the shape and dtype of the column's rows.
        """
        if 0 in out.shape:
            return
        with self.damage(column.path):
            stored = (out.shape[0], *column.dataset.shape[1:])
            space = column.dataset.get_space()
            if column.dataset.shape:
                space.select_hyperslab((start, *(0,) * (len(stored) - 1)), stored)
            # One element for each item of the dataset, as HDF5 counts; an item may be an array.
            items = out.reshape(-1).view(f"V{column.memory.get_size()}").reshape(stored)
            column.dataset.read(h5s.create_simple(stored), space, items, column.memory)

    def place(self, column: Column) -> int | None:
        """Return where the rows of a column are in the file, if they are stored as in memory.

        None if HDF5 has to convert or to collect them.
        """
        with self.damage(column.path):
            if column.dataset.get_type() != column.memory:
                return None
            place: int | None = column.dataset.get_offset()  # None unless contiguous and written
            return place

    def read_at(self, path: str, place: int, out: Array) -> None:
        """Fill `out` with the bytes at a place in the file, from `place`."""
        # The lock of h5py, in which HDF5 moves the position of the same file object.
        with self.damage(path), phil:
            self._reading.seek(place)
            # Fills all of it, or raises: the number of bytes need not be checked.
            self._reading.readinto(out.reshape(-1).view(np.uint8))

    def attributes(self) -> tuple[dict[str, Any], list[str]]:
        """Return the attributes of the root that are text or numbers, and the names of others.

        That of the netCDF library is left out: it is the version that wrote the file.
        """
        found: dict[str, Any] = {}
        others: list[str] = []
        with self.damage("attributes of the file"):
            stored = h5py.Group(self._root).attrs
            if (count := len(stored)) > MOST_ATTRIBUTES:
                raise UnsupportedError(f"{count} attributes, at most {MOST_ATTRIBUTES}")
            for name in stored:
                if name == _NETCDF_FILE.decode():
                    continue
                value = _plain(stored, name)
                if value is None:
                    others.append(name)
                else:
                    found[name] = value
        return found, others

    def conventions(self, column: Column) -> list[str]:
        """Return the attributes of a dataset by which readers of netCDF change its values."""
        with self.damage(column.path):
            named = [name for name in CONVENTIONS if h5a.exists(column.dataset, name.encode())]
            if UNSIGNED in named:
                value = _plain(h5py.Dataset(column.dataset).attrs, UNSIGNED)
                if column.text or not changes_sign(value, column.dtype):
                    named.remove(UNSIGNED)
            return [name for name in named if not _is_nan(column.dataset, name)]

    def is_of_characters(self, column: Column) -> bool:
        """Return whether the numbers of a dataset are characters of MATLAB or Octave."""
        if column.dtype == np.uint16:
            with self.damage(column.path):
                if not h5a.exists(column.dataset, _MATLAB_CLASS.encode()):
                    return False
                return bool(_plain(h5py.Dataset(column.dataset).attrs, _MATLAB_CLASS) == "char")
        above, _, name = column.path.rpartition("/")
        if column.dtype != np.int8 or name != "value":
            return False
        try:
            kind = self.column(f"{above}/type")
        except (SelectionError, UnsupportedError):
            return False
        if not kind.text or len(kind.shape) != 1 or kind.size_bytes > MOST_NAME_CHARS:
            return False
        out: Array = np.zeros((1, kind.shape[0]), np.uint8)
        self.read_rows(kind, 0, out)
        return out.tobytes().rstrip(b"\0") in (b"string", b"sq_string")

    def units(self, column: Column) -> dict[str, Any]:
        """Return what the numbers of a dataset count, as attributes of netCDF would."""
        field = column.path.rpartition("/")[2]
        with self.damage(column.path):
            if not h5a.get_num_attrs(column.dataset):  # as nearly always
                return {}
            stored = h5py.Dataset(column.dataset).attrs
            if h5a.exists(column.dataset, UNITS.encode()):
                return {name: _plain(stored, name) for name in (UNITS, CALENDAR) if name in stored}
            if column.dtype != np.int64:
                return {}
            # The attributes of pandas: of values and of the index, in its two layouts.
            for name in ("value_type", "kind", f"{field}_dtype", f"{field}_kind"):
                if h5a.exists(column.dataset, name.encode()):
                    found = _PANDAS_TIMES.fullmatch(str(_plain(stored, name)))
                    if found:
                        return {UNITS: f"{found[1] or 'ns'} since 1970-01-01"}
            return {}

    def is_of_netcdf(self, column: Column) -> bool:
        """Return whether netCDF wrote a dataset: its mark, or one of the file."""
        with self.damage(column.path):
            marked = any(h5a.exists(column.dataset, mark) for mark in _NETCDF_MARKS)
            return marked or bool(h5a.exists(self._root, _NETCDF_FILE))

    def is_instance_index(self, column: Column) -> bool:
        """Return whether a dataset is the index variable of an indexed ragged array of CF."""
        with self.damage(column.path):
            return bool(h5a.exists(column.dataset, INSTANCES.encode()))

    def unwritten(self, column: Column) -> str | None:
        """Return a description of the part of a column that was never written; None if all was.

        Raises:
            UnsupportedError: it has no fill value.
        """
        with self.damage(column.path):
            plist = column.dataset.get_create_plist()
            found = _unwritten(column, plist) if column.size_bytes else None
            if found is not None and (
                plist.fill_value_defined() == h5d.FILL_VALUE_UNDEFINED
                or plist.get_fill_time() == h5d.FILL_TIME_NEVER
            ):
                # HDF5 would leave the memory as it is.
                raise UnsupportedError(
                    f"{column.path}: {found} never written, and it has no fill value"
                )
            return found

    def _opened(self, path: str) -> tuple[h5d.DatasetID, list[str]]:
        """Return the dataset at `path`, and the rest of the path: a field of its compounds.

        Every component must be a hard link.
        """
        parts = [part for part in path.split("/") if part]
        # Datasets of a pattern are opened one after another, and most are in the same groups.
        pairs = zip(self._way, parts[:-1], strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        del self._way[same:], self._groups[same + 1 :]
        place: object = self._groups[-1]
        for depth, part in enumerate(parts[same:], same):
            if isinstance(place, h5d.DatasetID):
                return place, parts[depth:]
            if not isinstance(place, h5g.GroupID):
                raise SelectionError(f"{path}: a component is not a group")
            name = part.encode()
            if not place.links.exists(name):
                names = _names_in(place)
                beside = f"; beside it are: {names}" if names else ""
                _, mark, inner = path.rpartition("::")
                if mark and _holds(place, inner):
                    beside = f"; give its name alone: {inner}"
                raise SelectionError(f"{path}: there is no such dataset{beside}")
            if place.links.get_info(name).type != h5l.TYPE_HARD:
                raise UnsupportedError(f"{path}: {part!r} is {link_text(place, name)}")
            place = h5o.open(place, name)
            if any(h5a.exists(place, mark) for mark in _EMPTY_MARKS):
                raise UnsupportedError(
                    f"{path}: is an empty array of MATLAB or Octave, which store its sizes as "
                    "values; leave it out"
                )
            if isinstance(place, h5g.GroupID):
                self._way.append(part)
                self._groups.append(place)
        if isinstance(place, h5d.DatasetID):
            return place, []
        inside = _names_in(place) if isinstance(place, h5g.GroupID) else ""
        raise SelectionError(
            f"{path}: expected a dataset, found a {type(place).__name__[:-2].lower()}"
            + (f" with {inside}" if inside else "")
        )

    def _check_place(self, dataset: h5d.DatasetID, kind: h5t.TypeID, path: str) -> None:
        """Raise DamagedFileError for rows beyond the end of the file, of a contiguous dataset."""
        offset = dataset.get_offset()
        size = kind.get_size() * math.prod(dataset.shape)
        if size and offset is not None and offset + size > self._size:
            raise DamagedFileError(
                f"{path}: needs bytes {offset} to {offset + size}, the file ends at {self._size}; "
                f"it is truncated{FETCH_AGAIN}"
            )


def _check_storage(plist: h5p.PropDCID, path: str) -> None:
    """Raise UnsupportedError for rows in other datasets or files, or with unknown filters."""
    if plist.get_layout() not in LAYOUTS:
        raise UnsupportedError(
            f"{path}: is a virtual dataset, whose rows are in other datasets; {_COPY}"
        )
    if plist.get_external_count():
        raise UnsupportedError(f"{path}: is stored in another file; {_COPY}")
    check_filters(plist, path)


def unreadable(what: str, error: Exception) -> DamagedFileError:
    """Return the error for content that HDF5 or h5py cannot read."""
    # Of a KeyError, str() would be the repr.
    lines = str(error.args[0]).splitlines() if error.args else []
    words = lines[0][:200] if lines else type(error).__name__
    if cut := _TRUNCATED.search(words):
        size = int(cut[1]) + int(cut[2])
        return DamagedFileError(
            f"{what}: is truncated (expected {cut[3]} bytes, found {size}){FETCH_AGAIN}"
        )
    return DamagedFileError(f"{what}: HDF5 cannot read it ({words})")


def _plain(stored: h5py.AttributeManager, name: str) -> Any:
    """Return an attribute as a JSON value; None if it is neither text nor numbers."""
    attribute = stored.get_id(name)
    kind, shape = attribute.get_type(), attribute.shape
    if kind.get_class() == h5t.STRING and shape is None:
        return ""  # as PyTables and netCDF write it
    if kind.get_class() not in (h5t.INTEGER, h5t.FLOAT, h5t.STRING) or shape is None:
        return None
    if shape == (0,):
        return []  # for its size, HDF5 reports an error
    if len(shape) > 1 or attribute.get_storage_size() > MOST_ATTRIBUTE_BYTES:
        return None
    value = stored[name]
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    try:
        plain = [*map(_decoded, value)] if shape else _decoded(value)
        attributes_text({name: plain})
    except (UnicodeDecodeError, InvalidDataError):
        return None  # no UTF-8, nan, or too long
    return plain


def _is_nan(dataset: h5d.DatasetID, name: str) -> bool:
    """Return whether an attribute is NaN, which xarray gives as the missing value of all floats."""
    attribute = h5a.open(dataset, name.encode())
    if attribute.get_type().get_class() != h5t.FLOAT or attribute.shape not in ((), (1,)):
        return False
    value: Array = np.empty(attribute.shape, np.float64)
    attribute.read(value)
    return bool(np.isnan(value).all())


def _decoded(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _unwritten(column: Column, plist: h5p.PropDCID) -> str | None:
    dataset, layout = column.dataset, plist.get_layout()
    if layout == h5d.COMPACT:
        return None
    if layout == h5d.CONTIGUOUS:
        return "the rows were" if dataset.get_offset() is None else None
    sizes = zip(dataset.shape, plist.get_chunk(), strict=True)
    count = math.prod(-(-size // chunk) for size, chunk in sizes)
    stored = dataset.get_num_chunks()
    return f"{count - stored} of {count} chunks were" if stored < count else None


def _holds(group: h5g.GroupID, path: str) -> bool:
    """Return whether there is something at a path below a group, without following links."""
    place: object = group
    for part in filter(None, path.encode().split(b"/")):
        if not isinstance(place, h5g.GroupID) or not place.links.exists(part):
            return False
        if place.links.get_info(part).type != h5l.TYPE_HARD:
            return False
        place = h5o.open(place, part)
    return place is not group


def _names_in(group: h5g.GroupID) -> str:
    """Return some names in a group, for a message; "" if there are none."""
    names: list[str] = []
    for name in group:
        if len(names) == MOST_OFFERED:
            names.append("..")
            break
        names.append(name.decode("utf-8", "replace")[:MOST_NAME_CHARS])
    return ", ".join(names)


def link_text(group: h5g.GroupID, name: bytes) -> str:
    """Return a description of a soft or external link, for a message."""
    leads = group.links.get_val(name)
    if isinstance(leads, bytes):
        return f"a soft link, which is not followed; name its target {_shown(leads)} instead"
    if group.links.get_info(name).type != h5l.TYPE_EXTERNAL:
        return "a link of an unknown kind"
    file, path = leads
    return f"an external link, which is not followed; read {_shown(path)} of {_shown(file)} instead"


def _shown(name: bytes) -> str:
    return ascii(name.decode("utf-8", "replace"))[: 4 * MOST_NAME_CHARS]
