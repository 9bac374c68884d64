"""Kernels that find the windows of every segment, and sum overlapping windows."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel


@kernel()
def counts(
    offsets: Pointer[np.int64], length: int, first: int, stride: int, keep: bool,
    counted: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Write the prefix sum of the number of windows of each segment.

    Args:
        first: the end of the first window, at most `length`.
        keep: whether items after the last whole window form one more, if one can start there.
    """
    counted[0] = 0
    for s in range(segments):
        items = offsets[s + 1] - offsets[s]
        whole = (items - first) // stride + 1 if items >= first else 0
        reached = (whole - 1) * stride + first if whole else 0
        more = keep and reached < items and whole * stride + first - length < items
        counted[s + 1] = counted[s] + whole + (1 if more else 0)
    return 0


@kernel()
def windows(
    offsets: Pointer[np.int64], length: int, first: int, stride: int,
    counted: Pointer[np.int64], starts: Pointer[np.int64], bounds: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Write the first item of each window, and the offsets of the items of all windows."""
    bounds[0] = 0
    for s in range(segments):
        for w in range(counted[s], counted[s + 1]):
            end = first + (w - counted[s]) * stride
            start = max(0, end - length)
            starts[w] = offsets[s] + start
            bounds[w + 1] = bounds[w] + min(end, offsets[s + 1] - offsets[s]) - start
    return 0


@kernel()
def deal(
    offsets: Pointer[np.int64], held: Pointer[np.int64], fewer: Pointer[np.int64],
    begins: Pointer[np.int64], bounds: Pointer[np.int64], above: int, each: int, parts: int,
) -> int:  # fmt: skip
    """Write the items 0, parts, .. of a level, then 1, 1 + parts, .., and so on.

    Args:
        held, fewer: (above,), offsets of the level above, of the whole and of each part; 1 is
            returned if they are not multiples of `parts`.
        begins: (parts, each), the first row of each item.
        bounds: (parts, each + 1), the offsets of each part.
    """
    for s in range(above):
        if held[s] % parts:
            return 1
        fewer[s] = held[s] // parts
    for part in range(parts):
        to, ends, total = begins + part * each, bounds + part * (each + 1), 0
        ends[0] = 0
        for k in range(each):
            item = k * parts + part
            to[k] = offsets[item]
            total += offsets[item + 1] - offsets[item]
            ends[k + 1] = total
    return 0


@kernel(types=FLOATS)
def add(
    rows: Pointer[T], starts: Pointer[np.int64], offsets: Pointer[np.int64], out: Pointer[T],
    segments: int, width: int,
) -> int:  # fmt: skip
    """Add the rows of each segment to the rows from starts[s] on, one segment after another."""
    for s in range(segments):
        source, to = rows + offsets[s] * width, out + starts[s] * width
        for k in range((offsets[s + 1] - offsets[s]) * width):
            to[k] += source[k]
    return 0
