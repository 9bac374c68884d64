"""See elementwise_grad.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.cuda.launch import c_type, flat_rows, run
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.elementwise.elementwise import Arithmetic
from lodcli.kernels.ops.elementwise.elementwise_cupy import kernel_index
from lodcli.kernels.ops.pooling.pool_cupy import segment_negative_sum, segment_sum


def segment_binary_grad(
    op: Arithmetic, data: Array, values: Array, offsets: Offsets | None, grad: Array
) -> tuple[Array, Array]:
    """See elementwise_grad.py."""
    dtype, flow = grad.dtype, cupy.ascontiguousarray(grad)
    if op in ("add", "sub"):
        for_data, each = flow.copy(), flat_rows(flow)
    else:
        rows, other = flat_rows(data), flat_rows(values)
        for_data, each = cupy.empty(data.shape, dtype), cupy.empty(rows.shape, dtype)
        if rows.size:
            shape, many, index = kernel_index(offsets, rows, other, flow, for_data, each)
            kernel = f"binary_grad<{c_type(dtype, 'arithmetic')}, {op.upper()}, {many}>"
            args = (rows, other, *index, flow, for_data, each)
            run("elementwise", kernel, *shape, *args)
    if flat_rows(values).shape[1] != each.shape[1]:
        # One value was broadcast to a whole row.
        each = each.sum(axis=1, keepdims=True)
    if offsets is None:
        # A copy: these may be the caller's rows.
        totals = -each if op == "sub" else each.copy() if op == "add" else each
    else:
        totals = (segment_negative_sum if op == "sub" else segment_sum)(each, offsets)
    return for_data, totals.reshape(values.shape)
