"""See items.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index import items as reference
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_MODULE = "kernels.index.items_numba"
_pick, _longest, _steps = (load.kernel(_MODULE, name) for name in ("pick", "longest", "steps"))


def segment_pick(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """See items.py."""
    begins, bounds = np.empty(items.size, np.int64), unwritten(items.size + 1)
    overflows = _pick[""].call(
        *(0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items), begins, bounds),
        items.size,
    )
    return reference.segment_pick(offsets, items) if overflows else (begins, bounds)


def segment_steps(offsets: Offsets, order: Offsets) -> tuple[Offsets, Offsets]:
    """See items.py."""
    index, count = np.ascontiguousarray(offsets), order.size
    length = _longest[""].call(0, 1, index, count)
    items, bounds = np.empty(int(index[-1]), np.int64), unwritten(length + 1)
    _steps[""].call(
        *(0, 1, index, np.ascontiguousarray(order), items, bounds, np.empty(length, np.int64)),
        *(count, length),
    )
    return items, bounds
