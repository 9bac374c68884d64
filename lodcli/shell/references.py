"""Parsers of FILE::NAME and of the branch of a slice."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING

from lodcli.formats.core.names import split_reference
from lodcli.formats.remote.urls import shown
from lodcli.kernels.errors import SelectionError

if TYPE_CHECKING:
    from lodcli.kernels.index.selection import Key

# 18 digits: more would not fit int64, and no file has that many of anything.
_INDEX = r"[+-]?[0-9]{1,18}"
_NUMBER = r"\s*([+-]?[0-9]{1,18})?\s*"
_TOO_LONG = "[0-9]{19}"
_RANGE = f"{_NUMBER}:{_NUMBER}(?::{_NUMBER})?"


@dataclass(frozen=True)
class Reference:
    """A file, or "-" for standard input, and one of its tensors.

    Attributes:
        name: the tensor, or None if none is named.
        format_name: the format, or None to detect it.
        part: (k, n) for only part k of n of the file; see ReadOptions.
    """

    path: str
    name: str | None = None
    format_name: str | None = None
    part: tuple[int, int] | None = field(default=None, repr=False)

    @property
    def label(self) -> str:
        """Name of the file in messages."""
        return "standard input" if self.path == "-" else self.file

    @property
    def file(self) -> str:
        """Name of the file in reports: its path, or its URL without secrets."""
        return shown(self.path)

    def as_rows(self, names: Sequence[str | None]) -> str:
        """Return the command that keeps the levels of these names, and makes rows of the others."""
        named = ",".join(name or f"level{level}" for level, name in enumerate(names))
        return f"lod convert {quote(self.file)} ROWS.lod.h5 --levels {named}"


def parse_reference(text: str, format_name: str | None = None) -> Reference:
    """Return the reference for FILE or FILE::NAME; if a file has the whole name, to that file.

    Raises:
        SelectionError: nothing before or after the "::".

    >>> parse_reference("words.lod.h5::tags")
    Reference(path='words.lod.h5', name='tags', format_name=None)
    """
    path, name = split_reference(text)
    if not path or name == "":
        raise SelectionError(f"{text!r} names no tensor; write FILE::NAME, or only FILE")
    return Reference(path, name, format_name)


def parse_branch(text: str) -> tuple[Key, ...]:
    """Return the parts of a branch: `2`, `2,0`, `2:3`, `2,0:1`, `:5`, `-2:`, `0:10:2`.

    Raises:
        SelectionError: a part that is neither an index nor a range, or a step of 0.

    >>> parse_branch("2,0:9:2")
    (2, slice(0, 9, 2))
    """
    return tuple(_part(part.strip(), text) for part in text.split(","))


def _part(part: str, text: str) -> Key:
    if re.fullmatch(_INDEX, part):
        return int(part)
    found = re.fullmatch(_RANGE, part)
    hint = "write 2, 2,0, 2:3, :5, -2: or 0:10:2"
    if found:
        start, stop, step = (None if one is None else int(one) for one in found.groups())
        if step != 0:
            return slice(start, stop, step)
        hint = "its step is 0"
    elif re.search(_TOO_LONG, part):
        hint = "a number has at most 18 digits"
    where = "" if part == text.strip() else f" in {text.strip()!r}"
    raise SelectionError(f"{part!r}{where} is not an item or a range of items; {hint}")
