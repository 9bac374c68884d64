"""Index arithmetic to gather whole items of a level in any order, or items by time step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LevelNames, LoD
from lodcli.kernels.runtime.dispatch import on


class FoundItems(NamedTuple):
    """Positions of items in the rows, and the index of the gathered items.

    Attributes:
        levels, names: of the index of the gathered items.
        starts: (K,), the first row of each item.
        bounds: (K+1,), offsets of the items in the gathered rows.
    """

    levels: Sequence[Offsets]
    names: LevelNames
    starts: Offsets
    bounds: Offsets

    @property
    def lod(self) -> LoD:
        """The index of the gathered items."""
        return LoD._trusted(self.levels, self.names)


def find_items(lod: LoD, items: Offsets, level: int | str = 0) -> FoundItems:
    """Return positions and index of whole items of a level: `take_items` without its row gather.

    Args:
        lod: the index of the source; without levels the rows are the items.
        items: (K,) int64; not checked: all must be valid.
        level: the level of the items.
    """
    if not lod.levels:
        return FoundItems((), (), items, np.arange(items.size + 1))
    number = lod.level(level)
    return found_below(lod, number, *picked_offsets(lod.levels[number], items))


def found_below(
    lod: LoD, number: int, starts: Offsets, bounds: Offsets, above: tuple[Offsets, ...] = ()
) -> FoundItems:
    """Return `find_items` of items given as the result of `segment_pick`.

    Args:
        lod: the index of the source.
        number: the level of the items.
        starts, bounds: where the items begin, (K,), and their offsets concatenated, (K+1,).
        above: levels of the result above the items; () for none.
    """
    levels = [*above, bounds]
    for offsets in lod.levels[number + 1 :]:
        lower, starts, bounds = inner_offsets(offsets, starts, bounds)
        levels.append(lower)
    return FoundItems(levels, lod.names[number - len(above) :], starts, bounds)


def picked_offsets(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """Return the result of `segment_pick`, from compiled code where that is faster."""
    return on("auto", segment_pick, size_bytes=2 * items.nbytes)(offsets, items)


def segment_pick(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """Return where the given items begin, (K,), and the offsets of the items concatenated, (K+1,).

    >>> [part.tolist() for part in segment_pick(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[2, 0], [0, 3, 5]]
    """
    begins = offsets[items]
    return begins, lengths_to_offsets(offsets[items + 1] - begins, level=0)


def capped_offsets(offsets: Offsets, counts: Offsets | int) -> Offsets | None:
    """Return the result of `segment_capped`, from compiled code where that is faster."""
    return on("auto", segment_capped, size_bytes=offsets.nbytes)(offsets, counts)


def segment_capped(offsets: Offsets, counts: Offsets | int) -> Offsets | None:
    """Return the offsets of the first counts[s] rows of each segment; None if a count is negative.

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
    """Return the result of `segment_inner`, from compiled code where that is faster."""
    inner = on("auto", segment_inner, size_bytes=8 * int(bounds[-1]))
    return inner(offsets, starts, bounds)


def segment_inner(
    offsets: Offsets, starts: Offsets, bounds: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """Return the offsets of the items in some ranges, and the ranges of their children.

    Args:
        offsets: of the level of the items.
        starts, bounds: the first item of each range, (K,), and offsets of the items, (K+1,).

    Returns:
        (bounds[-1] + 1,) offsets of the items concatenated; then `starts` and `bounds` of the
        ranges of their children in the next level.

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
        order: (S,), the order of the segments in each step.
        back: return the inverse permutation: the position of each item in the steps.

    Returns:
        (N,) items or positions, and (T+1,) offsets of the steps; T is the longest length.

    >>> [part.tolist() for part in segment_steps(np.array([0, 1, 4]), np.array([1, 0]))]
    [[1, 0, 2, 3], [0, 2, 3, 4]]
    """
    lengths = offsets_to_lengths(offsets)[order]
    bounds = lengths_to_offsets(lengths, level=0)
    steps = np.arange(bounds[-1]) - bounds[:-1].repeat(lengths)
    items = steps + offsets[:-1][order].repeat(lengths)
    # NumPy's stable sort is a radix sort, in linear time, for dtypes of up to 16 bits.
    longest = int(lengths.max(initial=0))
    found: Offsets = items[steps.astype(np.min_scalar_type(longest)).argsort(kind="stable")]
    if back:
        found = found.argsort()
    return found, lengths_to_offsets(np.bincount(steps, minlength=longest), level=0)
