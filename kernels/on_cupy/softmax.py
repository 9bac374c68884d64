"""See ops/softmax.py. Tiles of equal height, their parts, what they lacked: softmax.cu."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.checks import Array, Offsets
from lodcli.kernels.on_cupy.launch import blocks, c_type, flat_rows, on_device, result_array, run

THREADS = 256
HEIGHT = 64  # as in softmax.cu


def segment_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/softmax.py."""
    result = result_array(out, data.shape, data.dtype, data)
    _write("SOFTMAX", data, data, offsets, result)
    return result


def segment_log_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See ops/softmax.py."""
    result = result_array(out, data.shape, data.dtype, data)
    _write("LOG_SOFTMAX", data, data, offsets, result)
    return result


def segment_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See ops/softmax.py."""
    return _gradient("SOFTMAX_GRAD", upstream, result, offsets)


def segment_log_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See ops/softmax.py."""
    return _gradient("LOG_SOFTMAX_GRAD", upstream, result, offsets)


def _gradient(op: str, upstream: Array, result: Array, offsets: Offsets) -> Array:
    y, flow = result, upstream
    if flow.dtype != y.dtype:
        # Of two dtypes neither is rounded to the other's before it is used.
        narrow = max(y.itemsize, flow.itemsize) < 8
        wide = np.dtype(np.float32 if narrow else np.float64)
        y, flow = y.astype(wide), flow.astype(wide)
    made: Array = cupy.empty(y.shape, y.dtype)
    _write(op, y, flow, offsets, made)
    return made.astype(result.dtype, copy=False)


def _write(op: str, x: Array, flow: Array, offsets: Offsets, out: Array) -> None:
    """Write the op's result for every row; `x` and `flow` as in softmax.cu."""
    rows, upstream = flat_rows(x), flat_rows(flow)
    count, width = rows.shape
    if not rows.size:
        return
    value, wide = c_type(rows.dtype, "softmax"), "double" if rows.itemsize == 8 else "float"
    is_gradient = op.endswith("GRAD")
    part = f"{'Total' if is_gradient else 'Powers'}<{wide}>"
    part_bytes = (1 if is_gradient else 2) * (8 if wide == "double" else 4)
    columns = min(THREADS, 1 << max(0, width - 1).bit_length())
    block = (columns, THREADS // columns)

    def grid(units: int) -> tuple[int, int]:
        return blocks(units, block[1]), blocks(width, columns)

    def space(units: int, slots: int) -> Array:
        made: Array = cupy.empty(slots * units * width * part_bytes, np.uint8)
        return made

    units, where = blocks(count, HEIGHT), on_device(offsets)
    carry, keys = space(units, 2), cupy.empty(2 * units, np.int64)
    args = (rows, upstream, where, offsets.size - 1, count, width, out, carry, keys)
    run("softmax", f"softmax_tiles<{value}, {wide}, {op}>", grid(units), block, *args)
    if units == 1:
        return
    totals, parts, of_parts, depth, left = space(units, 1), carry, keys, 1, units
    while left > 1:
        many, left = 2 * left, blocks(2 * left, HEIGHT)
        above, of_above = space(left, 2), cupy.empty(2 * left, np.int64)
        joined = (parts, of_parts, where, many, width, depth, totals, above, of_above)
        run("softmax", f"softmax_parts<{part}>", grid(left), block, *joined)
        parts, of_parts, depth = above, of_above, depth + 1
    last = (rows, upstream, where, keys, totals, count, width, out)
    run("softmax", f"softmax_rest<{value}, {wide}, {op}>", grid(units), block, *last)
