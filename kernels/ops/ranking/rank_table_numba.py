"""Kernel that splits a rank table into order and lengths."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def ranks(
    table: Pointer[np.int64], order: Pointer[np.int64], offsets: Pointer[np.int64], count: int
) -> int:
    """Write the sequences of a table (count, 2) in order, and their offsets; return 1 if it is
    invalid."""
    lengths, total = offsets + 1, 0
    offsets[0] = 0
    for s in range(count):
        # Marks a sequence that is not in the table so far; no valid length is negative.
        lengths[s] = -1
    for place in range(count):
        sequence, length = table[2 * place], table[2 * place + 1]
        if not 0 <= sequence < count or length < 0 or lengths[sequence] >= 0:
            return 1
        if place and length > table[2 * place - 1]:
            return 1
        order[place] = sequence
        lengths[sequence] = length
    for s in range(count):
        total += lengths[s]
        if total < 0:  # overflows int64
            return 1
        lengths[s] = total
    return 0
