"""See slice.py. Rows are copied as words."""

from __future__ import annotations

import cupy

from lodcli.kernels.cuda.launch import result_array
from lodcli.kernels.cuda.row_copies import move_runs
from lodcli.kernels.index.checks import Array, Offsets


def segment_slice(
    data: Array, starts: Offsets, offsets: Offsets, *, out: Array | None = None
) -> Array:
    """See slice.py."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    move_runs(cupy.ascontiguousarray(data), starts, offsets, result)
    return result


def segment_place(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See slice.py."""
    result: Array = cupy.zeros((count, *rows.shape[1:]), rows.dtype)
    move_runs(cupy.ascontiguousarray(rows), offsets[:-1], offsets, result, places=starts)
    return result
