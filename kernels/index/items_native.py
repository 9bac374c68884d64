"""See items.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index import items as reference
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_MODULE = "kernels.index.items_numba"
_INT64 = np.dtype(np.int64)
_pick, _capped, _inner, _longest, _steps = (
    load.kernel(_MODULE, name) for name in ("pick", "capped", "inner", "longest", "steps")
)


def segment_pick(offsets: Offsets, items: Offsets) -> tuple[Offsets, Offsets]:
    """See items.py."""
    count = items.size
    begins, bounds = np.empty(count, _INT64), unwritten(count + 1)
    overflows = _pick[""].call(
        0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items), begins, bounds, count
    )  # fmt: skip
    return reference.segment_pick(offsets, items) if overflows else (begins, bounds)


def segment_capped(offsets: Offsets, counts: Offsets | int) -> Offsets | None:
    """See items.py."""
    bounds = unwritten(offsets.size)
    given = (None, counts) if isinstance(counts, int) else (np.ascontiguousarray(counts), 0)
    wrong = _capped[""].call(0, 1, np.ascontiguousarray(offsets), *given, bounds, offsets.size - 1)
    return None if wrong else bounds


def segment_inner(
    offsets: Offsets, starts: Offsets, bounds: Offsets
) -> tuple[Offsets, Offsets, Offsets]:
    """See items.py."""
    count = starts.size
    lower, begins = unwritten(bounds.item(-1) + 1), np.empty(count, _INT64)
    ends = np.empty(count + 1, _INT64)
    overflows = _inner[""].call(
        0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(starts),
        np.ascontiguousarray(bounds), lower, begins, ends, count,
    )  # fmt: skip
    return reference.segment_inner(offsets, starts, bounds) if overflows else (lower, begins, ends)


def segment_steps(
    offsets: Offsets, order: Offsets, *, back: bool = False
) -> tuple[Offsets, Offsets]:
    """See items.py."""
    index, count = np.ascontiguousarray(offsets), order.size
    length = _longest[""].call(0, 1, index, index.size - 1)
    items, bounds = np.empty(index.item(-1), _INT64), unwritten(length + 1)
    _steps[""].call(
        0, 1, index, np.ascontiguousarray(order), items, bounds, np.empty(length, _INT64),
        count, length, back,
    )  # fmt: skip
    return items, bounds


def longest(offsets: Offsets) -> int:
    """Return the greatest length, or 0 if there are no sequences."""
    return _longest[""].call(0, 1, np.ascontiguousarray(offsets), offsets.size - 1)
