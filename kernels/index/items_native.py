"""See items.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index import items as reference
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_pick = load.kernel("kernels.index.items_numba", "pick")


def segment_pick(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """See items.py."""
    begins, bounds = np.empty(items.size, np.int64), unwritten(items.size + 1)
    overflows = _pick[""].call(
        *(0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items), begins, bounds),
        items.size,
    )
    return reference.segment_pick(offsets, items) if overflows else (begins, bounds)
