"""Whole numbers that the dtype of chosen values does not hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lodcli.kernels.dtypes import has_nan
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.nulls import Mask

# Long doubles hold whole numbers up to here.
_MOST = np.longdouble(2) ** 64


def require_exact(values: Sequence[Array], chosen: Sequence[Any], dtype: np.dtype[Any]) -> None:
    """Raise InvalidDataError if a chosen whole number is not exact in the dtype of the result.

    Args:
        values: of which one is chosen; numbers () have the precision of floats beside them.
        chosen: where each of them is chosen and not null.
        dtype: which holds all whole numbers of 32 bits, as NumPy's common dtypes do.

    >>> ids = np.array([2**53, 2**53 + 1])
    >>> require_exact([ids, np.array([0.5, 0.5])], [[True, False], [False, True]], np.dtype("f8"))
    """
    if not has_nan(dtype) or dtype in (np.longdouble, np.clongdouble):
        return
    floats = any(has_nan(one.dtype) for one in values)
    for one, where in zip(values, chosen, strict=True):
        inexact = None if floats and not one.ndim else _inexact(one, dtype)
        if inexact is None:
            continue
        lost = where & inexact
        if lost.any():
            number = int(np.broadcast_to(one, lost.shape)[lost][0])
            how = "lod cast makes them of one dtype"
            raise InvalidDataError(
                f"{number} is not exact in {dtype}, the common dtype of the values; {how}"
            )


def _inexact(values: Array, dtype: np.dtype[Any]) -> Mask | None:
    """Return where values are whole numbers that a dtype of floats rounds; None for nowhere."""
    # No array is made here but from values, which may be on a GPU.
    near: Array
    lost: Mask
    if values.dtype == np.longdouble:  # of arithmetic in `lod filter`
        whole = np.where(np.abs(values) <= _MOST, values, 0)
        whole = np.where(np.rint(whole) == whole, whole, 0)
        near = whole.astype(dtype).real
        lost = near.astype(np.longdouble) != whole
        return lost
    if values.dtype.kind not in "iu" or values.dtype.itemsize < 8:
        return None
    near = values.astype(dtype).real.astype(np.float64)
    held = near < float(np.iinfo(values.dtype).max)  # a float above has no such whole number
    lost = np.where(held, near, 0).astype(values.dtype) != values
    return lost
