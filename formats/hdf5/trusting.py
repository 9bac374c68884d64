"""Reads HDF5 with h5py: attributes, text, variable-length data. Only in a child process.

A damaged file can make these hang, crash, or return what is not there, so formats that need
them are read in a child process (`Format.isolated`): docs/decisions/0012.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import h5py
import numpy as np
from h5py import h5l

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.hdf5.file_objects import GuardedFile, find_superblock, require_memory
from lodcli.formats.hdf5.filters import check_filters
from lodcli.formats.hdf5.strict import RAISED, link_text, unreadable
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import LodError, SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array


@contextmanager
def damage(path: str) -> Iterator[None]:
    """Convert h5py's errors for damaged files to DamagedFileError."""
    try:
        yield
    except LodError:
        raise
    except RAISED as error:
        if getattr(error, "errno", None):  # of the operating system
            raise
        raise unreadable(path, error) from None


def opened(fd: int) -> h5py.File:
    """Return the file behind a descriptor, which stays open.

    Raises:
        NotThisFormatError, DamagedFileError: it is not an HDF5 file, or HDF5 cannot open it.
    """
    require_memory()
    base = find_superblock(fd, os.fstat(fd).st_size)
    with damage("file"):
        return h5py.File(GuardedFile(fd, base), "r")


def dataset(file: h5py.File, path: str, *, chosen: bool = False) -> h5py.Dataset:
    """Return the dataset at `path`.

    Raises:
        SelectionError: it is missing, and `chosen`: the user named it.
        DamagedFileError: it is missing, and not `chosen`.
        UnsupportedError: it is stored in other files, behind a link, or has an unknown filter.
    """
    found = _found(file, path, chosen)
    if not isinstance(found, h5py.Dataset):
        raise _missing(f"{path}: is not a dataset", chosen)
    with damage(path):
        # External storage may be any file, and the child process cannot open files.
        if found.is_virtual or found.external:
            raise UnsupportedError(f"{path}: is stored in other files")
        check_filters(found.id.get_create_plist(), path)
    return found


def dataset_or_field(file: h5py.File, path: str) -> tuple[h5py.Dataset, str | None]:
    """Return the dataset at a path that the user named; or a dataset of compounds and its field.

    Raises:
        SelectionError: there is neither.
        UnsupportedError: see `dataset`.
    """
    above, _, name = path.rpartition("/")
    if node(file, path) is None and above and isinstance(node(file, above), h5py.Dataset):
        found = dataset(file, above)
        with damage(above):
            names = found.dtype.names or ()
        if name not in names:
            raise SelectionError(f"{path}: there is no such field")
        return found, name
    return dataset(file, path, chosen=True), None


def group(file: h5py.File, path: str, *, chosen: bool = False) -> h5py.Group:
    """Return the group at `path`; see `dataset`."""
    found = _found(file, path, chosen)
    if not isinstance(found, h5py.Group):
        raise _missing(f"{path}: is not a group", chosen)
    return found


def node(file: h5py.File, path: str) -> Any:
    """Return the group or dataset at `path`, None if nothing is there.

    Raises:
        UnsupportedError: a component of `path` is a soft or external link. HDF5 would look for the
            target of an external link in this file.
    """
    found = file
    with damage(path):
        for part in filter(None, path.split("/")):
            if not isinstance(found, h5py.Group) or part not in found:
                return None
            name = part.encode(errors="surrogateescape")
            if found.id.links.get_info(name).type != h5l.TYPE_HARD:
                raise UnsupportedError(f"{path}: {part!r} is {link_text(found.id, name)}")
            # Not `get`, which returns None for objects that h5py cannot open.
            found = found[part]
    return found


def names_in(found: Any) -> list[str]:
    """Return the names of the groups and datasets in a group, without links; [] for any other."""
    if not isinstance(found, h5py.Group):
        return []
    with damage(found.name):
        links, names = found.id.links, list(found.id)
        hard = [name for name in names if links.get_info(name).type == h5l.TYPE_HARD]
        return [name.decode(errors="surrogateescape") for name in hard]


def _found(file: h5py.File, path: str, chosen: bool) -> Any:
    found = node(file, path)
    if found is None:
        raise _missing(f"{path}: is missing", chosen)
    return found


def _missing(message: str, chosen: bool) -> LodError:
    return SelectionError(message) if chosen else DamagedFileError(message)


def attribute(found: Any, name: str) -> str | Array | None:
    """Return an attribute, text as str; None if it is not there."""
    with damage(f"{found.name}, attribute {name}"):
        value = found.attrs.get(name)
    if value is None or isinstance(value, str):
        return value
    return value.decode(errors="replace") if isinstance(value, bytes) else np.asarray(value)


def require_numbers(found: h5py.Dataset) -> None:
    """Raise UnsupportedError unless a dataset holds numbers of a dtype that tensors can have."""
    with damage(found.name):
        if found.dtype.name not in ALL_DTYPES:
            near = {"f": "it as float64", "c": "it as complex128"}.get(found.dtype.kind, "numbers")
            raise UnsupportedError(
                f"{found.name}: holds {found.dtype}, which tensors cannot hold; store {near}"
            )


def numbers(found: h5py.Dataset, start: int, stop: int) -> Array:
    """Return rows of a dataset of numbers, in native byte order."""
    require_numbers(found)
    with damage(found.name):
        rows: Array = found[start:stop]
    return rows.astype(rows.dtype.newbyteorder("="), copy=False)


def item_dtype(found: h5py.Dataset, field: str | None) -> tuple[np.dtype[Any] | None, bool]:
    """Return the item dtype of variable-length data, and whether it is text."""
    with damage(found.name):
        stored = found.dtype if field is None else found.dtype[field]
        if h5py.check_string_dtype(stored) is not None:
            return np.dtype(np.uint8), True
        kind = h5py.check_vlen_dtype(stored)
    return None if kind is None else np.dtype(kind), False


@lru_cache
def keeps_big_endian() -> bool:
    """Return whether h5py returns the bytes of big-endian sequences unchanged, as 3.16 does."""
    number, stored = 0x01020304, b"\1\2\3\4"
    with h5py.File("probe", "w", driver="core", backing_store=False) as file:
        made = file.create_dataset("x", (1,), h5py.vlen_dtype(np.dtype(">i4")))
        made[0] = np.array([number], ">i4")
        file.flush()
        if stored not in file.id.get_file_image():
            raise UnsupportedError("holds big-endian sequences, which this h5py does not write")
        return int(made[0][0]) != number


def sequences(
    found: h5py.Dataset, start: int, stop: int, *, field: str | None = None
) -> list[Array]:
    """Return sequences of a 1-D dataset of variable length, or of a field of its records."""
    with damage(found.name):
        stored = found if field is None else found.fields(field)
        return list(stored[start:stop])


def texts(found: h5py.Dataset, start: int, stop: int, *, field: str | None = None) -> list[bytes]:
    """Return texts of a 1-D dataset, or of a field of its records, as their bytes."""
    with damage(found.name):
        stored = found if field is None else found.fields(field)
        values: list[bytes] = stored[start:stop].tolist()
    if not all(isinstance(value, bytes) for value in values):
        raise UnsupportedError(f"{found.name}: holds {found.dtype}, expected text")
    return values
