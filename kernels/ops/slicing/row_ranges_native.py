"""See row_ranges.py. Rows are copied as bytes."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.simd.row_copies import gather_ranges, gather_rows


def segment_rows(data: Array, starts: Offsets, offsets: Offsets) -> Array:
    """See row_ranges.py."""
    return gather_ranges(data, starts, offsets, scattered=True)


def numbered_rows(data: Array, places: Offsets) -> Array:
    """See row_ranges.py."""
    return gather_rows(data, places)
