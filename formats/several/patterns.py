"""Files that match a pattern such as `events/**/*.csv`, and all files below a folder."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Iterator, Sequence

_MAGIC = re.compile(r"[*?]|\[[^]]+\]")
_ANY = "**"
# There is no such file, or a link leads to itself; any other error hides files.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

# Device and number of a folder.
_Id = tuple[int, int]
_NONE: frozenset[_Id] = frozenset()


def fixed_folder(pattern: str) -> str | None:
    """Return the folder that contains all matches; None if the text is not a pattern.

    >>> fixed_folder("events/year=*/part-?.csv"), fixed_folder("*.csv"), fixed_folder("a.csv")
    ('events', '', None)
    """
    found = _MAGIC.search(pattern)
    return os.path.dirname(pattern[: found.start()]) if found else None


def matching(pattern: str) -> list[str]:
    """Return the files that match a pattern, each once, in no particular order.

    As `glob.glob`, but an error for a folder that cannot be read. `**` does not search hidden
    folders, nor a link to a folder that contains it, as `find -L`. In a pattern with `**`, other
    wildcards match hidden folders only if they begin with the same character: `_*`.

    Args:
        pattern: has `*`, `?`, `[..]` or `**`.

    Raises:
        PermissionError: a folder that may contain matches cannot be read.
    """
    folder = fixed_folder(pattern)
    assert folder is not None
    parts = pattern[len(folder) :].lstrip(os.sep).split(os.sep)
    # Two ** match the same file by several ways.
    found = dict.fromkeys(_matches(folder, parts, _NONE, _ANY in parts))
    return [one for one in found if is_file(one)]


def files_below(folder: str) -> list[str]:
    """Return the files in a folder and in all folders below, but the hidden ones; see `matching`.

    Raises:
        PermissionError: a folder cannot be read.
    """
    found = (os.path.join(inner, one) for inner, _ in _folders(folder, _NONE) for one in _in(inner))
    return [path for path in found if is_file(path)]


def is_hidden(name: str) -> bool:
    """Return whether a folder holds no data, as _temporary and _delta_log of Spark."""
    return name[:1] in ("_", ".") and "=" not in name and name not in (".", "..")


def is_file(path: str) -> bool:
    """Return whether there is a regular file, also by a link."""
    status = _status(path)
    return status is not None and stat.S_ISREG(status.st_mode)


def _matches(folder: str, parts: Sequence[str], above: frozenset[_Id], deep: bool) -> Iterator[str]:
    """Yield the paths that match the parts of a pattern below a folder.

    Args:
        folder: begins the paths; "" for the current one.
        parts: of the pattern, between slashes.
        above: the folders that `**` came through.
        deep: whether `**` is a part of the whole pattern.
    """
    part, rest = parts[0], parts[1:]
    if part == _ANY:
        while rest[:1] == [_ANY]:
            rest = rest[1:]
        for inner, through in _folders(folder, above):
            yield from _matches(inner, rest or ["*"], through, deep)
        return
    if _MAGIC.search(part):
        fits = re.compile(fnmatch.translate(part)).match
        names = [one for one in _in(folder) if fits(one) and (one[0] != "." or part[0] == ".")]
        if rest and deep and part[0] not in "._":
            names = [one for one in names if not is_hidden(one)]
    else:
        names = [part]
    for name in names:
        path = os.path.join(folder, name)
        if rest:
            yield from _matches(path, rest, above, deep)
        else:
            yield path


def _folders(folder: str, above: frozenset[_Id]) -> Iterator[tuple[str, frozenset[_Id]]]:
    """Yield a folder and all below, but the hidden ones, each with itself and those above it."""
    waiting = [(folder, above)]
    while waiting:
        inner, above = waiting.pop()
        status = _status(inner)
        if status is None or not stat.S_ISDIR(status.st_mode):
            continue
        one = status.st_dev, status.st_ino
        if one in above:  # a link leads back
            continue
        through = above | {one}
        yield inner, through
        with os.scandir(inner or os.curdir) as entries:
            names = [entry.name for entry in entries if not entry.is_file(follow_symlinks=False)]
        waiting += [(os.path.join(inner, name), through) for name in names if not is_hidden(name)]


def _in(folder: str) -> list[str]:
    """Return the names in a folder; none if there is no such folder."""
    try:
        return os.listdir(folder or os.curdir)
    except OSError as error:
        if error.errno in _ABSENT:
            return []
        raise


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path or os.curdir)
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise
