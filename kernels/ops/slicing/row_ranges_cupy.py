"""See row_ranges.py. Rows are copied as words."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.slicing.slice_cupy import segment_slice


def segment_rows(data: Array, starts: Offsets, offsets: Offsets) -> Array:
    """See row_ranges.py."""
    return segment_slice(data, starts, offsets)
