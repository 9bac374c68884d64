"""Kernel that finds items of a level, and their offsets side by side."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def pick(
    offsets: Pointer[np.int64], items: Pointer[np.int64], begins: Pointer[np.int64],
    bounds: Pointer[np.int64], count: int,
) -> int:  # fmt: skip
    """Write where each item begins, and the running total of their lengths; 1 if it overflows."""
    total = sign = 0
    bounds[0] = 0
    for k in range(count):
        begin = offsets[items[k]]
        begins[k] = begin
        total += offsets[items[k] + 1] - begin
        sign |= total
        bounds[k + 1] = total
    return 1 if sign < 0 else 0
