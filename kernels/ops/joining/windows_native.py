"""See windows.py. Windows themselves are copied as parts of sequences are: slice_native.py."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.joining import windows as reference


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See windows.py: NumPy's own loops are as quick, there is nothing to compile."""
    return reference.segment_add(rows, starts, offsets, count)
