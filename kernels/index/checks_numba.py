"""Kernel that makes offsets of lengths."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def totals(lengths: Pointer[np.int64], offsets: Pointer[np.int64], count: int) -> int:
    """Write 0 and the running total of the lengths; 1 if it ever falls."""
    total = sign = 0
    offsets[0] = 0
    for k in range(count):
        total += lengths[k]
        # A sum beyond int64 is negative.
        sign |= lengths[k] | total
        offsets[k + 1] = total
    return 1 if sign < 0 else 0
