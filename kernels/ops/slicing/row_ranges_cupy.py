"""See row_ranges.py. Rows are copied as words."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.items import picked_offsets
from lodcli.kernels.ops.slicing.slice_cupy import segment_slice


def segment_rows(data: Array, starts: Offsets, offsets: Offsets) -> Array:
    """See row_ranges.py."""
    return segment_slice(data, starts, offsets)


def segment_take(data: Array, offsets: Offsets, items: Offsets) -> tuple[Array, Offsets]:
    """See row_ranges.py."""
    starts, bounds = picked_offsets(offsets, items)
    return segment_slice(data, starts, bounds), bounds
