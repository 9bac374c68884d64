"""See reverse.py. Rows are copied as words."""

from __future__ import annotations

import cupy

from lodcli.kernels.cuda.launch import on_device, result_array
from lodcli.kernels.cuda.row_copies import move_runs
from lodcli.kernels.index.checks import Array, Offsets


def segment_reverse(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See reverse.py."""
    result = result_array(out, data.shape, data.dtype, data)
    move_runs(cupy.ascontiguousarray(data), on_device(offsets)[1:] - 1, offsets, result, step=-1)
    return result
