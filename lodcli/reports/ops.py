"""What `lod apply --list` reports."""

from __future__ import annotations

from typing import TypedDict

from lodcli.reports.common import Report


class Op(TypedDict):
    """An op.

    Attributes:
        name: as lod apply takes it.
        summary: what it returns.
        equation: in the notation of docs/ops.md.
    """

    name: str
    summary: str
    equation: str


class Ops(Report):
    """The ops that lod apply knows, with --list.

    Attributes:
        ops: in the order of docs/ops.md.
    """

    ops: list[Op]
