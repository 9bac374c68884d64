"""See ids.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load

_MODULE = "kernels.ops.ids.ids_numba"
_erase, _enumerate = (load.kernel(_MODULE, name) for name in ("erase", "enumerate_ids"))
_COMPILED: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}


def segment_erase(ids: Array, offsets: Offsets, tokens: Array) -> tuple[Array, Offsets]:
    """See ids.py."""
    given = as_compiled(ids)
    # Sorted again in the compiled dtype, which is signed: the order of unsigned numbers differs.
    unwanted = as_compiled(tokens).copy()
    unwanted.sort()
    out, bounds = np.empty(given.size, given.dtype), unwritten(offsets.size)
    _erase[given.dtype.char].call(
        0, 1, given, np.ascontiguousarray(offsets), unwanted, unwanted.size, out, bounds,
        offsets.size - 1,
    )  # fmt: skip
    return as_given(out[: bounds[-1]], ids), bounds


def segment_enumerate(ids: Array, offsets: Offsets, win_size: int, pad_value: int) -> Array:
    """See ids.py."""
    out = np.full((ids.size, win_size), pad_value, ids.dtype)
    given = as_compiled(ids)
    to = out.view(given.dtype) if out.itemsize == given.itemsize else out.astype(given.dtype)
    _enumerate[given.dtype.char].call(
        0, 1, given, np.ascontiguousarray(offsets), to, offsets.size - 1, win_size
    )
    return out if out.itemsize == to.itemsize else to.astype(ids.dtype)


def as_compiled(ids: Array) -> Array:
    """Return ids in a compiled dtype: reinterpreted if of the same size."""
    if ids.itemsize == 2:
        return ids.astype(np.int32)
    return np.ascontiguousarray(ids).view(_COMPILED[ids.itemsize])


def as_given(left: Array, ids: Array) -> Array:
    """Return the remaining ids in the dtype of the input."""
    if left.itemsize != ids.itemsize:
        return left.astype(ids.dtype)
    # A copy, unless all remain: a few ids would keep all the memory alive.
    return (left if left.size == ids.size else left.copy()).view(ids.dtype)
