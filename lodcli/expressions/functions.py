"""The operators and functions of expressions, as functions of NumPy."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.expressions.function_table import properties_of
from lodcli.kernels.dtypes import is_float
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.tensor.nulls import Mask

BINARY: dict[type[ast.operator], np.ufunc] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.remainder,
    ast.Pow: np.power,
}
COMPARISONS: dict[type[ast.cmpop], np.ufunc] = {
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
}
# Comparisons with their sides swapped.
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
}
# Functions of one value, and of two or more.
ONE: dict[str, np.ufunc] = {
    **{"abs": np.absolute, "ceil": np.ceil, "cos": np.cos, "exp": np.exp, "expm1": np.expm1},
    **{"floor": np.floor, "isfinite": np.isfinite, "isnan": np.isnan, "log": np.log},
    **{"log10": np.log10, "log1p": np.log1p, "log2": np.log2, "round": np.rint, "sign": np.sign},
    **{"sin": np.sin, "tanh": np.tanh},
}
TWO: dict[str, np.ufunc] = {"maximum": np.maximum, "minimum": np.minimum}
_WRITTEN: dict[Callable[..., Any], str] = {
    **{np.add: "+", np.subtract: "-", np.multiply: "*", np.power: "**"},
    **{np.true_divide: "/", np.floor_divide: "//", np.remainder: "%"},
    **{function: name for name, function in (ONE | TWO).items()},
}
# Functions that need an order.
ORDERING = (np.less, np.less_equal, np.greater, np.greater_equal, np.maximum, np.minimum)
# Functions of whole numbers whose result may be outside the range of the dtype.
GROWING = (np.add, np.subtract, np.multiply, np.power)
# So many members of a list are compared one by one.
MANY = 16
# Decimals of up to this many digits are distinct as 64-bit floats.
EXACT_DIGITS = 15
_LEAST = -(2**63)


def rounded(number: Array, dtype: np.dtype[Any]) -> Array:
    """Return a number () in the dtype of the floats beside it, as NumPy rounds Python's numbers.

    A number that the dtype does not hold, such as a large whole one, stays as it is.

    >>> rounded(np.asarray(0.1), np.dtype("float32")) == np.float32(0.1)
    np.True_
    >>> rounded(np.asarray(0.1), np.dtype("longdouble")) == np.longdouble(1) / 10
    np.True_
    """
    if not is_float(dtype):
        return number
    near = number.astype(dtype)
    if dtype == np.longdouble and number.dtype == np.float64:
        near = np.asarray(np.longdouble(repr(float(number))))  # 0.1 as it was written
    same = np.isfinite(near) == np.isfinite(number) if is_float(number.dtype) else near == number
    return near if same else number


def overflowed(found: Any, near: Any) -> bool:
    """Return whether sums or products of whole numbers do not fit 64 bits.

    Args:
        found: the results in 64 bits.
        near: the results of floats.
    """
    # An overflow is off by a multiple of 2**64; rounding by far less.
    return bool(np.any(np.abs(near - found) >= 2.0**62))


def fits(function: Callable[..., Array], a: Array, b: Array) -> bool:
    """Return whether all results for int64 are int64 too; a division by 0 has none."""
    if not a.size or not b.size:
        return True
    if function in (np.floor_divide, np.remainder):
        return bool(b.all()) and (a.min() > _LEAST or not np.any(b == -1))
    if function not in GROWING:
        return True
    # The greatest and the least result are of the greatest and the least numbers.
    ends = [np.array([int(one.min()), int(one.max())], object) for one in (a, b)]
    results = function.outer(*ends)
    return bool(results.min() >= _LEAST and results.max() <= -(_LEAST + 1))


def written(function: Callable[..., Any]) -> str:
    """Return how an expression writes a function of NumPy.

    >>> written(np.true_divide), written(np.absolute)
    ('/', 'abs')
    """
    return _WRITTEN.get(function) or function.__name__


def rounded_to(data: Array, digits: int) -> Array:
    """Return floats rounded to this many digits after the point, halves to even, in their dtype.

    They are multiplied by a power of ten in 64 bits, as in Polars, and stay as they are if that has
    no fraction.

    >>> rounded_to(np.array([0.125, 0.375, -1e300, np.nan], np.float64), 2).tolist()
    [0.12, 0.38, -1e+300, nan]
    """
    if data.dtype.kind == "c":
        found: Array = rounded_to(data.real, digits) + 1j * rounded_to(data.imag, digits)
        return found
    wide = data if data.dtype == np.longdouble else data.astype(np.float64, copy=False)
    with np.errstate(over="ignore"):
        steps = wide * 10.0**digits
    # From there on, no float has more digits.
    has_more = np.abs(steps) < 2.0 ** np.finfo(wide.dtype).nmant
    return np.where(has_more, np.rint(steps) / 10.0**digits, wide).astype(data.dtype, copy=False)


def picked(table: Array, codes: Array) -> Array:
    """Return the entries of a table at codes, where the codes are.

    >>> picked(np.array([5, 7]), np.array([1, 0, 1]))
    array([7, 5, 7])
    """
    found: Array = np.asarray(table, like=codes)[codes]
    return found


def clipped(lengths: Array, start: int | None, stop: int | None) -> tuple[Offsets, Offsets]:
    """Return where a slice of each list begins and how many elements it has, (S,) int64.

    Args:
        lengths: (S,), of the lists.
        start, stop: as in Python: negative ones count from the end, and a list may be shorter.

    >>> [one.tolist() for one in clipped(np.array([0, 1, 4]), -2, None)]
    [[0, 0, 2], [0, 1, 2]]
    """

    def at(place: int) -> Array:
        near: Array = np.minimum(lengths, place) if place >= 0 else np.maximum(lengths + place, 0)
        return near

    first = np.zeros_like(lengths) if start is None else at(start)
    last = lengths if stop is None else at(stop)
    return first, np.maximum(last - first, 0)


def both_valid(one: Mask | None, other: Mask | None) -> Mask | None:
    """Return the conjunction of two validity masks; None is a mask without nulls."""
    if one is None or other is None:
        return one if other is None else other
    return one & other


def valid_of(
    function: Callable[..., Array], values: Sequence[Array], masks: Sequence[Mask | None]
) -> Mask | None:
    """Return the validity mask of a function of values, which are given with their masks.

    It is null where one of them is, except that an `or` with True is True and an `and` with
    False is False, as in SQL.
    """
    valid = functools.reduce(both_valid, masks)
    if valid is None or function not in (np.logical_and, np.logical_or):
        return valid
    for data, mask in zip(values, masks, strict=True):
        decides = (data != 0) == (function is np.logical_or)
        if decides.ndim > 1:  # a row of several values is null as a whole
            decides = decides.all(axis=tuple(range(1, decides.ndim)))
        valid = valid | (decides if mask is None else decides & mask)
    return valid


def known_of(name: str, offsets: Offsets, valid: Mask | None, *, of_nothing: bool = False) -> Mask:
    """Return for which sequences a function of all their values has one, (S,) bool.

    Args:
        name: of the function.
        offsets: (S + 1,), of the sequences.
        valid: (N,), which rows are not null; None for all.
        of_nothing: whether a sequence without rows has one, whatever the function.
    """
    function, full = properties_of(name), offsets[1:] > offsets[:-1]
    known: Mask = full
    if valid is not None and function.picks_by_place:
        known = full.copy()
        known[full] = valid[(offsets[:-1] if name == "first" else offsets[1:] - 1)[full]]
    elif valid is not None:
        counts = np.concatenate([[0], np.cumsum(valid)])[offsets]
        known = counts[1:] > counts[:-1]
    return known | ~full if of_nothing or function.of_nothing else known
