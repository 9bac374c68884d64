"""Kernel that reads the lengths of the words of a Parquet dictionary."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def word_lengths(
    body: Pointer[np.uint8], size: int, lengths: Pointer[np.int64], words: int
) -> int:  # fmt: skip
    """Write the length of each word, and return how many of `words` are there."""
    at = 0
    for word in range(words):
        if at + 4 > size:
            return word
        length = 0
        for byte in range(4):
            length |= int(body[at + byte]) << (8 * byte)
        lengths[word] = length
        at += 4 + length
    return words
