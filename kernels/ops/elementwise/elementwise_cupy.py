"""See elementwise.py. One pass: values are broadcast on the fly."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from lodcli.kernels.cuda.launch import (
    C_TYPES,
    Grid,
    at_once,
    by_row,
    flat_rows,
    is_narrow,
    on_device,
    run,
    shares,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.dtypes import common_dtype, summed_dtype, working_dtype
from lodcli.kernels.ops.elementwise.elementwise import UFUNCS, Arithmetic
from lodcli.kernels.ops.joining.expand_cupy import segment_broadcast
from lodcli.kernels.ops.pooling.pool_cupy import segment_sum, wide_type
from lodcli.kernels.ops.rows import per_row

HEIGHT = 16


def segment_binary(op: Arithmetic, data: Array, values: Array, offsets: Offsets | None) -> Array:
    """See elementwise.py."""
    dtype = common_dtype(data.dtype, values.dtype)
    if op == "div" and dtype.kind in "iu":
        dtype = np.dtype(np.float64)
    if not {data.dtype.name, values.dtype.name} <= C_TYPES.keys():
        return _composed(op, data, values, offsets)
    rows, other = flat_rows(data), flat_rows(values)
    out: Array = cupy.empty(data.shape, dtype)
    if rows.size:
        types = (C_TYPES[one.name] for one in (data.dtype, values.dtype))
        kernel = f"binary<{', '.join(types)}, {wide_type(dtype)}, {C_TYPES[dtype.name]}"
        shape, many, index = kernel_index(offsets, rows, other, out)
        args = (rows, other, *index, out)
        run("elementwise", f"{kernel}, {op.upper()}, {many}>", *shape, *args)
    return out


def segment_dot(a: Array, b: Array, offsets: Offsets) -> Array:
    """See elementwise.py."""
    dtype = summed_dtype(common_dtype(a.dtype, b.dtype))
    wide = working_dtype(dtype)
    rows, others = flat_rows(a), flat_rows(b)
    if {a.dtype.name, b.dtype.name} <= C_TYPES.keys():
        sums = cupy.empty(len(rows), wide)
        many = at_once(rows.shape[1], rows, others, most=16 // max(a.itemsize, b.itemsize))
        types = f"{C_TYPES[a.dtype.name]}, {C_TYPES[b.dtype.name]}, {wide_type(wide)}"
        shape = by_row(len(rows), rows.shape[1], many)
        run("elementwise", f"dot_rows<{types}, {many}>", *shape, rows, others, *rows.shape, sums)
    else:
        sums = (rows.astype(wide, copy=False) * others.astype(wide, copy=False)).sum(axis=1)
    return segment_sum(sums, offsets).astype(dtype, copy=False)


def kernel_index(
    offsets: Offsets | None, rows: Array, values: Array, *others: Array
) -> tuple[tuple[Grid, Grid], int, tuple[Any, ...]]:
    """Return grid and block, columns per thread, and the arguments that locate rows and values.

    Args:
        offsets: (S+1,), or None if values have one row per row.
        rows: (N, D).
        values: (S, D) or (S, 1).
        others: arrays as wide as the rows.
    """
    where = cupy.empty(0, np.int64) if offsets is None else on_device(offsets)
    segments = 0 if offsets is None else offsets.size - 1
    (count, width), across = rows.shape, values.shape[1]
    dealt = is_narrow(width * rows.itemsize)
    vectors = (rows, *others, values) if across == width else (rows, *others)
    most = 16 // max(one.itemsize for one in (*vectors, values))
    many = 1 if dealt else at_once(width, *vectors, most=most)
    shape = shares(count, width, many, HEIGHT, dealt=dealt)
    return shape, many, (where, segments, count, width, across, HEIGHT, int(dealt))


def _composed(op: Arithmetic, data: Array, values: Array, offsets: Offsets | None) -> Array:
    """Return the same in two passes, for complex numbers, which have no kernel."""
    if values.ndim != data.ndim:
        values = per_row(values, data.ndim)
    if offsets is not None:
        values = segment_broadcast(values, offsets)
    return UFUNCS[op](data, values)  # type: ignore[no-any-return]
