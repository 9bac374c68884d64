"""Tokens that end or begin each document of a token file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lodcli.formats.core.options import ReadOptions, WriteOptions
from lodcli.kernels.errors import SelectionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.options import option


@dataclass(frozen=True)
class Mark:
    """A token, and whether documents end with it or begin with it."""

    token: int
    ends: bool

    @classmethod
    def of(cls, options: ReadOptions | WriteOptions, dtype: np.dtype[Any]) -> Mark | None:
        """Return the mark from --end-token and --start-token.

        Raises:
            SelectionError: both are given, or a number that no token has.
        """
        if options.end_token is not None and options.start_token is not None:
            raise SelectionError(f"give {option('end-token')} or {option('start-token')}, not both")
        ends = options.end_token is not None
        token = options.end_token if ends else options.start_token
        if token is None:
            return None
        limits = np.iinfo(dtype)
        if not limits.min <= token <= limits.max:
            raise SelectionError(f"token {token} is beyond {dtype}")
        return cls(token, ends)

    @property
    def option(self) -> str:
        """The name of the option that set it."""
        return "end-token" if self.ends else "start-token"

    def places(self, tokens: Array) -> Offsets:
        """Return where documents are split: after each end token, or before each start token."""
        return np.flatnonzero(tokens == self.token) + int(self.ends)


class MarkChecker:
    """Checks that documents would be split in the same way when read again."""

    def __init__(self, name: str, mark: Mark) -> None:
        self._name = name
        self._mark = mark
        self._item = 0
        self._unfinished: int | None = None

    def check(self, tokens: Array, offsets: Offsets) -> None:
        """Check the next documents.

        Raises:
            UnsupportedError: one is empty, or has the token in the wrong place.
        """
        bounds = offsets[1:] if self._mark.ends else offsets[:-1]
        found = self._mark.places(tokens)
        lengths = np.diff(offsets)
        if lengths.size and self._unfinished is not None:
            self._refuse(self._unfinished, "does not end with it, but others follow")
        if (lengths == 0).any():
            self._refuse(self._item + int(np.argmax(lengths == 0)), "is empty")
        missing = ~np.isin(bounds, found)
        if self._mark.ends and missing[-1:].any():  # allowed for the last document of all
            self._unfinished = self._item + lengths.size - 1
            missing[-1] = False
        elif not self._mark.ends and self._item == 0:
            missing[:1] = False
        if missing.any():
            where = "end" if self._mark.ends else "begin"
            self._refuse(self._item + int(np.argmax(missing)), f"does not {where} with it")
        inside = np.setdiff1d(found, bounds)
        if inside.size:
            item = int(np.searchsorted(offsets, inside[0] - int(self._mark.ends), side="right"))
            self._refuse(self._item + item - 1, "has it before its end")
        self._item += lengths.size

    def _refuse(self, item: int, what: str) -> None:
        lacks = what.startswith("does not")
        remedy = "; no token is added: write it into each item first" if lacks else ""
        raise UnsupportedError(
            f"{self._name}: item {item} {what}: "
            f"{option(self._mark.option, self._mark.token)} would not restore this item{remedy}"
        )
