"""Standard error with --json: one object per line."""

from __future__ import annotations

from typing import TypedDict

from lodcli.reports.common import Report


class Error(TypedDict):
    """What went wrong.

    Attributes:
        code: the exit code: 1 data invalid, 2 usage, 3 input or output failed, 4 not supported.
        kind: the class of the error, as Python raises it.
        command: which one failed, such as "lod slice".
        message: in words.
        file: the file it is about.
        dataset: the part of the file: a dataset, tensor, member or record.
        level: of the index, 0 the outermost.
        position: inside of the level.
        expected, found: at this position.
        remedy: what to do.
    """

    code: int
    kind: str
    command: str
    message: str
    file: str | None
    dataset: str | None
    level: int | None
    position: int | None
    expected: int | str | None
    found: int | str | None
    remedy: str | None


class ErrorLine(Report):
    """An error.

    Attributes:
        error: what went wrong.
    """

    error: Error


class NoteLine(Report):
    """Something worth knowing that is no error, or with -v a detail.

    Attributes:
        note: in words.
    """

    note: str
