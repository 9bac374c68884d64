"""Dtypes of the ops: of computations, sums, means and copies."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# Values are copied as words of the same size: one kernel for each size, not for each dtype.
WORDS = {**{size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}, 16: np.dtype(np.complex128)}
# Sums and products of integers have the same bits in all dtypes of a size: the dtypes, by
# `dtype.char`, that arithmetic is compiled for.
WRAPPING = {
    **{each: each for each in "fdilBFD"},
    **{"I": "i", "L": "l", "q": "l", "Q": "l", "b": "B"},
}


def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a floating-point dtype of two bytes: float16 or bfloat16."""
    return dtype.itemsize == 2 and is_float(dtype)


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for computations: float32 for float16 and bfloat16, else the same."""
    return _SINGLE if is_half(dtype) else dtype


def is_working_dtype(dtype: np.dtype[Any]) -> bool:
    """Return whether this is NumPy's float32 or float64: a fast test for the common case."""
    return dtype is _SINGLE or dtype is _DOUBLE


def in_working_dtype(rows: Array) -> Array:
    """Return rows in their `working_dtype`; the same array if it has that dtype."""
    return rows.astype(_SINGLE) if is_half(rows.dtype) else rows


def summed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum of values of this dtype."""
    if dtype.kind == "u":
        return np.dtype(np.uint64)
    return np.dtype(np.int64) if dtype.kind in "ib" else dtype


def common_dtype(first: np.dtype[Any], *others: np.dtype[Any]) -> np.dtype[Any]:
    """Return NumPy's result dtype; faster than np.result_type if all are the same object."""
    for other in others:
        if other is not first:
            try:
                return np.result_type(first, *others)
            except TypeError:  # result_type cannot promote bfloat16 with some other dtypes
                singles = [_SINGLE if is_half(each) else each for each in (first, *others)]
                return np.result_type(*singles)
    return first if first.isnative else np.result_type(first)


def mean_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a mean of values of this dtype."""
    return dtype if is_float(dtype) or dtype.kind == "c" else np.dtype(np.float64)
