"""Item numbers drawn at random: the same seed gives the same numbers on every machine."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets


def sampled(count: int, wanted: int, seed: int) -> Offsets:
    """Return the numbers of `wanted` random items out of `count`, increasing."""
    return np.sort(shuffled(count, seed)[:wanted])


def shuffled(count: int, seed: int) -> Offsets:
    """Return all items in a random order, (count,) int64."""
    order = np.arange(count, dtype=np.int64)
    np.random.default_rng(seed).shuffle(order)
    return order
