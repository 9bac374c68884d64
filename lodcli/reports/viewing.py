"""Reports of `lod view` and `lod plot`."""

from __future__ import annotations

from typing import Literal

from lodcli.reports.common import Report


class View(Report):
    """An item of a level.

    Attributes:
        file: its path, or - for standard input.
        tensor: the tensor that is looked at.
        level: the name of the level, or row.
        count: number of its items.
        item: the number of the item; null, like the following fields, if there is none.
        branch: the numbers that lead to it, outermost first.
        length: items of the next level; null for a row.
        values: in one line, the middle of long sequences left out.
    """

    file: str
    tensor: str
    level: str
    count: int
    item: int | None
    branch: list[int] | None
    length: int | None
    values: str | None


class Plot(Report):
    """A picture that was written.

    Attributes:
        file: its path.
        format: its format.
        bytes: its size.
        kind: what it shows.
        tensor: of which tensor.
    """

    file: str
    format: Literal["svg", "png", "html"]
    bytes: int
    kind: Literal["lengths", "padding", "values", "states"]
    tensor: str
