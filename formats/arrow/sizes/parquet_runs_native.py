"""See parquet_runs.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load

_word_lengths = load.kernel("formats.arrow.sizes.parquet_runs_numba", "word_lengths")


def dictionary_lengths(body: bytes, words: int) -> Array:
    """See parquet_runs.py."""
    # A bound on the declared number: each word takes at least the four bytes of its length.
    lengths = np.empty(max(0, min(words, len(body) // 4)), np.int64)
    data = np.frombuffer(body, np.uint8)
    found = _word_lengths[""].call(0, 1, data, data.size, lengths, lengths.size)
    return lengths[:found]
