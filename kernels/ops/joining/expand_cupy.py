"""See expand.py. Rows are copied as words."""

from __future__ import annotations

from lodcli.kernels.cuda.row_copies import broadcast
from lodcli.kernels.index.checks import Array, Offsets


def segment_broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See expand.py."""
    return broadcast(data, offsets, out=out)
