"""See windows.py. Windows are copied as ranges of rows, for any dtype."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.joining import windows as reference
from lodcli.kernels.ops.joining.windows import Tail, window_bounds
from lodcli.kernels.simd.row_copies import gather_ranges


def segment_windows(
    data: Array, offsets: Offsets, *, length: int, stride: int, tail: Tail
) -> Array:
    """See windows.py."""
    _, starts, bounds = window_bounds(offsets, length=length, stride=stride, tail=tail)
    return gather_ranges(data, starts, bounds)


# NumPy's own loops are as quick: there is nothing to compile.
segment_add = reference.segment_add
