"""Folders of tables whose log says which of their files are current: Delta Lake and others."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from lodcli.kernels.errors import UnsupportedError

# By the folder of the log in that of the table, and the name of a file in the log; None if the name
# of the folder is enough.
_LOGS = {
    "_delta_log": ("Delta Lake", None),
    ".hoodie": ("Hudi", None),
    "_versions": ("Lance", None),
    "metadata": ("Iceberg", r"(v\d+|\d{5,}-.+)(\.gz)?\.metadata\.json(\.gz)?"),
}
# Folders inside a table: its data, partitions, and hashes in Iceberg's layout for object stores.
_INSIDE = r"(?s)data|.*=.*|[01]+"


def refuse_table(folder: str) -> None:
    """Raise UnsupportedError if a folder is a table, or holds files of one.

    Those are in the folder of the table, in `data`, in folders of partitions, `year=2024`, and of
    hashes, `0110`. A link may lead to a folder of a table, or from there to another one.
    """
    ways = os.path.abspath(folder), os.path.realpath(folder)
    for place in dict.fromkeys(one for way in ways for one in _around(way)):
        for log, (kind, names) in _LOGS.items():
            if _has(os.path.join(place, log), names):
                what = "is a table" if os.path.samefile(place, folder) else "has files of a table"
                raise UnsupportedError(
                    f"{folder}: {what} of {kind}, whose log says which of its files are current; "
                    "with a program that reads such tables, write its rows to a Parquet file (a "
                    "pattern reads outdated files as well)"
                )


def _around(folder: str) -> Iterator[str]:
    """Yield a folder, and those that are its table if it is inside of one."""
    yield folder
    while re.fullmatch(_INSIDE, os.path.basename(folder)):
        folder = os.path.dirname(folder)
        yield folder


def _has(folder: str, names: str | None) -> bool:
    if names is None:
        return os.path.isdir(folder)
    try:
        return any(re.fullmatch(names, one) for one in os.listdir(folder))
    except OSError:
        return False
