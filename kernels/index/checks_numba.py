"""Kernels that convert between lengths and offsets, join offsets of batches, and compare them."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def totals(lengths: Pointer[np.int64], offsets: Pointer[np.int64], count: int) -> int:
    """Write 0 and the prefix sum of the lengths; return 1 if it overflows or decreases."""
    total = sign = 0
    offsets[0] = 0
    for k in range(count):
        total += lengths[k]
        # A sum beyond int64 is negative.
        sign |= lengths[k] | total
        offsets[k + 1] = total
    return 1 if sign < 0 else 0


@kernel()
def differences(offsets: Pointer[np.int64], lengths: Pointer[np.int64], count: int) -> int:
    """Write the lengths of `count` items."""
    for k in range(count):
        lengths[k] = offsets[k + 1] - offsets[k]
    return 0


@kernel()
def falls(offsets: Pointer[np.int64], count: int) -> int:
    """Return 1 if any of `count` offsets is less than the previous one."""
    fallen = 0
    for k in range(1, count):
        fallen |= 1 if offsets[k] < offsets[k - 1] else 0
    return fallen


@kernel()
def appended(
    offsets: Pointer[np.int64], count: int, joined: Pointer[np.int64], items: int
) -> int:  # fmt: skip
    """Append the offsets of a batch of `count` items to those of the `items` before it."""
    total = joined[items] if items else 0
    for k in range(count + 1):
        joined[items + k] = total + offsets[k]
    return 0


@kernel()
def differ(
    one: Pointer[np.int64], two: Pointer[np.int64], count: int, piece: int, first: int, last: int
) -> int:
    """Return 1 if any of the offsets of these pieces differ."""
    begin, end = first * piece, min(last * piece, count)
    while begin < end:
        bits, stop = 0, min(begin + piece, end)
        for k in range(begin, stop):
            bits |= one[k] ^ two[k]
        if bits:
            return 1
        begin = stop
    return 0
