"""Detects the format of a file, and imports formats when they are used."""

from __future__ import annotations

import errno
import importlib
import os
from dataclasses import dataclass
from functools import cache

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.core.format import Format
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.table import FOLDERS, PAIRS, SUFFIXES, TABLE
from lodcli.formats.storage.compression import without_suffix
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import UnsupportedError

# What else is named .bin. A run of tokens has no mark, and may begin like this by chance.
_OTHERS = {
    b"\x7fELF": "a program",
    b"PK\3\4": "a zip file",
    b"\x1f\x8b\x08": "a file packed with gzip",
    b"\x28\xb5\x2f\xfd": "a file packed with zstd",
    b"\x89PNG": "an image",
    b"GGUF": "a GGUF model",
    b"\x80\x02": "a pickle",
    b"\x80\x04\x95": "a pickle",
    b"%PDF": "a PDF document",
    b"\xff\xd8\xff": "an image",
    b"GIF8": "an image",
    b"SQLite format 3": "an SQLite database",
    b"ORC": "an ORC table",
    b"Obj\x01": "an Avro file",
}
_PRINTABLE = frozenset(b"\t\n\r" + bytes(range(32, 127)))
# Fewer bytes of tokens may be printable by chance.
_TEXT_BYTES = 16


@cache
def get(name: str) -> Format:
    """Return the format of that name."""
    if name not in TABLE:
        raise UnsupportedError(f"no format named {name!r}; there are: {', '.join(TABLE)}")
    entry = TABLE[name]
    found: Format = getattr(importlib.import_module(entry.module), entry.class_name)()
    return found


@dataclass(frozen=True)
class FormatInfo:
    """Name and capabilities of a format.

    Attributes:
        name: as `format_name` and `--from` take it.
        endings: of its files, with the dot.
        layout: "file", "files" beside each other, or "folder".
        levels: the fewest and the most levels of a tensor; None for any number.
        dtypes: names of the dtypes that it holds.
        several: whether it holds several named tensors.
        level_names: whether it holds the names of levels.
        read_options: keywords of `lodcli.open` and `lodcli.read` that it takes.
        write_options: keywords of `lodcli.write` that it takes.
    """

    name: str
    endings: tuple[str, ...]
    layout: str
    levels: tuple[int, int | None]
    dtypes: frozenset[str]
    several: bool
    level_names: bool
    read_options: frozenset[str]
    write_options: frozenset[str]


class FormatTable(tuple[FormatInfo, ...]):
    """Descriptions of formats; notebooks show them as a table."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import html

        lines = []
        for one in self:
            fewest, most = one.levels
            levels = (
                str(fewest) if fewest == most else f"{fewest} to {'any' if most is None else most}"
            )
            options = ", ".join(sorted(one.read_options)), ", ".join(sorted(one.write_options))
            several = "yes" if one.several else ""
            cells = (one.name, " ".join(one.endings), one.layout, levels, several, *options)
            lines.append(
                "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"
            )
        heads = ("name", "endings", "layout", "levels", "several", "read options", "write options")
        return (
            f"<div><b>formats</b> {len(self)}<table><thead><tr>"
            + "".join(f"<th>{head}</th>" for head in heads)
            + f"</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        )


def formats() -> FormatTable:
    """Return the description of every format, in the order of the table.

    >>> info = {each.name: each for each in formats()}["csv"]
    >>> info.endings, info.levels, sorted(info.write_options)
    (('.csv',), (0, 1), [])
    """
    return FormatTable(
        FormatInfo(
            name=name,
            endings=entry.endings,
            layout=kind.layout,
            levels=(kind.min_levels, kind.max_levels),
            dtypes=kind.dtypes,
            several=kind.many,
            level_names=kind.level_names,
            read_options=kind.options | {"levels", "skip_unsupported"},
            write_options=kind.write_options,
        )
        for name, entry in TABLE.items()
        for kind in [get(name)]
    )


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format for the extension of a file name, or None."""
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
    for name, entry in TABLE.items():
        if entry.detected and get(name).sniff(head):
            if by_name is not None and TABLE[by_name].begins_like == name:
                return by_name
            return "hdf5" if name == "lod.h5" and options.data is not None else name
    if by_name in ("lod.h5", "hdf5") and options.data is not None:
        return "hdf5"  # which may begin with something else
    if by_name is None:
        raise NotThisFormatError(f"format not recognised; {_advice(head)}")
    if TABLE[by_name].announced:
        raise NotThisFormatError(
            f"is named like {by_name} but does not begin like it; it is damaged or something "
            "else (name its format with --from)"
        )
    if by_name == "tokens":
        _refuse_other(head)
    return by_name


def _refuse_other(head: bytes) -> None:
    """Raise NotThisFormatError if a .bin file is not a raw token file."""
    found = next((what for mark, what in _OTHERS.items() if head.startswith(mark)), None)
    if found is None and len(head) >= _TEXT_BYTES and set(head) <= _PRINTABLE:
        found = "text"
    if found is not None:
        raise NotThisFormatError(f"begins like {found}; if it holds tokens, use --from tokens")


def _advice(head: bytes) -> str:
    """Return a hint for a file whose format was not recognised, guessed from its content."""
    if head.lstrip()[:1] in (b"[", b"{"):
        return "if it is JSON, --from json reads a document, --from jsonl one value a line"
    what = next((what for mark, what in _OTHERS.items() if head.startswith(mark)), None)
    if what is not None:
        return f"it begins like {what}, which lod does not read"
    text = head[: _TEXT_BYTES * 16]
    if b"\0" in text or any(byte < 32 and byte not in _PRINTABLE for byte in text):
        return "it is binary data of no format that lod knows; --from FORMAT says which it is"
    first = head.partition(b"\n")[0]
    guess = next((name for mark, name in ((b"\t", "tsv"), (b",", "csv")) if mark in first), "text")
    return f"it looks like {guess}: --from {guess}"


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
