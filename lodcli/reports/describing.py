"""An error as JSON."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from lodcli.formats.core.errors import places

if TYPE_CHECKING:
    from lodcli.reports.errors import Error

# By convention the end of a message says what to do, as "; use --backend numpy". Not after a comma,
# where names of columns and commands may be verbs too.
_REMEDY = re.compile(
    r"; ((?:(?:if|for|of|with)\b[^;]*?, )?(?:or )?"
    r"(?:add|allow|ask|call|cast|check|choose|compare|convert|copy|create|did you mean|drop|fetch|"
    r"give|install|join|leave|make|mask|move|name|pack|pass|pick|pip|put|read|remove|rename|repeat|"
    r"replace|rewrite|run|save|say|scale|see|set|sort|split|store|take|transpose|try|unpack|update|"
    r"use|wrap|write)\b.*)$"
    r"|; (`?(?:lod |--)[a-z-]+.*)$"
)
# A dataset, between the file and what is wrong.
_DATASET = re.compile(r"(/[^\s:]+): ")


def described(error: BaseException, message: str, code: int, command: str) -> Error:
    """Return an error with what is known of where it happened.

    Args:
        error: its attributes name the place.
        message: what is printed of it.
        code: the exit code.
        command: which one failed.
    """
    known = places(error)
    file = next(iter(_files(error) or known), None)
    remedy = _REMEDY.search(message)
    return {
        "code": code,
        "kind": type(error).__name__,
        "command": command,
        "message": message,
        "file": file,
        "dataset": ": ".join(known[1:]) or _dataset(message, file),
        "level": getattr(error, "level", None),
        "position": getattr(error, "position", None),
        "expected": _plain(getattr(error, "expected", None)),
        "found": _plain(getattr(error, "found", None)),
        "remedy": remedy and (remedy[1] or remedy[2]),
    }


def _files(error: BaseException) -> list[str]:
    """Return the file an OSError is about."""
    if not isinstance(error, OSError):
        return []
    name = error.filename if error.filename2 is None else error.filename2
    return [os.fsdecode(name)] if isinstance(name, str | bytes | os.PathLike) else []


def _dataset(message: str, file: str | None) -> str | None:
    found = _DATASET.match(message.removeprefix(f"{file}: "))
    return found and found[1]


def _plain(value: object) -> int | str | None:
    if value is None or isinstance(value, str):
        return value
    return int(value) if hasattr(value, "__index__") else str(value)
