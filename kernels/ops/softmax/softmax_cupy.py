"""See softmax.py. Tiles of equal height: softmax.cu; long sequences: softmax_long.cu."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    THREADS,
    Grid,
    at_once,
    blocks,
    c_type,
    flat_rows,
    is_narrow,
    narrow_tiles,
    on_device,
    result_array,
    run,
    shortest_and_longest,
    tiles,
)
from lodcli.kernels.index.checks import Array, Offsets

# As in parts.cuh and softmax.cuh.
HEIGHT, KEPT, KEPT_OF_GRADIENTS = 64, {"float": 13, "double": 10}, 7


def segment_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See softmax.py."""
    result = result_array(out, data.shape, data.dtype, data)
    _write("SOFTMAX", data, data, offsets, result)
    return result


def segment_log_softmax(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """See softmax.py."""
    result = result_array(out, data.shape, data.dtype, data)
    _write("LOG_SOFTMAX", data, data, offsets, result)
    return result


def segment_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See softmax.py."""
    return _gradient("SOFTMAX_GRAD", upstream, result, offsets)


def segment_log_softmax_grad(upstream: Array, result: Array, offsets: Offsets) -> Array:
    """See softmax.py."""
    return _gradient("LOG_SOFTMAX_GRAD", upstream, result, offsets)


def _gradient(op: str, upstream: Array, result: Array, offsets: Offsets) -> Array:
    y, flow = result, upstream
    if flow.dtype != y.dtype:
        # Neither of two dtypes is rounded to the other before use.
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
    types, where, units = f"{value}, {wide}, {op}", on_device(offsets), blocks(count, HEIGHT)
    if narrow := is_narrow(width * rows.itemsize):
        shape = teams = narrow_tiles(count, width, width * rows.itemsize, HEIGHT)
        name, most = "softmax_narrow", HEIGHT
    else:
        many = at_once(width, rows, upstream, out, most=4)
        shape, teams = tiles(count, width // many, HEIGHT), _teams(count, width, many)
        name, types = "softmax", f"{types}, {many}"
        most = 8 * many * (KEPT_OF_GRADIENTS if op.endswith("GRAD") else KEPT[wide])
    given = (rows, upstream, where, offsets.size - 1, count, width)
    run("softmax", f"{name}_tiles<{types}>", *teams, *given, out)
    if shortest_and_longest(offsets)[1] <= most:
        return
    carry, keys = _parts(2 * units, width, wide), cupy.empty(2 * units, np.int64)
    run("softmax_long", f"{name}_long<{types}>", *shape, *given, carry, keys)
    totals, parts, of_parts, depth, left = _parts(units, width, wide), carry, keys, 1, units
    while left > 1:
        below, left = 2 * left, blocks(2 * left, HEIGHT)
        above, of_above = _parts(2 * left, width, wide), cupy.empty(2 * left, np.int64)
        joined = (parts, of_parts, where, below, width, depth, totals, above, of_above)
        run("softmax_long", f"softmax_parts<{wide}, {op}>", *tiles(below, width, HEIGHT), *joined)
        parts, of_parts, depth = above, of_above, depth + 1
    if narrow:
        shape = (blocks(count * width, THREADS),), (THREADS,)
    last = (rows, upstream, where, keys, totals, count, width, out)
    run("softmax_long", f"{name}_rest<{types}>", *shape, *last)


def _parts(count: int, width: int, wide: str) -> Array:
    """Return arrays for parts: per column, the maximum and the sum."""
    made: Array = cupy.empty((count, width, 2), np.float64 if wide == "double" else np.float32)
    return made


def _teams(rows: int, width: int, many: int) -> tuple[Grid, Grid]:
    """Return grid and block with few columns, so that a block has many units per segment."""
    columns = width // many
    across = min(32 // many, 1 << (columns - 1).bit_length())
    units = THREADS // across
    return (blocks(blocks(rows, HEIGHT), units) * blocks(columns, across),), (across, units)
