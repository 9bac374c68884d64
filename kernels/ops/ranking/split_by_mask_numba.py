"""Kernel that counts what a mask is true for."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def turns(
    mask: Pointer[np.uint8], true: Pointer[np.int64], false: Pointer[np.int64], count: int
) -> int:
    """Write how many are true, and how many are false, before each place and at the end."""
    true[0] = false[0] = 0
    for place in range(count):
        true[place + 1] = true[place] + (1 if mask[place] else 0)
        false[place + 1] = place + 1 - true[place + 1]
    return 0
