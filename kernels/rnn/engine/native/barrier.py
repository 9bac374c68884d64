"""Barriers for threads that share every step of a sequence."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets

STRIDE = 8  # stride in int64 between members' counters, to avoid false sharing


def new_barrier(members: int) -> Offsets:
    """Return a barrier for this many threads: a stop flag, and a counter for each."""
    return np.zeros(STRIDE * (members + 1), np.int64)
