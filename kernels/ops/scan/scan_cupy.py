"""See scan.py. Hierarchical prefix sum over tiles of equal height: scan.cu."""

from __future__ import annotations

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    C_WIDE,
    at_once,
    blocks,
    c_type,
    flat_rows,
    is_narrow,
    narrow_tiles,
    on_device,
    run,
    shortest_and_longest,
    tiles,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import is_float, summed_dtype

HEIGHT, LONG = 64, 64  # as in parts.cuh and scan.cu


def segment_cumsum(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See scan.py."""
    if data.dtype.kind == "c":
        # Real and imaginary parts are columns that are added up apart.
        real = np.dtype(f"float{data.dtype.itemsize * 4}")
        rows = _scanned("SUM", flat_rows(data).view(real), offsets, exclusive, reverse)
        return rows.view(data.dtype).reshape(data.shape)
    return _scanned("SUM", data, offsets, exclusive, reverse)


def segment_cumprod(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See scan.py."""
    return _scanned("PRODUCT", data, offsets, exclusive, reverse)


def segment_cumprod_grad(
    upstream: Array, data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool
) -> Array:
    """See scan.py: the same steps, a few passes each."""
    flow, x = upstream.astype(np.float64), data.astype(np.float64)
    forward = {"exclusive": exclusive, "reverse": reverse}
    zero = x == 0
    earlier = segment_cumsum(zero, offsets, exclusive=True, reverse=reverse)
    first = zero & (earlier == 0)
    whole = flow * segment_cumprod(x, offsets, **forward)
    others = cupy.where(first, 1.0, x)
    without = flow * segment_cumprod(others, offsets, **forward)
    # Backwards: of an exclusive product a row is in those behind it only.
    back = {"exclusive": exclusive, "reverse": not reverse}
    ends = segment_cumsum(whole, offsets, **back), segment_cumsum(without, offsets, **back)
    result = cupy.where(zero, 0.0, ends[0] / cupy.where(zero, 1.0, x))
    return cupy.where(first, ends[1], result).astype(data.dtype)  # type: ignore[no-any-return]


def _scanned(op: str, data: Array, offsets: Offsets, exclusive: bool, reverse: bool) -> Array:
    result: Array = cupy.empty(data.shape, summed_dtype(data.dtype))
    rows = flat_rows(data)
    count, width = rows.shape
    if not rows.size:
        return result
    dtype = np.dtype(np.float32) if is_float(data.dtype) and data.itemsize < 8 else result.dtype
    if data.dtype.kind == "c":
        value = to = wide = "Complex<float>" if data.itemsize == 8 else "Complex<double>"
    else:
        value, to = c_type(rows.dtype, "a running total"), c_type(result.dtype, "a running total")
        wide = C_WIDE[dtype.name]
    types = f"{value}, {wide}, {to}, {op}"
    if is_narrow(width * result.itemsize):
        shape = narrow_tiles(count, width, width * result.itemsize, HEIGHT)
        name, of_totals = "scan_narrow_", f"{value}, {wide}, {to}, {op}"
    else:
        many = at_once(width, rows, result)
        shape = tiles(count, width // many, HEIGHT)
        name, of_totals, types = "scan_", f"{value}, {wide}, {op}, {many}", f"{types}, {many}"
    given = (rows, on_device(offsets), offsets.size - 1, count, width, int(reverse))
    units = blocks(count, HEIGHT) if shortest_and_longest(offsets)[1] > LONG else 0
    totals, keys = cupy.empty((units, width), dtype), cupy.empty(units, np.int64)
    if units:
        run("scan", f"{name}totals<{of_totals}>", *shape, *given, totals, keys)
        through(op, wide, totals, keys)
    run("scan", f"{name}rows<{types}>", *shape, *given, int(exclusive), totals, result)
    return result


def through(op: str, wide: str, totals: Array, keys: Array) -> None:
    """Add to every total those before it of its segment: (units, width), or (units, width, 2)."""
    count, width = totals.shape[:2]
    grid, block = tiles(count, width, HEIGHT)
    units = blocks(count, HEIGHT)
    above = cupy.empty((units, *totals.shape[1:]), totals.dtype)
    above_keys = cupy.empty(units, np.int64)
    if units > 1:
        args = (totals, keys, count, width, above, above_keys)
        run("scan", f"scan_above<{wide}, {op}>", grid, block, *args)
        through(op, wide, above, above_keys)
    args = (totals, keys, count, width, above, above_keys)
    run("scan", f"scan_through<{wide}, {op}>", grid, block, *args)
