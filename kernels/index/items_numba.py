"""Kernels that select items of a level: chosen ones, the first of each sequence, time steps."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import address


@kernel()
def pick(
    offsets: Pointer[np.int64], items: Pointer[np.int64], begins: Pointer[np.int64],
    bounds: Pointer[np.int64], count: int,
) -> int:  # fmt: skip
    """Write where each chosen item begins, and the prefix sum of their lengths; return 1 on
    overflow."""
    total = sign = 0
    bounds[0] = 0
    for k in range(count):
        begin = offsets[items[k]]
        begins[k] = begin
        total += offsets[items[k] + 1] - begin
        sign |= total
        bounds[k + 1] = total
    return 1 if sign < 0 else 0


@kernel()
def capped(
    offsets: Pointer[np.int64], counts: Pointer[np.int64], of_all: int, bounds: Pointer[np.int64],
    segments: int,
) -> int:  # fmt: skip
    """Write the offsets of the first counts[s] rows of each segment; return 1 if a count is
    negative.

    Args:
        counts: None to use `of_all` for each segment.
    """
    if of_all < 0:
        return 1
    bounds[0] = 0
    for s in range(segments):
        count = counts[s] if address(counts) else of_all
        if count < 0:
            return 1
        bounds[s + 1] = bounds[s] + min(count, offsets[s + 1] - offsets[s])
    return 0


@kernel()
def inner(
    offsets: Pointer[np.int64], starts: Pointer[np.int64], bounds: Pointer[np.int64],
    lower: Pointer[np.int64], begins: Pointer[np.int64], ends: Pointer[np.int64], count: int,
) -> int:  # fmt: skip
    """Like `pick`, for the items of ranges; also write the corresponding ranges of the next level.

    Args:
        offsets: of the level.
        starts, bounds: the first item of each range, (count,), and their offsets, (count + 1,).
        lower: (bounds[count] + 1,), prefix sum of the lengths; 1 is returned if it overflows.
        begins, ends: like `starts` and `bounds`, for the next level.
    """
    total = sign = 0
    lower[0] = ends[0] = 0
    for k in range(count):
        begins[k] = offsets[starts[k]]
        for n in range(bounds[k], bounds[k + 1]):
            item = starts[k] + n - bounds[k]
            total += offsets[item + 1] - offsets[item]
            sign |= total
            lower[n + 1] = total
        ends[k + 1] = total
    return 1 if sign < 0 else 0


@kernel()
def longest(offsets: Pointer[np.int64], count: int) -> int:
    """Return the greatest length."""
    most = 0
    for s in range(count):
        most = max(most, offsets[s + 1] - offsets[s])
    return most


@kernel()
def steps(
    offsets: Pointer[np.int64], order: Pointer[np.int64], items: Pointer[np.int64],
    bounds: Pointer[np.int64], ends: Pointer[np.int64], count: int, length: int, back: bool,
) -> int:  # fmt: skip
    """Write item t of every sequence that has one, in order, for t = 0, 1, ..

    Args:
        offsets: of `count` sequences.
        order: of the sequences within a step.
        items: one entry per item; with `back`, its position in the steps.
        bounds: (length + 1,), the offsets of the steps in `items`.
        ends: (length,), scratch.
        length: of the longest sequence.
    """
    for t in range(length + 1):
        bounds[t] = 0
    for s in range(count):
        bounds[offsets[s + 1] - offsets[s]] += 1
    alive, total = count, 0
    for t in range(length):
        alive -= bounds[t]
        bounds[t] = ends[t] = total
        total += alive
    bounds[length] = total
    for place in range(count):
        begin = offsets[order[place]]
        for t in range(offsets[order[place] + 1] - begin):
            if back:
                items[begin + t] = ends[t]
            else:
                items[ends[t]] = begin + t
            ends[t] += 1
    return 0
