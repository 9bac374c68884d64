"""Whole numbers and floats side by side: exact comparisons, and choices that are not rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import numpy as np

from lodcli.expressions.functions import COMPARISONS, SWAPPED, rounded
from lodcli.kernels.dtypes import has_nan, is_float
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.nulls import Mask

# The comparison with its sides swapped.
MIRRORED: dict[Any, np.ufunc] = {
    function: COMPARISONS[SWAPPED.get(kind, kind)] for kind, function in COMPARISONS.items()
}
T = TypeVar("T")
# Long doubles hold whole numbers up to here.
_MOST = np.longdouble(2) ** 64
_EXACT = 2.0**53  # all whole numbers below are floats
_LESS, _GREATER = (np.less, np.less_equal), (np.greater, np.greater_equal)


def compared(function: np.ufunc, values: Array, number: Array) -> Array:
    """Return a comparison of values with a number, as of exact numbers: values on the left.

    Beside floats and complex numbers, a number with a point is rounded to their dtype, so that
    `x == 0.1` holds for a float32 0.1, unless that makes it infinite. No whole number is rounded.

    Args:
        function: of COMPARISONS.
        values: any shape and dtype, also on a GPU.
        number: () of any dtype; a whole number beyond 64 bits as an object.

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
        number = np.asarray(float_of(int(number))) if number.dtype.kind == "O" else number
        number = rounded(number, values.real.dtype)
    if not is_float(values.dtype) or number.dtype.kind == "c":
        found: Array = function(values, number)
        return found
    return _of_floats(function, values, number)


def is_rounded(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Return whether NumPy rounds the whole numbers of a dtype to compare them with another."""
    whole, floats = (one, other) if one.kind in "iu" else (other, one)
    wide = whole.kind in "iu" and whole.itemsize == 8
    return wide and is_float(floats) and floats != np.longdouble


def compared_pairs(function: np.ufunc, left: T, right: T) -> T:
    """Return a comparison of whole numbers and floats, in pairs, as of exact numbers.

    Args:
        function: of COMPARISONS.
        left, right: arrays or tensors of which one is whole numbers and the other real floats.

    Returns:
        Booleans.

    >>> whole, floats = np.array([2**53 + 1, 2**63 - 1, 3]), np.array([2.0**53, 2.0**63, 3.0])
    >>> compared_pairs(np.equal, whole, floats).tolist()
    [False, False, True]
    """
    whole: Any = left
    floats: Any = right
    if whole.dtype.kind not in "iu":
        function, whole, floats = MIRRORED[function], right, left
    if floats.dtype != np.float64:
        floats = floats.astype(np.float64)
    info, near = np.iinfo(whole.dtype), whole.astype(np.float64)
    if not np.any(np.abs(near) >= _EXACT):  # takes half of the time of what follows
        return cast(T, function(near, floats))
    below = np.floor(floats)
    # The greatest number as a float is one more.
    is_held = (below >= float(info.min)) & (below < float(info.max))
    near = np.where(is_held, below, 0.0).astype(whole.dtype)
    greater = (is_held & (whole > near)) | (below < float(info.min))
    equal = is_held & (whole == near) & (below == floats)
    if function in (np.equal, np.not_equal):
        return cast(T, equal if function is np.equal else ~equal)
    if function in _LESS:
        less = (floats == floats) & ~greater & ~equal
        return cast(T, less if function is np.less else less | equal)
    return cast(T, greater if function is np.greater else greater | equal)


def _of_whole(function: np.ufunc, values: Array, number: Array) -> Array:
    """Return `compared` of whole numbers."""
    if number.dtype.kind not in "biuO" and not np.isfinite(number):
        found: Array = function(values, float(number))
        return found
    # Not np.floor of whole numbers: before NumPy 2.1 it makes them float64.
    below = int(number) if number.dtype.kind in "biuO" else int(np.floor(number))
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
        if number.dtype.kind == "O":
            near = np.asarray(float_of(int(number))).astype(dtype)
        else:
            near = number.astype(dtype) if number.dtype.kind in "biu" else rounded(number, dtype)
        if near.dtype != dtype:  # rounding makes it infinite
            near = near.astype(dtype)
        elif number.dtype.kind not in "biuO" or _is(near, number):
            found: Array = function(values, near[()])
            return found
    above = near > 0 if np.isinf(near) else int(near) > int(number)
    return _above(function, values, np.nextafter(near, dtype.type(-np.inf)) if above else near)


def float_of(number: int) -> float:
    """Return the float nearest to a whole number; infinity if it is beyond all floats."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


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


def require_exact(values: Sequence[Array], chosen: Sequence[Any], dtype: np.dtype[Any]) -> None:
    """Raise InvalidDataError if a chosen whole number is not exact in the dtype of the result.

    Args:
        values: of which one is chosen; () for a number.
        chosen: where each of them is chosen and not null.
        dtype: which holds all whole numbers of 32 bits, as NumPy's common dtypes do.

    >>> ids = np.array([2**53, 2**53 + 1])
    >>> require_exact([ids, np.array([0.5, 0.5])], [[True, False], [False, True]], np.dtype("f8"))
    """
    if not has_nan(dtype) or dtype in (np.longdouble, np.clongdouble):
        return
    for one, where in zip(values, chosen, strict=True):
        inexact = _inexact(one, dtype)
        if inexact is None:
            continue
        lost = where & inexact
        if lost.any():
            number = int(np.broadcast_to(one, lost.shape)[lost][0] if one.ndim else one)
            how = "lod cast makes them of one dtype" if one.ndim else _exact_remedy(number, dtype)
            raise InvalidDataError(
                f"{number} is not exact in {dtype}, the common dtype of the values; {how}"
            )


def _exact_remedy(number: int, dtype: np.dtype[Any]) -> str:
    """Return what to do about a whole number in an expression that a dtype of floats rounds."""
    near = float(number)
    if near != number:
        return f"write {near!r} for the nearest float"
    return f"lod cast TENSOR={'complex128' if dtype.kind == 'c' else 'float64'} holds it"


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
    # A float above has no such whole number, nor has an infinite one.
    held = np.isfinite(near) & (near < float(np.iinfo(values.dtype).max))
    lost = np.where(held, near, 0).astype(values.dtype) != values
    return lost
