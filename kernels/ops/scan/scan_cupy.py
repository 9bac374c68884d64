"""See scan.py. Hierarchical prefix sum over tiles of equal height: scan.cu."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy
import numpy as np
import numpy.typing as npt

from lodcli.kernels.cuda.launch import (
    C_WIDE,
    Grid,
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
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import summed_dtype
from lodcli.kernels.ops.rows import real_columns

HEIGHT, LONG = 64, 64  # as in parts.cuh and scan.cu


def segment_cumsum(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See scan.py."""
    if data.dtype.kind == "c":
        # Real and imaginary parts are separate columns.
        rows = _scanned("SUM", real_columns(flat_rows(data)), offsets, exclusive, reverse)
        return rows.view(data.dtype).reshape(data.shape)
    return _scanned("SUM", data, offsets, exclusive, reverse)


def segment_cumprod(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See scan.py."""
    return _scanned("PRODUCT", data, offsets, exclusive, reverse)


def segment_cumprod_grad(
    upstream: Array, data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool
) -> Array:
    """See scan.py: products down the rows, then their sums in reverse."""
    result: Array = cupy.empty(data.shape, data.dtype)
    if not data.size:
        return result
    flow, rows = flat_rows(upstream.astype(np.float64, copy=False)), flat_rows(data)
    pairs, first = cupy.empty(rows.shape, np.complex128), cupy.empty(rows.shape, bool)
    value, pair = c_type(rows.dtype, "a gradient of products"), "Complex<double>"
    products = Kernels(
        f"cumprod_totals<{value}>", f"cumprod_rows<{value}>", "Products, PRODUCT", np.float64, 3
    )
    sums = Kernels(
        f"scan_totals<{pair}, {pair}, SUM, 1>",
        *(f"cumprod_grad<{value}>", f"{pair}, SUM", np.complex128),
    )
    grid = tiles(rows.shape[0], rows.shape[1], HEIGHT)
    keep = int(exclusive)
    down_tiles(products, grid, offsets, reverse, rows.shape, (rows,), (keep, flow, pairs, first))
    down_tiles(sums, grid, offsets, not reverse, rows.shape, (pairs,), (keep, rows, first, result))
    return result


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
        grid = narrow_tiles(count, width, width * result.itemsize, HEIGHT)
        names = f"scan_narrow_totals<{types}>", f"scan_narrow_rows<{types}>"
    else:
        many = at_once(width, rows, result)
        grid = tiles(count, width // many, HEIGHT)
        names = f"scan_totals<{value}, {wide}, {op}, {many}>", f"scan_rows<{types}, {many}>"
    kernels = Kernels(*names, f"{wide}, {op}", dtype)
    down_tiles(kernels, grid, offsets, reverse, rows.shape, (rows,), (int(exclusive), result))
    return result


class Kernels(NamedTuple):
    """Two kernels of scan.cu, and the data they exchange.

    Attributes:
        totals: per tile, the totals of long segments.
        rows: the result of each row.
        joined: types of `scan_through`: of a total, and of the operator that joins two.
        dtype, values: of a total, and its number of values.
    """

    totals: str
    rows: str
    joined: str
    dtype: npt.DTypeLike
    values: int = 1


def down_tiles(
    kernels: Kernels,
    grid: tuple[Grid, Grid],
    offsets: Offsets,
    reverse: bool,
    shape: tuple[int, int],
    given: tuple[Any, ...],
    more: tuple[Any, ...],
    behind: int = 0,
) -> None:
    """Run down all rows. For long segments a first pass computes the total of each tile.

    Args:
        kernels: with their types.
        grid: grid and block of both.
        offsets: (S+1,).
        reverse: whether rows are processed from last to first.
        shape: (N, D), of the rows.
        given: the first arguments of both kernels.
        more: the last arguments of the kernel of rows.
        behind: additional blocks of this kernel along the first axis of the grid.
    """
    args = (*given, on_device(offsets), offsets.size - 1, *shape, int(reverse))
    units = blocks(shape[0], HEIGHT) if shortest_and_longest(offsets)[1] > LONG else 0
    totals = cupy.empty((units, shape[1], kernels.values), kernels.dtype)
    keys = cupy.empty(units, np.int64)
    if units:
        run("scan", kernels.totals, *grid, *args, totals, keys)
        _through(kernels.joined, totals, keys)
    (tiled, *across), block = grid
    run("scan", kernels.rows, (tiled + behind, *across), block, *args, totals, *more)


def _through(joined: str, totals: Array, keys: Array) -> None:
    """Add to every total the previous ones of its segment: (units, D, values)."""
    count, width = totals.shape[:2]
    grid, block = tiles(count, width, HEIGHT)
    units = blocks(count, HEIGHT)
    above = cupy.empty((units, *totals.shape[1:]), totals.dtype)
    above_keys = cupy.empty(units, np.int64)
    args = (totals, keys, count, width, above, above_keys)
    if units > 1:
        run("scan", f"scan_above<{joined}>", grid, block, *args)
        _through(joined, above, above_keys)
    run("scan", f"scan_through<{joined}>", grid, block, *args)
