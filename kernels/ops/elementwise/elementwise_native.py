"""See elementwise.py. Rows of sequences are read in place, not broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import WRAPPING, common_dtype, is_half, summed_dtype
from lodcli.kernels.ops.elementwise import elementwise as reference
from lodcli.kernels.ops.elementwise.elementwise import UFUNCS, Arithmetic
from lodcli.kernels.ops.halves_native import narrowed, widened
from lodcli.kernels.ops.rows import flat_rows, piece_count, viewed
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.simd.row_copies import STREAMED_BYTES

PIECE_BYTES = 1 << 18
_LINE = 64  # bytes

_MODULE = "kernels.ops.elementwise.elementwise_numba"
_binary = {op: load.kernel(_MODULE, op) for op in ("add", "sub", "mul", "div")}
_pairs = {op: load.kernel(_MODULE, f"{op}_pairs") for op in ("add", "sub", "mul", "div")}
_dot = load.kernel(_MODULE, "dot")
_DIVIDED = {"f": "f", "d": "d"}


def segment_binary(op: Arithmetic, data: Array, values: Array, offsets: Offsets | None) -> Array:
    """See elementwise.py."""
    dtype = _result_dtype(op, data, values)
    if is_half(dtype):
        return narrowed(segment_binary(op, _single(data), _single(values), offsets), dtype)
    one_by_one = offsets is None and values.size == data.size
    compiled = (_DIVIDED if op == "div" else WRAPPING).get(dtype.char)
    # Compiled products of complex numbers would round differently from `x * y`.
    if compiled is None or not data.size or (one_by_one and dtype.kind == "c"):
        return reference.segment_binary(op, data, values, offsets)
    out = empty(data.shape, dtype)
    to = viewed(out, compiled)
    if one_by_one:
        x, z = np.ascontiguousarray(data, dtype), np.ascontiguousarray(values, dtype)
        streams = out.nbytes >= STREAMED_BYTES and load.address(out) % _LINE == 0
        piece_values = PIECE_BYTES // dtype.itemsize
        run(
            _pairs[op][compiled], -(-x.size // piece_values), 3 * out.nbytes,
            viewed(x, compiled), viewed(z, compiled), to, x.size,
            _LINE // dtype.itemsize if streams else 0, piece_values,
        )  # fmt: skip
        return out
    x, z = flat_rows(data.astype(dtype, copy=False)), flat_rows(values.astype(dtype, copy=False))
    rows, width = x.shape
    piece_rows = max(1, PIECE_BYTES // (width * out.itemsize))
    run(
        _binary[op][compiled], -(-rows // piece_rows), 2 * out.nbytes,
        viewed(x, compiled), viewed(z, compiled), row_ends(x, offsets), to,
        len(z), width, z.shape[1], piece_rows,
    )  # fmt: skip
    return out


def _result_dtype(op: Arithmetic, data: Array, values: Array) -> np.dtype[Any]:
    """Return the dtype of NumPy's result."""
    if data.dtype is values.dtype and data.dtype.kind in "fc":  # fast path
        return data.dtype
    none: Array = UFUNCS[op](data[:0], values[:0].reshape(0, *[1] * (data.ndim - 1)))
    return none.dtype


def _single(rows: Array) -> Array:
    return widened(rows).astype(np.float32, copy=False)


def row_ends(rows: Array, offsets: Offsets | None) -> Offsets:
    """Return offsets as kernels read them; for None, one row per row."""
    return np.arange(len(rows) + 1) if offsets is None else np.ascontiguousarray(offsets)


def segment_dot(a: Array, b: Array, offsets: Offsets) -> Array:
    """See elementwise.py."""
    dtype = summed_dtype(common_dtype(a.dtype, b.dtype))
    if dtype.kind == "c":
        return reference.segment_dot(a, b, offsets)
    halves = is_half(dtype)
    wide = np.dtype(np.float32) if halves else dtype
    # The bits of products and sums do not depend on signedness.
    compiled = np.dtype(np.int64) if wide.kind in "iu" else wide
    x, y = (_single(one) if halves else one.astype(wide, copy=False) for one in (a, b))
    x, y = (flat_rows(one).view(compiled) for one in (x, y))
    # Sums of float32 are in float64, as in the reference.
    out = np.empty(offsets.size - 1, np.float64 if wide.kind == "f" else np.int64)
    pieces = piece_count(x)
    run(
        _dot[compiled.char + out.dtype.char], pieces, 2 * x.nbytes, x, y,
        np.ascontiguousarray(offsets), out, out.size, x.shape[1], pieces,
    )  # fmt: skip
    with np.errstate(over="ignore"):
        return (out.view(wide) if wide.kind in "iu" else out).astype(dtype, copy=False)
