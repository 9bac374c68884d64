"""See scatter.py. Atomic float sums: the last bits may vary between runs."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.first_row import first_row
from lodcli.kernels.cuda.launch import WORDS, blocks, c_type, on_device, run
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.rows import real_columns

THREADS = 256


def segment_first_outside(numbers: Array, width: int) -> int:
    """See scatter.py. This waits for the device."""
    whole = cupy.ascontiguousarray(numbers)
    return first_row("scatter", "scatter_outside", whole.size, whole, width)


def segment_scatter(data: Array, ids: Array, updates: Array, offsets: Offsets) -> Array:
    """See scatter.py."""
    if data.dtype.kind == "c":
        made: Array = cupy.empty(data.shape, data.dtype)
        parts = real_columns(made)
        parts[:, ::2] = segment_scatter(data.real, ids, updates.real, offsets)
        parts[:, 1::2] = segment_scatter(data.imag, ids, updates.imag, offsets)
        return made
    if data.dtype.kind in "iub":
        # GPUs have 64-bit atomic adds; narrower integers wrap around alike.
        out = data.astype(np.int64, order="C").view(np.uint64)
        added = updates.astype(np.int64).view(np.uint64)
    else:
        out, added = cupy.array(data, order="C"), cupy.ascontiguousarray(updates)
    kernel = f"scatter_add<{c_type(out.dtype, 'scatter')}>"
    args = (on_device(offsets), offsets.size - 1, ids.size, out.shape[1], out)
    run("scatter", kernel, (blocks(ids.size, THREADS),), (THREADS,), ids, added, *args)
    result: Array = out if out.dtype == data.dtype else out.view(np.int64).astype(data.dtype)
    return result


def segment_scatter_grad(grad: Array, ids: Array, offsets: Offsets) -> tuple[Array, Array]:
    """See scatter.py."""
    rows = cupy.array(grad, order="C")
    updates = cupy.empty(ids.shape, grad.dtype)
    args = (on_device(offsets), offsets.size - 1, ids.size, rows.shape[1], updates)
    kernel = f"scatter_take<{WORDS[rows.itemsize]}>"
    run("scatter", kernel, (blocks(ids.size, THREADS),), (THREADS,), rows, ids, *args)
    return rows, updates
