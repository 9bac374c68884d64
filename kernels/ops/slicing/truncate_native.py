"""See truncate.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.native import load

_INT64 = np.dtype(np.int64)
_cut = load.kernel("kernels.ops.slicing.slice_numba", "cut")


def segment_cut(offsets: Offsets, length: int, last: bool) -> tuple[Offsets, Offsets]:
    """See truncate.py."""
    segments = offsets.size - 1
    starts, counts = np.empty(segments, _INT64), np.empty(segments, _INT64)
    index = np.ascontiguousarray(offsets)
    _cut[""].call(0, 1, index, starts, counts, segments, length, last)
    return starts, counts
