"""See ops/elementwise_grad.py. Products are added up where they are made, never stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.common import flat_rows
from lodcli.kernels.ops.elementwise.elementwise import Arithmetic
from lodcli.kernels.ops.elementwise.elementwise_numba import segment_binary
from lodcli.kernels.runtime.jit_numba import numba

_KINDS = {"add": 0, "sub": 1, "mul": 2, "div": 3}


def segment_binary_grad(
    op: Arithmetic, data: Array, values: Array, offsets: Offsets, grad: Array
) -> tuple[Array, Array]:
    """See ops/elementwise_grad.py."""
    grad_data = (
        np.array(grad) if op in ("add", "sub") else segment_binary(op, grad, values, offsets)
    )
    flow, x, z = (flat_rows(one) for one in (grad, data, values))
    # Sums in float64, as the reference makes them.
    grad_values = np.zeros(z.shape)
    if z.size:
        _totals(_KINDS[op], flow, x, z, offsets, grad_values)
    return grad_data, grad_values.reshape(values.shape).astype(grad.dtype, copy=False)


def segment_dot_grad(a: Array, b: Array, offsets: Offsets, grad: Array) -> tuple[Array, Array]:
    """See ops/elementwise_grad.py."""
    return segment_binary("mul", b, grad, offsets), segment_binary("mul", a, grad, offsets)


@numba.njit(parallel=True, cache=True, nogil=True, error_model="numpy")
def _totals(kind: int, flow: Any, x: Any, z: Any, offsets: Any, out: Any) -> None:
    one = z.shape[1] == 1
    for s in numba.prange(out.shape[0]):
        for r in range(offsets[s], offsets[s + 1]):
            for k in range(x.shape[1]):
                at = 0 if one else k
                if kind == 0:
                    out[s, at] += flow[r, k]
                elif kind == 1:
                    out[s, at] -= flow[r, k]
                elif kind == 2:
                    out[s, at] += flow[r, k] * x[r, k]
                else:
                    out[s, at] -= flow[r, k] * x[r, k] / (z[s, at] * z[s, at])
