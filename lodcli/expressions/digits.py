"""Exact decimals: those that hold a result, comparisons of their digits, and their floats."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from lodcli.expressions.comparisons import compared_whole
from lodcli.expressions.function_table import properties_of
from lodcli.expressions.functions import EXACT_DIGITS
from lodcli.formats.core.schema import TensorSpec
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.casting import scaled
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import DECIMAL_DIGITS, NO_MARKS, Decimals

# All numbers of this many digits fit an int64; of one more, only some do.
MOST_DIGITS = 18
# Decimals that hold every whole number of 64 bits with a sign, and a condition.
WHOLE, CONDITION = Decimals(MOST_DIGITS + 1, 0, 32), Decimals(1, 0, 32)
# Operators that are exact.
EXACT_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod)


def decimals_of(precision: int, scale: int, parts: Sequence[Decimals]) -> Decimals | None:
    """Return decimals of this many digits, at most as many as Arrow's type holds.

    Args:
        precision: the required number of digits.
        scale: how many of them are after the point.
        parts: from whose values they are computed; the type has as many bits at least.

    Returns:
        None if the digits after the point alone are too many.

    >>> str(decimals_of(50, 4, [Decimals(25, 2), Decimals(25, 2)]))
    'decimal(38, 4)'
    """
    bits = max(one.bits for one in parts)
    precision = max(1, precision, scale)
    most = DECIMAL_DIGITS[max(128, bits)]
    if scale > most:
        return None
    precision = min(precision, most)
    fitting = (b for b, digits in DECIMAL_DIGITS.items() if b >= bits and digits >= precision)
    return Decimals(precision, scale, next(fitting))


def joint_decimals(parts: Sequence[Decimals], carry: int = 0) -> Decimals | None:
    """Return decimals that hold the values of all of these.

    Args:
        carry: digits before the point that are added, as those of a sum.

    >>> str(joint_decimals([Decimals(6, 2), Decimals(5, 0)]))
    'decimal(7, 2)'
    """
    scale = max(one.scale for one in parts)
    whole = max(one.precision - one.scale for one in parts)
    return decimals_of(scale + whole + carry, scale, parts)


def decimals_of_operator(op: ast.operator, one: Decimals, other: Decimals) -> Decimals | None:
    """Return decimals that hold the results of one of EXACT_OPERATORS; None if there are none.

    >>> str(decimals_of_operator(ast.Mult(), Decimals(6, 2), Decimals(4, 3)))
    'decimal(10, 5)'
    """
    if isinstance(op, ast.Mult):
        scale, precision = one.scale + other.scale, one.precision + other.precision
        return decimals_of(precision, scale, (one, other))
    if isinstance(op, ast.Add | ast.Sub):
        return joint_decimals((one, other), carry=1)
    joint = joint_decimals((one, other))
    if joint is None or isinstance(op, ast.Mod):
        return joint
    return decimals_of(joint.precision, 0, (one, other))


def decimals_of_function(name: str, decimals: Decimals, digits: int = 0) -> Decimals | None:
    """Return decimals that hold the results of a function; None if they are floats.

    Args:
        digits: how many digits after the point `round` leaves.

    >>> str(decimals_of_function("round", Decimals(6, 3), 1))
    'decimal(5, 1)'
    """
    exact, precision, scale = properties_of(name).digits, decimals.precision, decimals.scale
    if not exact:
        return None
    if exact == "same" or (exact == "rounded" and scale <= digits):
        return decimals
    if exact == "rounded":
        return decimals_of(precision - scale + 1 + digits, digits, [decimals])
    most = DECIMAL_DIGITS[max(128, decimals.bits)]
    return decimals_of(precision + 1 if exact == "one more" else most, scale, [decimals])


def decimals_of_number(number: Fraction) -> Decimals | None:
    """Return decimals that hold a number, in 64 bits; None if there are none.

    >>> str(decimals_of_number(Fraction("0.250")))
    'decimal(2, 2)'
    """
    for scale in range(MOST_DIGITS + 1):
        digits = abs(number) * 10**scale
        if digits >= 2**63:
            break
        if digits.denominator == 1:
            return decimals_of(len(str(digits)), scale, [CONDITION])
    return None


def digits_of_number(number: Fraction, scale: int) -> int | None:
    """Return the digits of a number at a scale; None if it has more digits after the point.

    >>> digits_of_number(Fraction("0.25"), 2), digits_of_number(Fraction("0.25"), 1)
    (25, None)
    """
    digits = number * Fraction(10) ** scale
    return int(digits) if digits.denominator == 1 else None


def compared_digits(function: np.ufunc, number: Fraction) -> Callable[[Array], Array]:
    """Return a function that compares digits, on the left, with a number in their unit.

    >>> compared_digits(np.less, Fraction("10.5"))(np.array([10, 11])).tolist()
    [True, False]
    """
    below = number.numerator // number.denominator
    return lambda digits: compared_whole(function, digits, below, whole=number == below)


def order_of_digits(places: int) -> Callable[[Array, Array], Array]:
    """Return a function of two arrays of digits: -1, 0 or 1 where the first is less, equal or more.

    Args:
        places: how many more digits after the point the second has; it may be negative.

    >>> order_of_digits(2)(np.array([1, 1, 1]), np.array([99, 100, 101])).tolist()
    [1, 0, -1]
    """
    if places < 0:
        mirrored = order_of_digits(-places)
        return lambda one, other: -mirrored(other, one)

    def order(one: Array, other: Array) -> Array:
        # Not one times a power of ten, which may overflow.
        wholes, rest = quotient(other, places)
        found: Any = np.greater(one, wholes).astype(np.int64) - np.less(one, wholes)
        less: Array = found - ((found == 0) & (rest != 0))
        return less

    return order


def quotient(digits: Array, places: int) -> tuple[Array, Array]:
    """Return whole numbers divided by a power of ten, rounded down, and the rest.

    Of a power that exceeds all whole numbers of 64 bits, the rest is only 0 or not.

    >>> quotient(np.array([-150, 200]), 2)
    (array([-2,  2]), array([50,  0]))
    """
    if places > MOST_DIGITS:
        return np.where(digits < 0, -1, 0), digits
    wholes, rest = np.divmod(digits, 10**places)
    return wholes, rest


def stepped(name: str, scale: int) -> Callable[[Array], Array]:
    """Return `floor`, `ceil` or `round`, halves to even, as a function of digits of decimals.

    >>> stepped("round", 1)(np.array([5, 15, 16, -5])).tolist()
    [0, 2, 2, 0]
    """
    half = 5 * 10 ** (scale - 1)

    def function(digits: Array) -> Array:
        found, rest = quotient(digits, scale)
        if name == "ceil":
            found = found + (rest != 0)
        elif name == "round" and scale <= MOST_DIGITS:
            found = found + ((rest > half) | ((rest == half) & (found % 2 == 1)))
        elif name == "round":  # of numbers less than 1
            found = np.sign(digits) * (abs(digits) > half if half < 2**63 else 0)
        return found

    return function


def exact_floats(digits: Array, decimals: Decimals) -> Array:
    """Return the digits of decimals as float64. Raises InvalidDataError if it rounds some."""
    found: Array = digits.astype(np.float64)
    if decimals.precision > EXACT_DIGITS and digits.size and abs(found).max() > 2.0**53:
        raise InvalidDataError(
            f"{decimals} with a number of more than {EXACT_DIGITS} digits, which float64 rounds; "
            "lod convert --text-levels numbers makes whole numbers of the digits"
        )
    return found


def without_decimals(tensor: LoDTensor, *, exact: bool = True) -> LoDTensor:
    """Return a tensor of decimals as float64; another as it is.

    Raises:
        InvalidDataError: `exact`, and float64 rounds one of them.
    """
    unit = tensor.marks.unit
    if not isinstance(unit, Decimals) or not unit.scale:
        return tensor
    digits = exact_floats(tensor.values, unit) if exact else tensor.values.astype(np.float64)
    rows = scaled(digits, unit)
    return LoDTensor(rows, tensor.lod, nulls=tensor.nulls)


def spec_without_decimals(spec: TensorSpec) -> TensorSpec:
    """Return what `without_decimals` makes of a tensor with this description."""
    unit = spec.marks.unit
    if not isinstance(unit, Decimals) or not unit.scale:
        return spec
    return dataclasses.replace(spec, dtype=np.dtype(np.float64), marks=NO_MARKS)
