"""See split_by_mask.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.native import load
from lodcli.kernels.ops.ranking.split_by_mask import Mask

_turns = load.kernel("kernels.ops.ranking.split_by_mask_numba", "turns")


def segment_turns_by_mask(mask: Mask) -> tuple[Offsets, Offsets]:
    """See split_by_mask.py."""
    count, given = mask.size, np.ascontiguousarray(mask)
    true, false = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    _turns[""].call(0, 1, given.view(np.uint8), true, false, count)
    return true, false
