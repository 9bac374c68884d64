"""Select children of every item by a number, a range or a list of positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets, offsets_to_lengths

# Above every length, and low enough that adding a length to it does not overflow int64.
_FAR = 1 << 61


def segment_number(offsets: Offsets, items: Offsets, number: int) -> Offsets | None:
    """Return child `number` of each item, (K,); None if an item has no such child.

    Args:
        offsets: (S+1,) of the level of the items.
        items: (K,) int64.
        number: position among the children; a negative one counts from the end.

    >>> segment_number(np.array([0, 3, 5]), np.array([1, 0]), -1).tolist()
    [4, 2]
    """
    starts, stops = offsets[items], offsets[items + 1]
    counts = stops - starts
    if np.count_nonzero((number >= counts) | (number < -counts)):
        return None
    return (stops if number < 0 else starts) + number


def segment_cut(offsets: Offsets, items: Offsets, part: slice) -> tuple[Offsets, Offsets]:
    """Return the first child in a range of each item, (K,), and the offsets of the ranges, (K+1,).

    Like `slice.indices`, for all items at once.

    >>> found = segment_cut(np.array([0, 3, 5]), np.array([1, 0]), slice(1, None))
    >>> [part.tolist() for part in found]
    [[4, 1], [0, 1, 3]]
    """
    starts, counts = offsets[items], offsets_to_lengths(offsets)[items]
    step = near_step(part)
    least, most = (0, counts) if step > 0 else (-1, counts - 1)

    def bound(value: Any, default: Any) -> Any:
        if value is None:
            return default
        placed = near(value) if value >= 0 else counts + near(value)
        return np.minimum(np.maximum(placed, least), most)

    begin = bound(part.start, least if step > 0 else most)
    end = bound(part.stop, most if step > 0 else least)
    lengths = (end - begin + (step - 1 if step > 0 else step + 1)) // step
    return starts + begin, lengths_to_offsets(np.maximum(lengths, 0), level=0)


def segment_places(
    offsets: Offsets, items: Offsets, places: Offsets, length: int
) -> tuple[Offsets, Offsets] | None:
    """Return the children at the same positions in each item, and their offsets.

    Args:
        offsets: (S+1,) of the level of the items.
        items: (K,).
        places: (P,) positions among the children; negative ones count from the end.
        length: the number of children that each item must have; -1 for any.

    Returns:
        (K * P,) and (K + 1,); None if an item has no such position, or another length.

    >>> segment_places(np.array([0, 3, 5]), np.array([1, 0]), np.array([0, -1]), -1)[0].tolist()
    [3, 4, 0, 2]
    """
    starts = offsets[items]
    counts = (offsets[items + 1] - starts)[:, np.newaxis]
    wrapped = places + (places < 0) * counts
    wrong = (wrapped < 0) | (wrapped >= counts)
    if wrong.any() or (length >= 0 and (counts != length).any()):
        return None
    numbers = (starts[:, np.newaxis] + wrapped).reshape(-1)
    return numbers, np.arange(items.size + 1) * places.size


def near(number: int | None) -> int:
    """Return a bound of a range, clipped to int64 without a change of the selection; 0 for None."""
    return 0 if number is None else max(-_FAR, min(int(number), _FAR))


def near_step(part: slice) -> int:
    """Return the step of a range, clipped like `near`; 1 for None."""
    return 1 if part.step is None else near(part.step)
