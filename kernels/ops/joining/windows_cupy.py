"""See windows.py. The rows of windows are copied by slice_cupy.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import C_WIDE, at_once, c_type, flat_rows, on_device, run, tiles
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import summed_dtype
from lodcli.kernels.ops.rows import real_columns

HEIGHT = 16  # as in windows.cu


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See windows.py: each row sums the rows that map to it."""
    out: Array = cupy.empty((count, *rows.shape[1:]), rows.dtype)
    given, to = real_columns(flat_rows(rows)), real_columns(out)
    wide = summed_dtype(given.dtype)
    if is_float(wide) and wide.itemsize < 8:
        wide = np.dtype(np.float32)
    if out.size:
        width = given.shape[1]
        many = at_once(width, given, to)
        types = f"{c_type(given.dtype, 'a sum')}, {C_WIDE[wide.name]}, {many}"
        run(
            *("windows", f"window_add<{types}>", *tiles(count, width // many, HEIGHT), given),
            *(on_device(starts), on_device(offsets), starts.size, count, width, to),
        )
    return out
