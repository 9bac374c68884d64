"""Where whole items of a level lie in the rows, in any order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD


class FoundItems(NamedTuple):
    """Where items lie in the rows.

    Attributes:
        lod: the index of the items taken.
        starts: (K,), the first row of each.
        bounds: (K+1,), offsets of their rows once they are taken.
    """

    lod: LoD
    starts: Offsets
    bounds: Offsets


def find_items(lod: LoD, items: Offsets, level: int | str = 0) -> FoundItems:
    """Return where whole items of a level lie, and their index: `take_items` without the rows.

    Args:
        lod: the index of what they are taken from; without levels its rows are the items.
        items: (K,) int64; they must be there.
        level: the level whose sequences are taken.
    """
    number = lod.level(level) if lod.levels else 0
    levels: list[Offsets] = []
    starts, bounds = items, None
    for depth, offsets in enumerate(lod.levels[number:]):
        inner = items if bounds is None else ranges(starts, bounds)
        begins = offsets[inner]
        levels.append(lengths_to_offsets(offsets[inner + 1] - begins, level=depth))
        starts = begins if bounds is None else offsets[starts]
        bounds = levels[-1] if bounds is None else levels[-1][bounds]
    if bounds is None:
        bounds = np.arange(items.size + 1)
    return FoundItems(LoD._trusted(levels, lod.names[number:]), starts, bounds)
