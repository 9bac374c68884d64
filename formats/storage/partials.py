"""Partial files: the temporary file of a target before its rename."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

SUFFIX = ".lod-partial"
# Errors for a path that does not exist, or is not accessible.
_ELSEWHERE = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)
_TOKEN = r"[0-9a-z_]{8}"
# The name of any partial file, of a target whose name is short.
PARTIAL_NAME = re.compile(rf"\.(?P<target>.+)\.{_TOKEN}{re.escape(SUFFIX)}", re.DOTALL)

_TOGETHER: ContextVar[Path | None] = ContextVar("_TOGETHER", default=None)


def partial_prefix(target: Path) -> str:
    """Return the prefix of the names of partial files of `target`; they fit in 255 bytes."""
    return f".{shortened(target.name)}."


def shortened(name: str) -> str:
    """Return the first 200 bytes of a name, to leave room for a prefix and a suffix."""
    return os.fsdecode(os.fsencode(name)[:200])


def is_partial_of(name: str, target: Path) -> bool:
    """Return whether this is the name of a partial file of `target`."""
    prefix = re.escape(partial_prefix(target))
    return re.fullmatch(prefix + _TOKEN + re.escape(SUFFIX), name) is not None


def partials_in(folder: Path) -> dict[str, list[str]]:
    """Return the names of the partial files in a folder, by `shortened` names of their targets."""
    found: dict[str, list[str]] = {}
    try:
        names = os.listdir(folder)
    except PermissionError:
        return found  # a folder may be writable but not readable
    for name in names:
        if (match := PARTIAL_NAME.fullmatch(name)) is not None:
            found.setdefault(match["target"], []).append(name)
    return found


@contextmanager
def removed_together(folder: Path) -> Iterator[None]:
    """Let files be written to a folder whose partial files the caller removes, when all are there.

    Otherwise every writer of one looks for those of its target in the whole folder: the time to
    write all would grow with the square of their number.
    """
    token = _TOGETHER.set(Path(os.path.realpath(folder)))
    try:
        yield
    finally:
        _TOGETHER.reset(token)


def are_removed_together(folder: Path) -> bool:
    """Return whether this is the folder of `removed_together`."""
    return folder == _TOGETHER.get()


def exists(path: str | os.PathLike[str]) -> bool:
    """Return whether a path exists. Unlike in os.path.lexists, a failing disk is an error."""
    try:
        os.lstat(path)
    except ValueError:  # no path at all
        return False
    except OSError as error:
        if error.errno in _ELSEWHERE:
            return False
        raise
    return True


def remove(path: Path) -> None:
    """Remove a file, or a folder with all it holds."""
    if not path.is_dir():
        os.unlink(path)
        return
    try:
        import shutil  # slow to import, and folders are rare

        shutil.rmtree(path)
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        _remove_by_paths(path)


def _remove_by_paths(path: Path) -> None:
    """Remove a folder with one file descriptor; rmtree takes two for each folder of a path."""

    def fail(error: OSError) -> None:
        raise error

    for folder, folders, names in os.walk(path, topdown=False, onerror=fail):
        for name in (*names, *(one for one in folders if os.path.islink(f"{folder}/{one}"))):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)
