"""The names in a foreign HDF5 file."""

from __future__ import annotations

from h5py import h5d, h5g, h5l, h5o

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.hdf5.strict import StrictFile
from lodcli.kernels.errors import UnsupportedError

MOST_NAMES = 100_000
MOST_DEPTH = 64


def dataset_paths(file: StrictFile) -> list[str]:
    """Return the paths of all datasets, groups in the order of their names.

    Raises:
        UnsupportedError: more names, or deeper ones, than any real file has: hard links can
            form cycles.
        DamagedFileError: soft or external links, and names that are not UTF-8.
    """
    found: list[str] = []
    seen = 0
    waiting: list[tuple[str, h5g.GroupID]] = [("", file.root)]
    while waiting:
        path, group = waiting.pop()
        with file.damage(path or "/"):
            names: list[tuple[bytes, int]] = []
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
                    raise DamagedFileError(f"{child}: is a soft or external link")
                opened = h5o.open(group, name)
                if isinstance(opened, h5d.DatasetID):
                    found.append(child)
                elif isinstance(opened, h5g.GroupID):
                    below.append((child, opened))
        waiting += reversed(below)
    return found
