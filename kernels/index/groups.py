"""What a range picks of every group of items."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets, offsets_to_lengths

# Beyond every length, and far enough from the limits of int64 for what is added to it.
_FAR = 1 << 61


def segment_cut(offsets: Offsets, items: Offsets, part: slice) -> tuple[Offsets, Offsets]:
    """Return the numbers of what a range picks of these items of a level, and their offsets.

    As `slice.indices`, for all items at once.

    >>> found = segment_cut(np.array([0, 3, 5]), np.array([1, 0]), slice(1, None))
    >>> [part.tolist() for part in found]
    [[4, 1, 2], [0, 1, 3]]
    """
    starts, counts = offsets[items], offsets_to_lengths(offsets)[items]
    step = 1 if part.step is None else near(part.step)
    least, most = (0, counts) if step > 0 else (-1, counts - 1)

    def bound(value: Any, default: Any) -> Any:
        if value is None:
            return default
        placed = near(value) if value >= 0 else counts + near(value)
        return np.minimum(np.maximum(placed, least), most)

    begin = bound(part.start, least if step > 0 else most)
    end = bound(part.stop, most if step > 0 else least)
    lengths = (end - begin + (step - 1 if step > 0 else step + 1)) // step
    bounds = lengths_to_offsets(np.maximum(lengths, 0), level=0)
    lengths = offsets_to_lengths(bounds)
    turns = np.arange(bounds[-1]) - bounds[:-1].repeat(lengths)
    return (starts + begin).repeat(lengths) + step * turns, bounds


def near(number: int | None) -> int:
    """Return a number of a range as an int64 that picks the same; 0 for none."""
    return 0 if number is None else max(-_FAR, min(int(number), _FAR))
