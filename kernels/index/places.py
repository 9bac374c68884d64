"""Positions of items and rows in a tensor, for messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD


def branch_of(lod: LoD, level: int, item: int) -> tuple[int, ...]:
    """Return the path to an item of a level, outermost first; with L levels, level L is the rows.

    >>> branch_of(LoD.from_lengths([[3, 1], [3, 2, 4, 1]]), 2, 6)
    (0, 2, 1)
    """
    return branch_below(lod.levels[:level], item)


def branch_below(levels: Sequence[Offsets], item: int) -> tuple[int, ...]:
    """Return the path to an item below some levels: the outermost item, then positions in it."""
    path: list[int] = []
    for offsets in reversed(levels):
        parent = int(np.searchsorted(offsets, item, side="right")) - 1
        path.insert(0, item - int(offsets[parent]))
        item = parent
    return (item, *path)


def named_branch(
    level_names: Sequence[str | None], branch: Sequence[int], column: Sequence[int] = ()
) -> str:
    """Return the path to an item, or to a value, as text.

    >>> named_branch(["series"], (3, 0), (2,))
    'series 3, row 0, column 2'
    """
    names = [name or f"level {number} item" for number, name in enumerate(level_names)]
    names.append("row")
    shown = ", ".join(f"{name} {number}" for name, number in zip(names, branch, strict=False))
    if column:
        shown += f", column {column[0] if len(column) == 1 else tuple(column)}"
    return shown
