"""Errors of files, and the one way to add a file's name to an error from below."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lodcli.kernels.errors import InvalidDataError, LodError


class DamagedFileError(InvalidDataError):
    """A file whose bytes contradict themselves: truncated, altered or crafted."""


class NotThisFormatError(InvalidDataError):
    """A file that is not what it was taken for."""


class TooLargeError(InvalidDataError):
    """A file that comes to more than the caller allows."""


@contextmanager
def naming(label: str, part: str = "") -> Iterator[None]:
    """Prefix any of our errors from inside the block with the file and the part of it."""
    try:
        yield
    except LodError as error:
        where = f"{label}: {part}" if part else label
        # Changed in place: the class and what it carries must survive.
        if not str(error).startswith(f"{label}:"):
            error.args = (f"{where}: {error.args[0]}", *error.args[1:])
        raise
