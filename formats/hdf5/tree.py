"""The names in a foreign HDF5 file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from h5py import h5d, h5g, h5l, h5o, h5t

from lodcli.formats.choosing.array_patterns import fits, is_pattern
from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.names import there_are
from lodcli.formats.hdf5.strict import StrictFile, link_text
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.options import option

MOST_NAMES = 100_000
MOST_DEPTH = 64
# Limit on datasets in a message.
MOST_LISTED = 20
# Limit on datasets among which a message looks for similar names.
MOST_COMPARED = 1000


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


def matching(file: StrictFile, pattern: str) -> tuple[list[str], list[str]]:
    """Return the paths that match a pattern, and those of groups that match its first parts.

    A path may go on to the field of compounds. Whether it is a dataset is not checked.

    Args:
        pattern: begins with "/".

    Raises:
        UnsupportedError: soft or external links, or more names than any real file has.
    """
    found, groups = [], []
    seen = 0
    waiting: list[tuple[str, h5g.GroupID, list[str]]] = [("", file.root, pattern.split("/")[1:])]
    while waiting:
        path, group, (part, *rest) = waiting.pop()
        if is_pattern(part):
            fit = fits(part).fullmatch
            stored = _links(file, path, group)
            seen += len(stored)
            _require_few(seen, path)
            names = [name for name in (_decoded(name, path) for name, _ in stored) if fit(name)]
        else:
            with file.damage(path or "/"):
                names = [part] if group.links.exists(part.encode()) else []
        for name in names:
            child = f"{path}/{name}"
            if not rest:
                found.append(child)
                continue
            with file.damage(child):
                if group.links.get_info(name.encode()).type != h5l.TYPE_HARD:
                    link = link_text(group, name.encode())
                    raise UnsupportedError(f"{child}: {name!r} is {link}")
                opened = h5o.open(group, name.encode())
                if isinstance(opened, h5g.GroupID):
                    waiting.append((child, opened, rest))
                    groups.append(child)
                elif isinstance(opened, h5d.DatasetID) and (
                    opened.get_type().get_class() == h5t.COMPOUND
                ):
                    found.append("/".join((child, *rest)))
    return found, groups


def near(file: StrictFile, pattern: str) -> str:
    """Return the part of a message that names datasets, similar ones first."""
    paths = (path for path, dataset in _walk(file) if dataset is not None)
    return there_are(islice(paths, MOST_COMPARED), pattern)


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
        names = _links(file, path, group)
        seen += len(names)
        _require_few(seen, path)
        below: list[tuple[str, h5g.GroupID]] = []
        for name, kind in names:
            child = f"{path}/{_decoded(name, path)}"
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


def _links(file: StrictFile, path: str, group: h5g.GroupID) -> list[tuple[bytes, int]]:
    """Return the names in a group, and their kinds of links."""
    names: list[tuple[bytes, int]] = []
    with file.damage(path or "/"):
        group.links.iterate(lambda name, link: names.append((name, link.type)), info=True)
    return names


def _require_few(seen: int, path: str) -> None:
    if seen > MOST_NAMES or path.count("/") > MOST_DEPTH:
        raise UnsupportedError(
            f"more than {MOST_NAMES} names, or groups nested more than {MOST_DEPTH} deep"
        )


def _decoded(name: bytes, path: str) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise DamagedFileError(f"{path}/{name!r}: a name that is not UTF-8") from None
