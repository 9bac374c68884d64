"""See groups.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_MODULE = "kernels.index.ranges_numba"
_cut, _ranges = (load.kernel(_MODULE, name) for name in ("cut", "ranges"))
# Beyond every length, and far enough from the limits of int64 for what is added to it.
_FAR = 1 << 61


def segment_cut(offsets: Offsets, items: Offsets, part: slice) -> tuple[Offsets, Offsets]:
    """See groups.py."""
    begin, end, step = (_near(each) for each in (part.start, part.stop, part.step))
    count, step = items.size, 1 if part.step is None else step
    starts, bounds = np.empty(count, np.int64), unwritten(count + 1)
    _cut[""].call(
        *(0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items), begin, end, step),
        *(part.start is not None, part.stop is not None, starts, bounds, count),
    )
    numbers = np.empty(int(bounds[-1]), np.int64)
    _ranges[""].call(0, 1, starts, bounds, numbers, count, step)
    return numbers, bounds


def _near(number: int | None) -> int:
    """Return a number of Python's as an int64 that picks the same."""
    return 0 if number is None else max(-_FAR, min(int(number), _FAR))
