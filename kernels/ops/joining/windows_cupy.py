"""See windows.py. Windows themselves are copied as parts of sequences are: slice_cupy.py."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import C_WIDE, at_once, c_type, flat_rows, on_device, run, tiles
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import is_float, summed_dtype

HEIGHT = 16  # as in windows.cu


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """See windows.py: each row adds up those that go there."""
    if rows.dtype.kind == "c":
        # Real and imaginary parts are columns that are added up apart.
        real = np.dtype(f"float{rows.dtype.itemsize * 4}")
        parts = flat_rows(rows).view(real)
        return (
            segment_add(parts, starts, offsets, count)
            .view(rows.dtype)
            .reshape(count, *rows.shape[1:])
        )
    out: Array = cupy.empty((count, *rows.shape[1:]), rows.dtype)
    given = flat_rows(rows)
    wide = summed_dtype(rows.dtype)
    if is_float(wide) and wide.itemsize < 8:
        wide = np.dtype(np.float32)
    if out.size:
        width = given.shape[1]
        many = at_once(width, given, out)
        types = f"{c_type(rows.dtype, 'a sum')}, {C_WIDE[wide.name]}, {many}"
        run(
            *("windows", f"window_add<{types}>", *tiles(count, width // many, HEIGHT), given),
            *(on_device(starts), on_device(offsets), starts.size, count, width, out),
        )
    return out
