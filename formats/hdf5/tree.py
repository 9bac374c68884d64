"""The names in a foreign HDF5 file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from h5py import h5d, h5g, h5l, h5o, h5t

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.hdf5.strict import StrictFile
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.options import option

MOST_NAMES = 100_000
MOST_DEPTH = 64
# Limit on datasets in a message.
MOST_LISTED = 20


def dataset_paths(file: StrictFile) -> list[str]:
    """Return the paths of all datasets, groups in the order of their names.

    Raises:
        UnsupportedError: more names, or deeper ones, than any real file has: hard links can
            form cycles.
        DamagedFileError: soft or external links, and names that are not UTF-8.
    """
    found = []
    for path, dataset in _walk(file):
        if dataset is None:
            raise DamagedFileError(f"{path}: is a soft or external link")
        found.append(path)
    return found


def listed(file: StrictFile) -> str:
    """Return the paths, dtypes and shapes of the first datasets, for a message; "" for none."""
    stored = ((path, dataset) for path, dataset in _walk(file) if dataset is not None)
    found = [_described(file, path, each) for path, each in islice(stored, MOST_LISTED)]
    return ", ".join([*found, ".."] if next(stored, None) else found)


def _described(file: StrictFile, path: str, dataset: h5d.DatasetID) -> str:
    try:
        column = file.column(path)
        # The last axis of texts is their bytes.
        dtype, shape = ("text", column.shape[:-1]) if column.text else (column.dtype, column.shape)
        return f"{path} ({dtype}, {' x '.join(map(str, shape)) or 'a single value'})"
    except LodError:
        with file.damage(path):
            kind = dataset.get_type()
            if kind.get_class() == h5t.COMPOUND:
                return f"{path} (a compound)"
            text = isinstance(kind, h5t.TypeStringID) and kind.is_variable_str()
            variable = text or kind.get_class() == h5t.VLEN
            return f"{path} ({option('from', 'hdf5-vlen') if variable else 'not supported'})"


def _walk(file: StrictFile) -> Iterator[tuple[str, h5d.DatasetID | None]]:
    """Yield the paths of all datasets, and None for the dataset of a soft or external link."""
    seen = 0
    waiting: list[tuple[str, h5g.GroupID]] = [("", file.root)]
    while waiting:
        path, group = waiting.pop()
        names: list[tuple[bytes, int]] = []
        with file.damage(path or "/"):
            group.links.iterate(
                lambda name, link, into=names: into.append((name, link.type)), info=True
            )
        seen += len(names)
        if seen > MOST_NAMES or path.count("/") > MOST_DEPTH:
            raise UnsupportedError(
                f"more than {MOST_NAMES} names, or groups nested more than {MOST_DEPTH} deep"
            )
        below: list[tuple[str, h5g.GroupID]] = []
        for name, kind in names:
            try:
                child = f"{path}/{name.decode()}"
            except UnicodeDecodeError:
                raise DamagedFileError(f"{path}/{name!r}: a name that is not UTF-8") from None
            if kind != h5l.TYPE_HARD:
                yield child, None
                continue
            with file.damage(child):
                opened = h5o.open(group, name)
            if isinstance(opened, h5d.DatasetID):
                yield child, opened
            elif isinstance(opened, h5g.GroupID):
                below.append((child, opened))
        waiting += reversed(below)
