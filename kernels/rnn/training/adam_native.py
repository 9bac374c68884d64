"""See adam.py. Compiled: one pass over each array."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.ops.dtypes import is_working_dtype
from lodcli.kernels.rnn.training import adam

_step = load.kernel("kernels.rnn.training.adam_numba", "step")


def step_of(array: Array, grad: Array, factors: adam.Factors, *, out: tuple[Array, ...]) -> Array:
    """See adam.py."""
    if not is_working_dtype(grad.dtype):
        return adam.step_of(array, grad, factors, out=out)
    kernel = _step[grad.dtype.char]
    wide = np.ascontiguousarray(array, grad.dtype)
    moved = np.empty(array.shape, grad.dtype)
    kernel.call(0, 1, wide, np.ascontiguousarray(grad), *out, moved, moved.size, *factors)
    return moved.astype(array.dtype, copy=False)
