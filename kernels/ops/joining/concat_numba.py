"""Kernels that compute the offsets of interleaved items of several inputs."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.simd.byte_moves import number_at


@kernel()
def item_turns(
    offsets: Pointer[np.int64], joined: Pointer[np.int64], count: int, parts: int, part: int
) -> int:
    """Write the prefix sum of the lengths of item 0 of every part, then item 1, and so on.

    Each call writes the lengths of one part; the call for the last part computes the sums.

    Args:
        offsets: of the part's `count` items.
        joined: (count * parts + 1,); 1 is returned if they overflow.
    """
    for i in range(count):
        joined[1 + i * parts + part] = offsets[i + 1] - offsets[i]
    if part < parts - 1:
        return 0
    total = sign = 0
    joined[0] = 0
    for i in range(1, count * parts + 1):
        total += joined[i]
        sign |= total
        joined[i] = total
    return 1 if sign < 0 else 0


@kernel()
def turns(
    table: Pointer[np.int64], parts: int, ranges: int, offsets: Pointer[np.int64],
    inner: Pointer[np.int64],
) -> int:  # fmt: skip
    """Write the prefix sum of the lengths of range 0 of every part, then range 1, and so on.

    Args:
        table: as written by `part` of row_copies_numba.py, for the offsets of each part and its
            ranges of items.
        offsets: number of items + 1; 1 is returned if they overflow int64.
        inner: (parts, ranges + 1), the ranges of the next level, per part.
    """
    total = sign = at = 0
    offsets[0] = 0
    for part in range(parts):
        level, bounds = table[3 * part], table[3 * part + 2]
        for i in range(ranges + 1):
            inner[part * (ranges + 1) + i] = number_at(level + 8 * number_at(bounds + 8 * i))
    for i in range(ranges):
        for part in range(parts):
            level, bounds = table[3 * part], table[3 * part + 2]
            before = total - number_at(level + 8 * number_at(bounds + 8 * i))
            for item in range(number_at(bounds + 8 * i), number_at(bounds + 8 * (i + 1))):
                total = before + number_at(level + 8 * (item + 1))
                sign |= total
                at += 1
                offsets[at] = total
    return 1 if sign < 0 else 0
