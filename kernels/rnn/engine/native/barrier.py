"""Barriers for threads that share every step of a sequence."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets

STRIDE = 8  # int64 between two members' counters, so that each has a cache line of its own


def new_barrier(members: int) -> Offsets:
    """Return a barrier for so many threads: the word that stops it, and a counter for each."""
    return np.zeros(STRIDE * (members + 1), np.int64)
