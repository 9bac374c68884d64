"""Which format a file has, and the formats themselves, loaded when they are used."""

from __future__ import annotations

import errno
import importlib
import os
from functools import cache

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.core.format import Format
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.table import FOLDERS, PAIRS, SUFFIXES, TABLE
from lodcli.formats.storage.compression import without_suffix
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import UnsupportedError

# These announce themselves in their first bytes.
_ANNOUNCED = (
    *("lod.h5", "lod.stream", "hdf5", "npz", "safetensors"),
    *("arrow", "arrow-stream", "parquet"),
)
# Their content tells nothing; looking at it would only load their modules.
_UNMARKED = frozenset(
    [
        *("hdf5", "nwb", "vtkhdf", "h5ad", "hdf5-vlen", "awkward-hdf5"),
        *("datasets", "mds", "tokens"),
    ]
)
# These begin like any HDF5 file; their names tell them.
_HDF5 = ("nwb", "vtkhdf", "h5ad")


@cache
def get(name: str) -> Format:
    """Return the format of that name."""
    if name not in TABLE:
        raise UnsupportedError(f"no format named {name!r}; there are: {', '.join(TABLE)}")
    module, kind = TABLE[name]
    found: Format = getattr(importlib.import_module(module), kind)()
    return found


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format that the name of a file tells, or None."""
    lower = without_suffix(os.fspath(path).lower())
    for suffix, name in SUFFIXES.items():
        if lower.endswith(suffix):
            return name
    return None


def of_input(source: Input, options: ReadOptions) -> str:
    """Return the format of an input: its content decides, then its name.

    HDF5 whose datasets a person names is plain HDF5.

    Raises:
        NotThisFormatError: neither tells, or the input is empty.
    """
    if source.is_folder:
        return _of_folder(source)
    head = source.head()
    by_name = (_of_pair(source) or of_name(source.path)) if source.path else None
    if not head:
        if by_name is not None and get(by_name).empty_file:
            return by_name
        raise NotThisFormatError("is empty; expected data in some format")
    for name in TABLE:
        if name not in _UNMARKED and get(name).sniff(head):
            if name == "lod.h5" and by_name in _HDF5:
                return by_name
            return "hdf5" if name == "lod.h5" and options.data is not None else name
    if by_name in ("lod.h5", "hdf5") and options.data is not None:
        return "hdf5"  # which may begin with something else
    if by_name in _ANNOUNCED:
        raise NotThisFormatError(
            f"is named like {by_name} but does not begin like it; it is damaged or something "
            "else (name its format with --from)"
        )
    if by_name is None:
        raise NotThisFormatError(f"format not recognised; name it with --from ({', '.join(TABLE)})")
    return by_name


def _of_folder(source: Input) -> str:
    for name, found in FOLDERS.items():
        if source.has_beside(name):
            return found
    # Nothing says what to expect of it: as if a file had been asked for.
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source.label)


def _of_pair(source: Input) -> str | None:
    assert source.path is not None
    other, found = PAIRS.get(source.path.suffix.lower(), ("", None))
    return found if found and source.has_beside(source.path.stem + other) else None
