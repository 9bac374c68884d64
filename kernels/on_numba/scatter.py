"""See ops/scatter.py."""

from __future__ import annotations

import numpy as np
from numba import njit

from lodcli.kernels.checks import Array, Offsets


def segment_scatter(data: Array, ids: Offsets, updates: Array, offsets: Offsets) -> Array:
    """See ops/scatter.py."""
    out = np.array(data, order="C")
    _scatter(out, ids, np.ascontiguousarray(updates), offsets)
    return out


@njit(cache=True, nogil=True)
def _scatter(out, ids, updates, offsets):  # type: ignore[no-untyped-def]
    for segment in range(offsets.size - 1):
        for row in range(offsets[segment], offsets[segment + 1]):
            out[segment, ids[row]] += updates[row]
