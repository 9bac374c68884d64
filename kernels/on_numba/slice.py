"""See ops/slice.py. Rows are copied as bytes."""

from __future__ import annotations

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_numba.copying import gather_ranges


def segment_slice(
    data: Array, starts: Offsets, offsets: Offsets, *, out: Array | None = None
) -> Array:
    """See ops/slice.py."""
    return gather_ranges(data, starts, offsets, out=out)
