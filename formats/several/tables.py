"""Folders of tables whose log says which of their files are current: Delta Lake and others."""

from __future__ import annotations

import os

from lodcli.kernels.errors import UnsupportedError

# By the folder of the log in that of the table, and how the name of a file in the log ends; "" if
# the name of the folder is enough.
_LOGS = {
    "_delta_log": ("Delta Lake", ""),
    ".hoodie": ("Hudi", ""),
    "_versions": ("Lance", ""),
    "metadata": ("Iceberg", ".metadata.json"),
}


def refuse_table(folder: str) -> None:
    """Raise UnsupportedError if a folder is a table, or holds files of one.

    Those are in the folder of the table, in `data`, and in folders of partitions, `year=2024`.
    """
    place = os.path.abspath(folder)
    while True:
        for log, (kind, ending) in _LOGS.items():
            if _has(os.path.join(place, log), ending):
                what = "is a table" if os.path.samefile(place, folder) else "has files of a table"
                raise UnsupportedError(
                    f"{folder}: {what} of {kind}, whose log says which of its files are current; "
                    "with a program that reads such tables, write its rows to a Parquet file (a "
                    "pattern reads outdated files as well)"
                )
        place, name = os.path.split(place)
        if name != "data" and "=" not in name:
            return


def _has(folder: str, ending: str) -> bool:
    if not ending:
        return os.path.isdir(folder)
    try:
        return any(name.endswith(ending) for name in os.listdir(folder))
    except OSError:
        return False
