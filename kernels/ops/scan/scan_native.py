"""See scan.py. Sequential prefix sum along the rows."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import is_half, summed_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.halves_native import narrowed, widened
from lodcli.kernels.ops.rows import flat_rows, piece_count
from lodcli.kernels.runtime.buffers import empty

_running = load.kernel("kernels.ops.scan.scan_numba", "running")
_product_grad = load.kernel("kernels.ops.scan.product_grad_numba", "product_grad")


def segment_cumsum(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See scan.py."""
    return _applied(data, offsets, False, exclusive, reverse)


def segment_cumprod(data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool) -> Array:
    """See scan.py."""
    return _applied(data, offsets, True, exclusive, reverse)


def segment_cumprod_grad(
    upstream: Array, data: Array, offsets: Offsets, *, exclusive: bool, reverse: bool
) -> Array:
    """See scan.py."""
    # Other dtypes are computed in float64, and rounded once.
    single = data.dtype == upstream.dtype == np.float32
    dtype = np.dtype(np.float32 if single else np.float64)
    flow, x = (flat_rows(widened(one).astype(dtype, copy=False)) for one in (upstream, data))
    products, out = empty(x.shape, np.dtype(np.float64)), empty(x.shape, dtype)
    pieces = piece_count(x)
    run(
        _product_grad[dtype.char], pieces, 3 * x.nbytes + 2 * products.nbytes, flow, x,
        np.ascontiguousarray(offsets), products, out, offsets.size - 1, x.shape[1], exclusive,
        reverse, pieces,
    )  # fmt: skip
    return as_dtype(out.reshape(data.shape), data.dtype)


def _applied(data: Array, offsets: Offsets, product: bool, exclusive: bool, reverse: bool) -> Array:
    dtype = summed_dtype(data.dtype)
    half = is_half(dtype)
    rows = flat_rows(widened(data) if half else data.astype(dtype, copy=False))
    # Sums and products of unsigned integers have the same bits.
    rows = rows.view(np.int64) if rows.dtype.kind == "u" else rows
    out = empty(rows.shape, rows.dtype)
    pieces = piece_count(rows)
    run(
        _running[rows.dtype.char], pieces, 2 * rows.nbytes, rows, np.ascontiguousarray(offsets),
        out, offsets.size - 1, rows.shape[1], product, exclusive, reverse, pieces,
    )  # fmt: skip
    if half:
        out = narrowed(out, dtype)
    elif dtype.kind == "u":
        out = out.view(dtype)
    return out.reshape(data.shape)
