"""Names of the files that `lod split` writes."""

from __future__ import annotations

import os
import re

import click

MOST_FILES = 10_000


class Pattern:
    """A path with one {} in its last part, for numbers, or {a,b,c}, for these names.

    Raises:
        click.UsageError: there is none, or several.

    >>> Pattern("to/part-{}.npz").names(11)[-2:]
    ['to/part-09.npz', 'to/part-10.npz']
    >>> Pattern("{train,test}.npz").names(2)
    ['train.npz', 'test.npz']
    """

    def __init__(self, path: str) -> None:
        folder, base = os.path.split(path)
        found = re.findall(r"\{([^{}]*)\}", base)
        if len(found) != 1 or "{" in folder:
            count = "several" if len(found) > 1 else "none"
            raise click.UsageError(
                f"-o {path!r}: expected one {{}} or {{NAME,NAME,..}} in the last part of the path, "
                f"found {count}; -o 'part-{{}}.lod.h5' numbers the files, -o "
                "'{train,test}.lod.h5' names them"
            )
        self._path = path
        self._inner = found[0]

    def names(self, count: int) -> list[str]:
        """Return the paths of `count` files.

        Raises:
            click.UsageError: not as many names are given, or too many files are asked for.
        """
        if count > MOST_FILES:
            raise click.UsageError(
                f"this would write {count:,} files; at most {MOST_FILES:,} are written at once"
            )
        if self._inner:
            inner = [name.strip() for name in self._inner.split(",")]
            if len(inner) != count or len(set(inner)) < count or not all(inner):
                raise click.UsageError(
                    f"{{{self._inner}}} must be {count} different names, one for each file; "
                    "{} numbers them"
                )
        else:
            inner = [str(number).zfill(len(str(count - 1))) for number in range(count)]
        return [self._path.replace(f"{{{self._inner}}}", name) for name in inner]
