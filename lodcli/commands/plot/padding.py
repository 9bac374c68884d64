"""Padding as a function of the size of a batch."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets


def batch_sizes(count: int) -> list[int]:
    """Return the powers of two up to a number of sequences, and this number.

    >>> batch_sizes(5)
    [1, 2, 4, 5]
    """
    sizes = [1 << power for power in range(max(count, 1).bit_length())]
    return sizes if sizes[-1] >= count else [*sizes, count]


def padding_shares(lengths: Offsets, sizes: list[int]) -> Array:
    """Return the share of padding, from 0 to 1, for each size of batches of consecutive sequences.

    >>> padding_shares(np.array([1, 3, 2, 2]), [1, 2, 4]).round(3).tolist()
    [0.0, 0.2, 0.333]
    """
    found = []
    for size in sizes:
        starts = np.arange(0, lengths.size, size)
        longest = np.maximum.reduceat(lengths, starts) if lengths.size else lengths
        counts = np.diff(np.append(starts, lengths.size))
        padded = int((longest * counts).sum())
        found.append(1 - int(lengths.sum()) / padded if padded else 0.0)
    return np.array(found)
