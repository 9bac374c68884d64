"""See windows.py. Windows themselves are copied as parts of sequences are: slice_native.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.ops.joining import windows as reference

_counts, _windows = (
    load.kernel("kernels.ops.joining.windows_numba", name) for name in ("counts", "windows")
)


def segment_windows(
    offsets: Offsets, length: int, stride: int, keep: bool
) -> tuple[Offsets, Offsets, Offsets]:
    """See windows.py."""
    index, segments = np.ascontiguousarray(offsets), offsets.size - 1
    counts = unwritten(segments + 1)
    _counts[""].call(0, 1, index, length, stride, keep, counts, segments)
    total = int(counts[-1])
    starts, bounds = np.empty(total, np.int64), unwritten(total + 1)
    _windows[""].call(0, 1, index, length, stride, counts, starts, bounds, segments)
    return counts, starts, bounds


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See windows.py: NumPy's own loops are as quick, there is nothing to compile."""
    return reference.segment_add(rows, starts, offsets, count)
