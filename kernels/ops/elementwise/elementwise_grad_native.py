"""See elementwise_grad.py. Products are summed as they are computed, never stored."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.elementwise.elementwise import Arithmetic
from lodcli.kernels.ops.elementwise.elementwise_native import PIECE_BYTES, row_ends, segment_binary
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.rows import flat_rows, piece_count
from lodcli.kernels.runtime.buffers import empty

_KINDS = {"add": 0, "sub": 1, "mul": 2, "div": 3}
_MODULE = "kernels.ops.elementwise.elementwise_numba"
_totals, _div_pairs = (load.kernel(_MODULE, name) for name in ("totals", "div_pairs_grad"))


def segment_binary_grad(
    op: Arithmetic, data: Array, values: Array, offsets: Offsets | None, grad: Array
) -> tuple[Array, Array]:
    """See elementwise_grad.py."""
    if offsets is None and values.size == data.size:
        # Elementwise: no sums.
        rows, each = _pairwise(op, data, values.reshape(data.shape), grad)
        return rows, each.reshape(values.shape)
    grad_data = (
        np.array(grad) if op in ("add", "sub") else segment_binary(op, grad, values, offsets)
    )
    flow, x, z = map(flat_rows, (grad, data, values))
    # Sums in float64, as in the reference.
    grad_values = empty(z.shape, np.dtype(np.float64))
    pieces = piece_count(x)
    run(
        _totals[x.dtype.char], pieces, 2 * x.nbytes, _KINDS[op], flow, x, z,
        row_ends(x, offsets), grad_values, len(z),
        x.shape[1], z.shape[1], pieces,
    )  # fmt: skip
    return grad_data, as_dtype(grad_values.reshape(values.shape), grad.dtype)


def _pairwise(op: Arithmetic, data: Array, values: Array, grad: Array) -> tuple[Array, Array]:
    if op == "mul":
        rows = segment_binary(op, grad, values, None)
        return rows, segment_binary(op, grad, data, None)
    if op != "div":
        return np.array(grad), -grad if op == "sub" else np.array(grad)
    dtype = grad.dtype
    flow, x, z = map(np.ascontiguousarray, (grad, data, values))
    rows, each = empty(x.shape, dtype), empty(x.shape, dtype)
    piece_values = PIECE_BYTES // dtype.itemsize
    run(
        _div_pairs[dtype.char], -(-x.size // piece_values), 5 * x.nbytes,
        flow, x, z, rows, each, x.size, piece_values,
    )  # fmt: skip
    return rows, each
