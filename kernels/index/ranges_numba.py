"""Kernels for ranges: their numbers, and the items that an index, a range or a list selects per
group."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def ranges(
    starts: Pointer[np.int64], offsets: Pointer[np.int64], numbers: Pointer[np.int64], count: int,
    step: int,
) -> int:  # fmt: skip
    """Write the numbers starts[i], starts[i] + step, .. to offsets[i]..offsets[i+1].

    Returns 1 if `offsets` are invalid or do not match the number of numbers.
    """
    at, total = 0, offsets[count]
    for i in range(count):
        if offsets[i] != at or not at <= offsets[i + 1] <= total:
            return 1
        number = starts[i]
        while at < offsets[i + 1]:
            numbers[at] = number
            number += step
            at += 1
    return 0


@kernel()
def cut(
    offsets: Pointer[np.int64], items: Pointer[np.int64], begin: int, end: int, step: int,
    begins: bool, ends: bool, starts: Pointer[np.int64], bounds: Pointer[np.int64], count: int,
) -> int:  # fmt: skip
    """Write the first item that a range selects of each group, and the offsets of the selected
    items.

    Args:
        offsets: of all groups.
        items: the groups.
        begin, end, step: of the range, as in a Python slice.
        begins, ends: whether it has a begin and an end.
    """
    total = 0
    bounds[0] = 0
    for i in range(count):
        base = offsets[items[i]]
        length = offsets[items[i] + 1] - base
        least, most = (0, length) if step > 0 else (-1, length - 1)
        low, high = (least, most) if step > 0 else (most, least)
        if begins:
            low = min(max(begin + length if begin < 0 else begin, least), most)
        if ends:
            high = min(max(end + length if end < 0 else end, least), most)
        starts[i] = base + low
        if step > 0 and high > low:
            total += (high - low - 1) // step + 1
        elif step < 0 and high < low:
            total += (low - high - 1) // -step + 1
        bounds[i + 1] = total
    return 0


@kernel()
def number(
    offsets: Pointer[np.int64], items: Pointer[np.int64], place: int, numbers: Pointer[np.int64],
    count: int,
) -> int:  # fmt: skip
    """Write the item at an index (negative: from the end) of each group; return 1 if a group has
    none."""
    for i in range(count):
        begin, end = offsets[items[i]], offsets[items[i] + 1]
        found = place + (end if place < 0 else begin)
        if not begin <= found < end:
            return 1
        numbers[i] = found
    return 0


@kernel()
def places(
    offsets: Pointer[np.int64], items: Pointer[np.int64], wanted: Pointer[np.int64], many: int,
    length: int, numbers: Pointer[np.int64], bounds: Pointer[np.int64], count: int,
) -> int:  # fmt: skip
    """Write the items at several indices of each group, and their offsets.

    Args:
        offsets: of all groups.
        items: the groups.
        wanted: `many` indices.
        length: required length of each group; -1 for any.

    Returns 1 if an index is out of bounds, or a group has another length.
    """
    bounds[0] = 0
    for i in range(count):
        begin, end = offsets[items[i]], offsets[items[i] + 1]
        if length >= 0 and end - begin != length:
            return 1
        for n in range(many):
            if not begin - end <= wanted[n] < end - begin:
                return 1
            numbers[i * many + n] = wanted[n] + (end if wanted[n] < 0 else begin)
        bounds[i + 1] = (i + 1) * many
    return 0
