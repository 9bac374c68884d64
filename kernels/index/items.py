"""The rows of whole items of a level, in any order, and of time steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LevelNames, LoD
from lodcli.kernels.runtime.dispatch import on


class FoundItems(NamedTuple):
    """Where items lie in the rows.

    Attributes:
        levels, names: of the index of the items taken.
        starts: (K,), the first row of each.
        bounds: (K+1,), offsets of their rows once they are taken.
    """

    levels: Sequence[Offsets]
    names: LevelNames
    starts: Offsets
    bounds: Offsets

    @property
    def lod(self) -> LoD:
        """The index of the items taken."""
        return LoD._trusted(self.levels, self.names)


def find_items(lod: LoD, items: Offsets, level: int | str = 0) -> FoundItems:
    """Return where whole items of a level lie, and their index: `take_items` without the rows.

    Args:
        lod: the index of what they are taken from; without levels its rows are the items.
        items: (K,) int64; they must be there.
        level: the level whose sequences are taken.
    """
    number = lod.level(level) if lod.levels else 0
    if not lod.levels:
        return FoundItems((), (), items, np.arange(items.size + 1))
    return found_below(lod, number, *picked_offsets(lod.levels[number], items))


def found_below(
    lod: LoD, number: int, starts: Offsets, bounds: Offsets, above: tuple[Offsets, ...] = ()
) -> FoundItems:
    """Return `find_items` of items of a level that begin there, with these offsets side by side.

    Args:
        above: the levels above the items, if they are known.
    """
    levels = [*above, bounds]
    for offsets in lod.levels[number + 1 :]:
        lower, starts, bounds = inner_offsets(offsets, starts, bounds)
        levels.append(lower)
    return FoundItems(levels, lod.names[number - len(above) :], starts, bounds)


def picked_offsets(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """Return what `segment_pick` does, by compiled code where that is faster."""
    return on("auto", segment_pick, size_bytes=2 * items.nbytes)(offsets, items)


def segment_pick(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """Return where these items of a level begin, (K,), and their offsets side by side, (K+1,).

    >>> [part.tolist() for part in segment_pick(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[2, 0], [0, 3, 5]]
    """
    begins = offsets[items]
    return begins, lengths_to_offsets(offsets[items + 1] - begins, level=0)


def capped_offsets(offsets: Offsets, counts: Offsets | int) -> Offsets | None:
    """Return what `segment_capped` does, by compiled code where that is faster."""
    return on("auto", segment_capped, size_bytes=offsets.nbytes)(offsets, counts)


def segment_capped(offsets: Offsets, counts: Offsets | int) -> Offsets | None:
    """Return the offsets of the first counts[s] rows of each segment; None if one is below 0.

    Args:
        counts: (S,), or one for all.

    >>> segment_capped(np.array([0, 3, 4]), np.array([2, 2])).tolist()
    [0, 2, 3]
    """
    if np.count_nonzero(counts < 0):
        return None
    return lengths_to_offsets(np.minimum(counts, offsets_to_lengths(offsets)), level=0)


def inner_offsets(
    offsets: Offsets, starts: Offsets, bounds: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """Return what `segment_inner` does, by compiled code where that is faster."""
    inner = on("auto", segment_inner, size_bytes=8 * int(bounds[-1]))
    return inner(offsets, starts, bounds)


def segment_inner(
    offsets: Offsets, starts: Offsets, bounds: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """Return the offsets of what ranges of items of a level hold, and its ranges in the next level.

    Args:
        offsets: of the level.
        starts, bounds: the first item of each range, (K,), and offsets of the items, (K+1,).

    Returns:
        (bounds[-1] + 1,) offsets of the items side by side; and as `starts` and `bounds` the
        ranges of what is in them.

    >>> found = segment_inner(np.array([0, 2, 2, 5]), np.array([1, 0]), np.array([0, 2, 3]))
    >>> [part.tolist() for part in found]
    [[0, 0, 3, 5], [2, 0], [0, 3, 5]]
    """
    lower = segment_pick(offsets, ranges(starts, bounds))[1]
    return lower, offsets[starts], lower[bounds]


def segment_steps(
    offsets: Offsets, order: Offsets, *, back: bool = False
) -> tuple[Offsets, Offsets]:
    """Return item t of every segment that has one, for t = 0, 1, ..., and the steps' offsets.

    Args:
        offsets: (S+1,), of N items.
        order: (S,), that of the segments in each step.
        back: the place of each item instead: the way back.

    Returns:
        (N,) items or places, and (T+1,) where the steps lie in them; T is the longest length.

    >>> [part.tolist() for part in segment_steps(np.array([0, 1, 4]), np.array([1, 0]))]
    [[1, 0, 2, 3], [0, 2, 3, 4]]
    """
    lengths = offsets_to_lengths(offsets)[order]
    bounds = lengths_to_offsets(lengths, level=0)
    steps = np.arange(bounds[-1]) - bounds[:-1].repeat(lengths)
    items = steps + offsets[:-1][order].repeat(lengths)
    # NumPy's stable sort takes linear time (radix) on 16 bits and fewer.
    longest = int(lengths.max(initial=0))
    found: Offsets = items[steps.astype(np.min_scalar_type(longest)).argsort(kind="stable")]
    if back:
        found = found.argsort()
    return found, lengths_to_offsets(np.bincount(steps, minlength=longest), level=0)
