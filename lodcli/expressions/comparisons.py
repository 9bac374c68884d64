"""Comparisons of values with one number, exact for every dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.expressions.functions import COMPARISONS, SWAPPED, rounded
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array

# The comparison with its sides swapped.
MIRRORED: dict[Any, np.ufunc] = {
    function: COMPARISONS[SWAPPED.get(kind, kind)] for kind, function in COMPARISONS.items()
}
_LESS, _GREATER = (np.less, np.less_equal), (np.greater, np.greater_equal)


def compared(function: np.ufunc, values: Array, number: Array) -> Array:
    """Return a comparison of values with a number, as of exact numbers: values on the left.

    Beside floats and complex numbers, a number with a point is rounded to their dtype, so that
    `x == 0.1` holds for a float32 0.1, unless that makes it infinite. No whole number is rounded.

    Args:
        function: of COMPARISONS.
        values: any shape and dtype, also on a GPU.
        number: () of any dtype.

    Returns:
        Booleans of the shape of the values.

    >>> compared(np.less, np.array([65504, np.inf], np.float16), np.asarray(70000)).tolist()
    [True, False]
    >>> compared(np.equal, np.array([2.0**53]), np.asarray(2**53 + 1)).tolist()
    [False]
    """
    if values.dtype.kind == "b":
        values = values.view(np.uint8)
    if values.dtype.kind in "iu":
        return _of_whole(function, values, number)
    if values.dtype.kind == "c":
        number = rounded(number, values.real.dtype)
    if not is_float(values.dtype) or number.dtype.kind == "c":
        found: Array = function(values, number)
        return found
    return _of_floats(function, values, number)


def _of_whole(function: np.ufunc, values: Array, number: Array) -> Array:
    """Return `compared` of whole numbers."""
    if number.dtype.kind not in "biu" and not np.isfinite(number):
        found: Array = function(values, float(number))
        return found
    # Not np.floor of whole numbers: before NumPy 2.1 it makes them float64.
    below = int(number) if number.dtype.kind in "biu" else int(np.floor(number))
    return compared_whole(function, values, below, whole=bool(below == number))


def compared_whole(function: np.ufunc, values: Array, below: int, *, whole: bool) -> Array:
    """Return a comparison of whole numbers, on the left, with another number.

    Args:
        function: of COMPARISONS.
        values: any shape, of a dtype of whole numbers.
        below: the number, rounded down.
        whole: whether it was whole.
    """
    least, most = np.iinfo(values.dtype).min, np.iinfo(values.dtype).max
    if below < least:
        return _above_none(function, values)
    if below > most or not whole:
        return _above(function, values, min(below, most))
    found: Array = function(values, values.dtype.type(below))
    return found


def _of_floats(function: np.ufunc, values: Array, number: Array) -> Array:
    """Return `compared` of floats."""
    dtype = values.dtype
    with np.errstate(over="ignore"):
        near = number.astype(dtype) if number.dtype.kind in "biu" else rounded(number, dtype)
        if near.dtype != dtype:  # rounding makes it infinite
            near = near.astype(dtype)
        elif number.dtype.kind not in "biu" or _is(near, number):
            found: Array = function(values, near[()])
            return found
    above = near > 0 if np.isinf(near) else int(near) > int(number)
    return _above(function, values, np.nextafter(near, dtype.type(-np.inf)) if above else near)


def _is(near: Array, number: Array) -> bool:
    """Return whether a float is a whole number; NumPy rounds the number before it compares."""
    return bool(np.isfinite(near)) and int(near) == int(number)


def _above(function: np.ufunc, values: Array, below: Any) -> Array:
    """Return `compared` with a number between `below` and the next value of the dtype."""
    if function in _LESS:
        found: Array = np.less_equal(values, values.dtype.type(below))
    elif function in _GREATER:
        found = np.greater(values, values.dtype.type(below))
    else:
        found = np.full_like(values, function is np.not_equal, np.bool_)
    return found


def _above_none(function: np.ufunc, values: Array) -> Array:
    """Return `compared` with a number below all values of the dtype."""
    return np.full_like(values, function not in (*_LESS, np.equal), np.bool_)
