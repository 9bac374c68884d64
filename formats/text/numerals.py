"""Numbers to decimal text and back, exactly."""

from __future__ import annotations

import functools
import math
import os
import re
from typing import Any

import numpy as np

from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.index.checks import Array
from lodcli.kernels.options import option, together
from lodcli.kernels.tensor.nulls import Mask

# Above this, not every whole number is a float64.
MOST_EXACT_FLOAT64 = 2**53
# Below this, texts of 16-bit floats are exact if the numbers are whole, as those of float32 are.
_MOST_EXACT_SHORT = 2**24


def tells_dtype(spec: TensorSpec) -> bool:
    """Return whether readers infer the dtype of a tensor, from a number or as the default."""
    return (spec.rows != 0 and 0 not in spec.row_shape) or spec.dtype == np.float64


def whole_dtype(least: int, greatest: int) -> np.dtype[Any]:
    """Return uint64 if it holds whole numbers in a range that int64 does not hold; else int64.

    >>> whole_dtype(-1, 2**63), whole_dtype(0, 2**63)
    (dtype('int64'), dtype('uint64'))
    """
    unsigned = least >= 0 and np.iinfo(np.int64).max < greatest <= np.iinfo(np.uint64).max
    return np.dtype(np.uint64 if unsigned else np.int64)


def holding(value: int | float, beside: np.dtype[Any] | None = None) -> str:
    """Return a hint for a number that a dtype cannot represent exactly.

    Args:
        value: the number.
        beside: the dtype of the numbers before it, whole ones; None if they do not matter.
    """
    if isinstance(value, float):
        return _may_hold("float64")
    for name in ("int64", "uint64"):
        if np.iinfo(name).min <= value <= np.iinfo(name).max:
            # No dtype of whole numbers holds negative ones and those from 2**63 on.
            others = "" if beside is None else _beside(name, beside)
            return _may_hold(name) + others
    if abs(value) < 2**1023 and int(float(value)) == value:
        return _may_hold("float64")
    return "no dtype holds it; round it before"


def _may_hold(dtype: str) -> str:
    return f"{option('dtype', dtype)} may hold it"


def _beside(name: str, dtype: np.dtype[Any]) -> str:
    """Return when a dtype of 64 bits holds numbers of another one as well; "" if it always does."""
    if name == "int64" and dtype != np.uint64:
        return ""
    which = "none is negative" if name == "uint64" else "none is 2**63 or more"
    return f" if {which}, else {rounding('float64')} rounds it"


def rounding(dtype: object) -> str:
    """Return the options that round numbers to a dtype, for a message."""
    return together(option("dtype", str(dtype)), option("dtype-unsafe", True))


# Message for a number that `exceeds_float64`.
BEYOND = "exceeds float64, and so every dtype; scale it"


def exceeds_float64(text: str | bytes) -> bool:
    """Return whether a text is a number with digits, but exceeds float64: float() returns inf."""
    return bool(re.search(r"\d", os.fsdecode(text))) and math.isinf(float(text))


def texts(values: Array) -> list[str]:
    """Return each of `values`, (N,), as the shortest text from which it is read back.

    Whole numbers of 16-bit floats are written exactly, as readers may take them for other dtypes.

    Args:
        values: booleans (true, false), integers, or real numbers of any width; nan and inf
            are written as such.
    """
    if values.dtype.kind == "b":
        return ["true" if value else "false" for value in values.tolist()]
    if values.dtype.kind in "iu":
        return _whole(values)
    if values.dtype == np.float64:
        return list(map(repr, values.tolist()))
    if values.dtype.itemsize == 2:
        words, places = short_texts(values)
        return list(map(words.__getitem__, places.tolist()))
    # Not as float64: the shortest text of a float32 would be twice as long as needed.
    return list(map(str, values))


@functools.cache
def large_from(dtype: np.dtype[Any]) -> float:
    """Return where NumPy's text of floats starts to have an exponent; for float32 it changed."""
    if dtype.kind != "f":
        return np.inf
    return next(10.0**n for n in range(18) if "e" in str(dtype.type(10.0**n)))


def short_texts(values: Array) -> tuple[list[str], Array]:
    """Return the different texts of float16 or bfloat16 values, and the place of each one's text.

    >>> words, places = short_texts(np.array([1.5, 0.1, 1.5], np.float16))
    >>> [words[place] for place in places]
    ['1.5', '0.1', '1.5']
    """
    bits = values.view(np.uint16)
    there = np.zeros(1 << 16, np.bool_)
    there[bits] = True
    words = [_short_text(each, values.dtype) for each in np.flatnonzero(there).tolist()]
    return words, (np.cumsum(there) - 1)[bits]


@functools.cache
def _short_text(bits: int, dtype: np.dtype[Any]) -> str:
    """Return a float16 or bfloat16 as text: 1104.0, not 1100.0, which bfloat16 rounds to it."""
    value = np.array(bits, np.uint16).view(dtype)[()]
    exact = float(value)
    if exact.is_integer() and abs(exact) < _MOST_EXACT_SHORT:
        return repr(exact)
    return str(value) if dtype == np.float16 else _shortest(value)


def _shortest(value: Any) -> str:
    """Return a bfloat16 as the nearest of its shortest decimals, in the notation of Python.

    ml_dtypes writes six digits, of which at most four are needed.
    """
    exact = float(value)
    if not math.isfinite(exact) or not exact:
        return repr(exact)
    for digits in range(17):
        whole, _, power = f"{exact:.{digits}e}".partition("e")
        last = int(whole.replace(".", ""))
        # At a power of two, the nearest decimal of so many digits may be read as the float below.
        near = [float(f"{last + step}e{int(power) - digits}") for step in (0, -1, 1)]
        found = [one for one in near if value.dtype.type(one) == value]
        if found:
            return repr(min(found, key=lambda one: abs(one - exact)))
    raise AssertionError("a float64 holds it")


def put_nulls(values: list[str], mask: Mask | None, null: str) -> list[str]:
    """Set values to `null` in place where the mask is False, and return the list."""
    if mask is not None:
        for place in np.flatnonzero(~mask).tolist():
            values[place] = null
    return values


def _whole(values: Array) -> list[str]:
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    if high - low >= values.size:
        return list(map(str, values.tolist()))
    # Looking up a text takes a third of the time of formatting a number.
    known = list(map(str, range(low, high + 1)))
    return list(map(known.__getitem__, (values.astype(np.int64) - low).tolist()))


def narrowed(values: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return float64 `values` as the float `dtype`; None if one is beyond its range."""
    with np.errstate(over="ignore", invalid="ignore"):
        result = values.astype(dtype, copy=False)
    if dtype != np.float64 and (np.isfinite(values) & ~np.isfinite(result)).any():
        return None
    return result
