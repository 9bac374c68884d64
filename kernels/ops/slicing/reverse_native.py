"""See reverse.py. Rows are copied as bytes."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.simd.row_copies import gather_ranges


def segment_reverse(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See reverse.py."""
    return gather_ranges(data, offsets[1:] - 1, offsets, backwards=True, out=out)
