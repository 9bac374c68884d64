"""Conversion of values to another dtype, with a check of every value."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.marks import Decimals
from lodcli.kernels.tensor.nulls import Mask

# Floating dtypes hold all whole numbers up to 2 to this power.
_EXACT_BITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}


def cast(data: Array, dtype: np.dtype[Any], *, rounded: bool = False) -> tuple[Array, Mask]:
    """Return values converted to another dtype, and a mask of those that kept their value.

    Args:
        data: any shape; bool, integers, floating or complex numbers.
        dtype: another of these.
        rounded: whether a value only has to be in the range of the dtype: it is rounded to the
            nearest number, halves to even.

    Returns:
        The values, and a mask of the same shape; where the mask is False the value is undefined.

    >>> values, fits = cast(np.array([1.0, 2.5, 300.0]), np.dtype("uint8"))
    >>> fits.tolist()
    [True, False, False]
    >>> values, fits = cast(np.array([1.0, 2.5, 300.0]), np.dtype("uint8"), rounded=True)
    >>> values[fits].tolist()
    [1, 2]
    """
    if data.dtype == dtype:
        return data, np.ones(data.shape, np.bool_)
    with np.errstate(all="ignore"):
        if data.dtype.kind != "c":
            if dtype.kind != "c":
                return _real(data, dtype, rounded)
            part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
            values, fits = _real(data, part, rounded)
            return values.astype(dtype), fits
        if dtype.kind != "c":
            values, fits = _real(data.real, dtype, rounded)
            return values, fits & (data.imag == 0)
        made = data.astype(dtype)
        return made, _same(data.real, made.real, rounded) & _same(data.imag, made.imag, rounded)


def scaled(digits: Array, decimals: Decimals) -> Array:
    """Return the decimals of these digits, which are floating numbers.

    >>> scaled(np.array([1250.0]), Decimals(6, 2)).tolist()
    [12.5]
    """
    # Not 10.0 ** -scale for both: 0.01 is no float, and 1250 / 100 is the float next to 12.50.
    found: Array = digits * 10.0 ** max(-decimals.scale, 0) / 10.0 ** max(decimals.scale, 0)
    return found


def exact_decimals(digits: Array, decimals: Decimals) -> Mask:
    """Return which decimals float64 holds: whole numbers of 53 bits over 2 ** scale.

    >>> exact_decimals(np.array([150, 10]), Decimals(6, 2)).tolist()
    [True, False]
    """
    if decimals.scale < 0:
        return np.asarray(abs(scaled(digits.astype(np.float64), decimals)) < 2.0**53)
    if decimals.scale > 27:  # 5 ** 28 exceeds 64 bits, so no digits but 0 are a multiple
        return np.asarray(digits == 0)
    numerators, rest = np.divmod(digits, 5**decimals.scale)
    return np.asarray((rest == 0) & cast(numerators, np.dtype(np.float64))[1])


def held(values: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return numbers given by a caller in another dtype; None if it does not hold one of them.

    Floats are rounded, but not to infinity; real dtypes hold no complex numbers.

    >>> held(np.array(2.7), np.dtype("float32")), held(np.array(2.7), np.dtype("int8"))
    (array(2.7, dtype=float32), None)
    """
    if values.dtype.kind not in "biufcO" and not is_float(values.dtype):
        return None
    if values.dtype.kind == "c" != dtype.kind:
        return None
    try:
        if values.dtype.kind == "O":  # beyond 64 bits; NumPy makes nan of None
            values = np.array([float(one) for one in values.flat]).reshape(values.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            made: Array = values.astype(dtype)
    except (OverflowError, TypeError, ValueError):
        return None
    if dtype.kind in "biu":  # compared by Python, which does not round whole numbers
        return made if made.tolist() == values.tolist() else None
    finite = np.isfinite(made)
    return made if finite.all() or not np.isfinite(values[~finite]).any() else None


def _real(data: Array, dtype: np.dtype[Any], rounded: bool) -> tuple[Array, Mask]:
    if dtype.kind == "b":
        return data != 0, np.asarray((data == 0) | (data == 1))
    if is_float(dtype):
        made = data.astype(dtype)
        return made, _same(data, made, rounded)
    info = np.iinfo(dtype)
    if not is_float(data.dtype):
        values = data.astype(np.uint8) if data.dtype.kind == "b" else data
        return values.astype(dtype), np.asarray((values >= info.min) & (values <= info.max))
    wide = data.astype(np.float64)
    nearest = np.rint(wide)
    # The bounds are 0 or powers of two, which floats represent exactly.
    fits = (nearest >= float(info.min)) & (nearest < float(info.max + 1))
    if not rounded:
        fits &= nearest == wide
    if not fits.all():
        nearest = np.where(fits, nearest, 0)
    return nearest.astype(dtype), np.asarray(fits)


def _same(data: Array, made: Array, rounded: bool) -> Mask:
    """Return which values are equal as floats or, if rounded, are as finite as before."""
    if is_float(data.dtype):
        return _same_floats(data, made, rounded)
    if data.dtype.kind == "b" or _holds(made.dtype, data):
        return np.ones(data.shape, np.bool_)
    wide = made.astype(np.float64, copy=False)
    fits = np.isfinite(wide)
    if rounded:
        return np.asarray(fits)
    info = np.iinfo(data.dtype)
    fits &= (wide >= float(info.min)) & (wide < float(info.max + 1))
    return np.asarray(fits & (np.where(fits, wide, 0).astype(data.dtype) == data))


def _same_floats(data: Array, made: Array, rounded: bool) -> Mask:
    if rounded:
        fits = np.isfinite(made)
        # Only what is not finite is not finite in a narrower dtype, or was too large for it.
        return np.asarray(fits if fits.all() else fits | ~np.isfinite(data))
    both = np.dtype(np.float64 if 8 in (data.dtype.itemsize, made.dtype.itemsize) else np.float32)
    was, wide = data.astype(both, copy=False), made.astype(both, copy=False)
    same = was == wide
    return np.asarray(same if same.all() else same | (np.isnan(was) & np.isnan(wide)))


def _holds(dtype: np.dtype[Any], data: Array) -> bool:
    """Return whether whole numbers are so small that a floating dtype holds each exactly."""
    bits = _EXACT_BITS.get(dtype.name, 0)
    return not data.size or -(2**bits) <= int(data.min()) <= int(data.max()) <= 2**bits
