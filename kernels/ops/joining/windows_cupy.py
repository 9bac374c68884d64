"""See windows.py. Rows are copied as words."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import on_device
from lodcli.kernels.cuda.row_copies import broadcast
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.joining.windows import Tail, window_bounds
from lodcli.kernels.ops.pooling.pool_cupy import segment_sum
from lodcli.kernels.ops.slicing.slice_cupy import segment_slice


def segment_windows(
    data: Array, offsets: Offsets, *, length: int, stride: int, tail: Tail
) -> Array:
    """See windows.py."""
    _, starts, bounds = window_bounds(offsets, length=length, stride=stride, tail=tail)
    return segment_slice(data, starts, bounds)


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
