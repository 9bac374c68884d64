"""Descriptions of all formats, from the attributes of their classes."""

from __future__ import annotations

from dataclasses import dataclass

from lodcli.formats.catalogue import plugins
from lodcli.formats.catalogue.packages import Package
from lodcli.formats.core.format import Format
from lodcli.formats.core.registry import get
from lodcli.formats.core.table import TABLE
from lodcli.kernels.dtypes import ALL_DTYPES
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.display import table_html
from lodcli.kernels.tensor.marks import VALUES

_KINDS = {
    "integers": frozenset(name for name in ALL_DTYPES if "int" in name),
    "floats": frozenset(name for name in ALL_DTYPES if "float" in name),
    "complex": frozenset(name for name in ALL_DTYPES if "complex" in name),
}


@dataclass(frozen=True)
class FormatInfo:
    """Name and capabilities of a format.

    Attributes:
        name: for `format_name` and `--from`.
        endings: file extensions, with the dot.
        layout: "file", "files" in one folder, or "folder"; only a file can be read from a pipe.
        read, written: whether it can be read, and be written.
        streams: whether only some batches are in memory while it is read or written.
        levels: minimum and maximum number of levels of a tensor; None for no maximum.
        dtypes: names of the dtypes that it holds.
        several: whether it holds several named tensors.
        level_names: whether it holds the names of levels.
        records: whether it holds records of tensors.
        marks: the marks that it keeps, such as "text"; see docs/format.md.
        nulls: whether it holds nulls: "yes", "values" for null numbers and text, but no null lists,
            or "no".
        needs: the optional packages that it needs.
        package: name and version of the package of a plug-in; "" for formats of lod.
        read_options: keywords of `lodcli.open` and `lodcli.read` that it accepts.
        write_options: keywords of `lodcli.write` that it accepts.
    """

    name: str
    endings: tuple[str, ...]
    layout: str
    read: bool
    written: bool
    streams: bool
    levels: tuple[int, int | None]
    dtypes: frozenset[str]
    several: bool
    level_names: bool
    records: bool
    marks: frozenset[str]
    nulls: str
    needs: tuple[Package, ...]
    package: str
    read_options: frozenset[str]
    write_options: frozenset[str]

    def cells(self) -> dict[str, str]:
        """Return the cells of a table of formats, by column; "yes" or "" for booleans.

        >>> ts = {each.name: each.cells() for each in formats()}["ts"]
        >>> ts["extensions"], ts["levels"], ts["dtypes"], ts["nulls"]
        ('.ts', '0 to 1', 'integers, floats', '')
        """
        fewest, most = self.levels
        levels = str(fewest) if fewest == most else f"{fewest} to {most}"
        return {
            "name": self.name,
            "extensions": " ".join(self.endings) or self._without_ending(),
            "read": _yes(self.read),
            "write": _yes(self.written),
            "streams": _yes(self.streams),
            "levels": ("any" if not fewest else f"from {fewest}") if most is None else levels,
            "dtypes": _dtypes(self.dtypes),
            "text": ", ".join(mark for mark in VALUES if mark in self.marks),
            "records": _yes(self.records),
            "nulls": {"no": ""}.get(self.nulls, self.nulls),
            "needs": "; ".join(map(_need, self.needs)),
            "plug-in of": self.package,
        }

    def _without_ending(self) -> str:
        if self.layout == "folder":
            return "a folder"
        return f"--{'to' if self.written else 'from'} {self.name}"


def _yes(whether: bool) -> str:
    return "yes" if whether else ""


def _need(package: Package) -> str:
    here = "" if package.installed else " (not installed)"
    return f"{package.use or 'everything'}: {package.advice}{here}"


def _dtypes(names: frozenset[str]) -> str:
    """Return a short text for names of dtypes.

    >>> _dtypes(ALL_DTYPES - {"bfloat16"}), _dtypes(frozenset({"uint16", "uint32"}))
    ('all but bfloat16', 'uint16, uint32')
    """
    missing = ALL_DTYPES - names
    if not missing:
        return "all"
    return min(_kinds(names), f"all but {_kinds(missing)}", key=len)


def _kinds(names: frozenset[str]) -> str:
    """Return names of dtypes, with one word if all of a kind are among them."""
    whole = [kind for kind, members in _KINDS.items() if members <= names]
    rest = names.difference(*(_KINDS[kind] for kind in whole))
    return ", ".join([*whole, *sorted(rest, key=lambda name: (len(name), name))])


class FormatTable(tuple[FormatInfo, ...]):
    """Descriptions of formats; notebooks show them as a table."""

    __slots__ = ()

    def cells(self) -> list[dict[str, str]]:
        """Return the rows of a table; without a column of packages if there are no plug-ins."""
        rows = [one.cells() for one in self]
        if not any(one.package for one in self):
            for row in rows:
                del row["plug-in of"]
        return rows

    def _repr_html_(self) -> str:
        rows = self.cells()
        title = f"<b>formats</b> {len(self)}"
        return table_html(title, rows[0], (row.values() for row in rows))


def formats() -> FormatTable:
    """Return the description of every format, in the order of the table, then those of plug-ins.

    A plug-in that cannot be loaded is left out, with a warning that names it.

    >>> info = {each.name: each for each in formats()}["csv"]
    >>> info.endings, info.levels, info.nulls
    (('.csv',), (0, None), 'values')
    """
    import warnings

    found, broken = all_formats()
    for error in broken:
        warnings.warn(str(error), stacklevel=2)
    return found


def all_formats() -> tuple[FormatTable, list[UnsupportedError]]:
    """Return the description of every format, and the errors of plug-ins that do not work."""
    plugged, broken = plugins.working()
    ours = [described(get(name), entry.endings) for name, entry in TABLE.items()]
    theirs = [described(kind, kind.endings, plugin.package) for plugin, kind in plugged]
    return FormatTable([*ours, *theirs]), broken


def described(kind: Format, endings: tuple[str, ...], package: str = "") -> FormatInfo:
    """Return the description of a format whose files have these extensions."""
    return FormatInfo(
        name=kind.name,
        endings=endings,
        layout=kind.layout,
        read=True,
        written=not kind.read_only,
        streams=kind.streams,
        levels=(kind.min_levels, kind.max_levels),
        dtypes=kind.dtypes,
        several=kind.many,
        level_names=kind.level_names,
        records=kind.structs,
        marks=kind.kept_marks,
        nulls=("yes" if kind.null_lists else "values") if kind.nulls else "no",
        needs=kind.needs,
        package=package,
        read_options=kind.options | {"levels", "skip_unsupported", "nulls"},
        write_options=kind.write_options,
    )
