"""Detects the format of a file, and imports formats when they are used."""

from __future__ import annotations

import errno
import importlib
import os
from functools import cache

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.core.format import Format
from lodcli.formats.core.options import ReadOptions
from lodcli.formats.core.table import (
    FOLDERS,
    HDF5_MAGIC,
    MARKS,
    PAIRS,
    SUFFIXES,
    TABLE,
    UNFINISHED,
)
from lodcli.formats.storage.compression import without_suffix
from lodcli.formats.storage.inputs import Input
from lodcli.kernels.errors import OptionError, UnsupportedError
from lodcli.kernels.options import option
from lodcli.kernels.suggestions import or_near


def get(name: str) -> Format:
    """Return the format of that name, built in or of a plug-in."""
    if not isinstance(name, str):
        raise OptionError(f"expected the name of a format, found {type(name).__name__}")
    if name in TABLE:
        return _ours(name)
    from lodcli.formats.catalogue import plugins

    plugged = plugins.get(name)
    if plugged is None:
        known = ", ".join([*TABLE, *plugins.names()])
        raise UnsupportedError(
            f"no format named {name!r}; there are: {known}{or_near(name, known.split(', '))}"
        )
    return plugged


@cache
def _ours(name: str) -> Format:
    entry = TABLE[name]
    found: Format = getattr(importlib.import_module(entry.module), entry.class_name)()
    return found


def of_name(path: str | os.PathLike[str]) -> str | None:
    """Return the format for the extension of a file name, or None."""
    lower = without_suffix(os.fspath(path).lower())
    for suffix, name in SUFFIXES.items():
        if lower.endswith(suffix):
            return name
    from lodcli.formats.catalogue import plugins

    return plugins.of_ending(lower)


def of_target(path: str | os.PathLike[str]) -> str | None:
    """Return the format to write for the extension of a file name, or None."""
    found = of_name(path)
    return "lod.h5" if found == "hdf5" else found


def of_input(source: Input, options: ReadOptions) -> str:
    """Return the format of an input, detected from its content, then its extension.

    HDF5 is plain HDF5 if the options name its datasets.

    Raises:
        NotThisFormatError: the format is not recognised, or the input is empty.
    """
    if source.is_folder:
        return _of_folder(source)
    by_name = (_of_pair(source) or of_name(source.path)) if source.path else None
    if by_name is not None and get(by_name).any_bytes:
        source.unpack_by_name()
    head = source.head()
    if not head:
        if by_name is not None and get(by_name).empty_file:
            return by_name
        raise _unknown("is empty; expected data in some format", by_name is None)
    plugged = by_name is not None and by_name not in TABLE
    if plugged and by_name is not None:
        kind = get(by_name)
        if type(kind).sniff is Format.sniff or kind.sniff(head):
            return by_name
    detected = of_head(head)
    if detected is not None:
        if by_name is not None and not plugged and TABLE[by_name].begins_like == detected:
            return by_name
        return "hdf5" if detected == "lod.h5" and options.data is not None else detected
    # HDF5 may begin with a user block, as files of MATLAB do.
    if by_name in (None, "lod.h5", "hdf5") and any(head.startswith(HDF5_MAGIC, n) for n in _BLOCKS):
        return "hdf5"
    if options.data is not None and by_name in ("lod.h5", "hdf5"):
        return "hdf5"  # after a longer block
    if by_name is None:
        from lodcli.formats.catalogue import plugins

        found = plugins.of_content(head)
        if found is None:
            from lodcli.formats.catalogue import unread

            ending = source.path.suffix.lower() if source.path else ""
            advice = unread.advice(head, ending, unpacked=not source.seekable)
            raise _unknown(f"format not recognised; {advice}{plugins.advice()}")
        return found
    if not plugged:
        _refuse_other(by_name, head, unpacked=not source.seekable)
    return by_name


def of_head(head: bytes) -> str | None:
    """Return the first built-in format whose `sniff` accepts the first bytes of a file, or None.

    Formats are imported only if their marks are there.
    """
    lower = head.lower()
    for position, mark, name in MARKS:
        marked = mark in lower if position is None else head.startswith(mark, position)
        if marked and get(name).sniff(head):
            return name
    return None


def _unknown(message: str, unknown: bool = True) -> NotThisFormatError:
    error = NotThisFormatError(message)
    error.unknown = unknown
    return error


# Sizes of user blocks.
_BLOCKS = (512, 1024, 2048)


def _refuse_other(by_name: str, head: bytes, *, unpacked: bool) -> None:
    """Raise NotThisFormatError if a file of a binary format has another one's first bytes, or if
    one of any format is only a pointer to the file, or a page of a server.
    """
    from lodcli.formats.catalogue import unread

    announced = TABLE[by_name].announced
    kind = unread.in_place_of(head, markup=by_name != "text")
    if kind is None and by_name == "tokens":
        unread.refuse_other(head)
        return
    packed = unread.packed(head, unpacked=unpacked) if get(by_name).binary else None
    if packed is not None:
        raise NotThisFormatError(f"has the extension of {by_name} but is {packed}")
    if kind is None and announced:
        kind = unread.of_beginning(head)
    if kind is not None:
        lines = f"; {option('from', 'text')} reads its lines" if by_name == "text" else ""
        raise NotThisFormatError(
            f"has the extension of {by_name} but begins like {kind.what}{kind.advice}{lines}"
        )
    if not announced:
        return
    # As those of OLMo.
    tokens = ", such as tokens for token numbers without a header" if by_name == "npy" else ""
    raise NotThisFormatError(
        f"has the extension of {by_name} but does not begin like it; it is damaged, or has "
        f"another format; choose it with {option('from')}{tokens}"
    )


def _of_folder(source: Input) -> str:
    if not source.lists:
        return "lod.dataset"  # the only format of folders that is read behind URLs
    for name, found in FOLDERS.items():
        if source.has_beside(name):
            return found
    if source.has_beside(UNFINISHED):
        raise NotThisFormatError(
            "is a dataset without its manifest: a command with --jobs is not finished; run it again"
        )
    # No format is recognised: the same error as for opening a folder as a file.
    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), source.label)


def _of_pair(source: Input) -> str | None:
    assert source.path is not None
    other, found = PAIRS.get(source.path.suffix.lower(), ("", None))
    return found if found and source.has_beside(source.path.stem + other) else None
