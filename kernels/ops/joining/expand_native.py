"""See expand.py. Rows are copied as bytes, in pieces of equal size."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.simd.broadcast import broadcast_rows


def segment_broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See expand.py."""
    return broadcast_rows(data, offsets, out=out)
