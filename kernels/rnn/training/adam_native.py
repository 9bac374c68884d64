"""See adam.py. Compiled: one pass over each array."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.ops.dtypes import is_working_dtype
from lodcli.kernels.rnn.training import adam

_step, _squares = (
    load.kernel("kernels.rnn.training.adam_numba", name) for name in ("step", "squares")
)


def step_of(array: Array, grad: Array, factors: adam.Factors, *, out: tuple[Array, ...]) -> Array:
    """See adam.py."""
    if not is_working_dtype(grad.dtype):
        return adam.step_of(array, grad, factors, out=out)
    kernel = _step[grad.dtype.char]
    wide = np.ascontiguousarray(array, grad.dtype)
    moved = np.empty(array.shape, grad.dtype)
    kernel.call(0, 1, wide, np.ascontiguousarray(grad), *out, moved, moved.size, *factors)
    return moved.astype(array.dtype, copy=False)


def sum_of_squares(array: Array) -> float:
    """See adam.py. The order of additions is the same on all processors."""
    if not is_working_dtype(array.dtype):
        return float(adam.sum_of_squares(array))
    total = np.empty(1)
    _squares[array.dtype.char].call(0, 1, np.ascontiguousarray(array), total, array.size)
    return total.item()
