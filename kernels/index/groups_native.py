"""See groups.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.groups import near, near_step
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_INT64 = np.dtype(np.int64)
_number, _cut, _places = (
    load.kernel("kernels.index.ranges_numba", name) for name in ("number", "cut", "places")
)


def segment_number(offsets: Offsets, items: Offsets, number: int) -> Offsets | None:
    """See groups.py."""
    count = items.size
    numbers = np.empty(count, _INT64)
    missing = _number[""].call(
        0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items), near(number),
        numbers, count,
    )  # fmt: skip
    return None if missing else numbers


def segment_cut(offsets: Offsets, items: Offsets, part: slice) -> tuple[Offsets, Offsets]:
    """See groups.py."""
    count = items.size
    starts, bounds = np.empty(count, _INT64), unwritten(count + 1)
    _cut[""].call(
        0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items),
        near(part.start), near(part.stop), near_step(part),
        part.start is not None, part.stop is not None, starts, bounds, count,
    )  # fmt: skip
    return starts, bounds


def segment_places(
    offsets: Offsets, items: Offsets, places: Offsets, length: int
) -> tuple[Offsets, Offsets] | None:
    """See groups.py."""
    count, many = items.size, places.size
    numbers, bounds = np.empty(count * many, _INT64), unwritten(count + 1)
    wrong = _places[""].call(
        0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items),
        np.ascontiguousarray(places), many, length, numbers, bounds, count,
    )  # fmt: skip
    return None if wrong else (numbers, bounds)
