"""See groups.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.groups import near
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_MODULE = "kernels.index.ranges_numba"
_cut, _ranges = (load.kernel(_MODULE, name) for name in ("cut", "ranges"))


def segment_cut(offsets: Offsets, items: Offsets, part: slice) -> tuple[Offsets, Offsets]:
    """See groups.py."""
    count, step = items.size, 1 if part.step is None else near(part.step)
    starts, bounds = np.empty(count, np.int64), unwritten(count + 1)
    _cut[""].call(
        *(0, 1, np.ascontiguousarray(offsets), np.ascontiguousarray(items)),
        *(
            near(part.start),
            near(part.stop),
            step,
            part.start is not None,
            part.stop is not None,
            starts,
            bounds,
            count,
        ),
    )
    numbers = np.empty(int(bounds[-1]), np.int64)
    _ranges[""].call(0, 1, starts, bounds, numbers, count, step)
    return numbers, bounds
