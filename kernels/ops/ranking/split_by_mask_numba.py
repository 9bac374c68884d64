"""Kernels that merge two parts by a mask, and select the items of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import function


@function()
def _trues(mask: Any, count: int) -> int:
    trues = 0
    for place in range(count):
        trues += 1 if mask[place] else 0
    return trues


@kernel()
def merged(
    mask: Pointer[np.uint8], true: Pointer[np.int64], false: Pointer[np.int64],
    offsets: Pointer[np.int64], bounds: Pointer[np.int64], count: int, wanted: int,
) -> int:  # fmt: skip
    """Write the offsets of two merged parts, and how many items each has before every position.

    Args:
        true, false: the offsets of the parts.
        offsets: (count + 1,); 1 is returned if they overflow.
        bounds: (2, count + 1), of the true and the false part.
        wanted: number of sequences of the true part; 2 is returned if the mask has another count.
    """
    if _trues(mask, count) != wanted:
        return 2
    of_false = bounds + (count + 1)
    offsets[0] = bounds[0] = of_false[0] = 0
    total = sign = trues = 0
    for place in range(count):
        trues += 1 if mask[place] else 0
        bounds[place + 1] = true[trues]
        of_false[place + 1] = false[place + 1 - trues]
        total = true[trues] + false[place + 1 - trues]
        sign |= total
        offsets[place + 1] = total
    return 1 if sign < 0 else 0


@kernel()
def split(
    mask: Pointer[np.uint8], offsets: Pointer[np.int64], begins: Pointer[np.int64],
    bounds: Pointer[np.int64], count: int,
) -> int:  # fmt: skip
    """Write the items of both parts of a mask, and their offsets.

    Args:
        offsets: (count + 1,), of the level.
        begins: (count,), the first rows of items where the mask is true, whose number is returned,
            then of the others.
        bounds: (count + 2,), the offsets of the true part, then those of the false part.
    """
    trues: int = _trues(mask, count)
    true, false = bounds, bounds + (trues + 1)
    at = total = 0
    true[0] = false[0] = 0
    for item in range(count):
        # Branch-free: a mask is unpredictable.
        one = 1 if mask[item] else 0
        begins[at if one else trues + item - at] = offsets[item]
        at += one
        total += one * (offsets[item + 1] - offsets[item])
        true[at] = total
        false[item + 1 - at] = offsets[item + 1] - total
    return trues
