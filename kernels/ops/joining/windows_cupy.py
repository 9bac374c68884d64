"""See windows.py. Windows themselves are copied as parts of sequences are: slice_cupy.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import on_device
from lodcli.kernels.cuda.row_copies import broadcast
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.pooling.pool_cupy import segment_sum


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See windows.py: sorted by where they go, in their order, then added up."""
    total = int(offsets[-1])
    first = broadcast(on_device(starts - offsets[:-1]), offsets)
    goes = first + cupy.arange(total, dtype=np.int64)
    order = cupy.argsort(goes)
    bounds = cupy.searchsorted(goes[order], cupy.arange(count + 1, dtype=np.int64))
    return segment_sum(rows[order], bounds.astype(np.int64, copy=False)).astype(
        rows.dtype, copy=False
    )
