"""Reports of `lod verify`."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from lodcli.reports.common import Report


class VerifiedFile(TypedDict):
    """One file; the keys besides `file` and `ok` depend on whether it is valid.

    Attributes:
        file: its path, or - for standard input.
        ok: whether it is valid.
        format: its format.
        tensors, rows, levels, bytes: what it holds.
        checksums: those that were checked; null if the format has none.
        checked: what was checked, in words.
        sums: the file of SHA-256 sums that was written or compared with.
        error: the first error.
        errors: all errors.
        exit_code: what lod verify of this file alone would return.
    """

    file: str
    ok: bool
    format: NotRequired[str]
    tensors: NotRequired[int]
    rows: NotRequired[int]
    levels: NotRequired[int]
    bytes: NotRequired[int]
    checksums: NotRequired[str | None]
    checked: NotRequired[str]
    sums: NotRequired[str]
    error: NotRequired[str]
    errors: NotRequired[list[str]]
    exit_code: NotRequired[int]


class Verification(Report):
    """The results of checking files.

    Attributes:
        files: each that was named.
        failed: how many are not valid, or cannot be read.
    """

    files: list[VerifiedFile]
    failed: int
