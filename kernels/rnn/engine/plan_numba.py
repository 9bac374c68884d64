"""Kernels that order the sequences of a batch by their lengths."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def order(
    offsets: Pointer[np.int64], order: Pointer[np.int64], lengths: Pointer[np.int64],
    starts: Pointer[np.int64], alive: Pointer[np.int64], sequences: int, most: int,
) -> int:  # fmt: skip
    """Write the order of the sequences, longest first, and their lengths and starts in that order.

    Args:
        order, lengths, starts: (sequences,).
        alive: (most + 1,), how many sequences have at least 0, 1, .. rows.
        most: length of the longest sequence.
    """
    for rows in range(most + 1):
        alive[rows] = 0
    for n in range(sequences):
        alive[offsets[n + 1] - offsets[n]] += 1
    longer = 0
    for k in range(most + 1):
        rows = most - k
        count = alive[rows]
        alive[rows] = longer  # position of the first sequence of each length (counting sort)
        longer += count
    for n in range(sequences):
        rows = offsets[n + 1] - offsets[n]
        place = alive[rows]
        alive[rows] = place + 1
        order[place], lengths[place], starts[place] = n, rows, offsets[n]
    return 0
