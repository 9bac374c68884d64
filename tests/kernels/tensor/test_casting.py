"""Casting values: exact values are cast, others are an error."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.casting import cast, exact_decimals
from lodcli.kernels.tensor.marks import Decimals

NAMES = [
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]
POINTS = [
    *(0, 1, -1, 2, 0.5, 1.5, 2.5, -2.5, 0.1, 127, 128, 127.5, -128, -128.5, 255, 255.5, 256, 65504),
    *(65519, 65520, 65536, 2**24, 2**24 + 1, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**63 - 1),
    *(2**63, 2**64 - 1, 3e38, 3.5e38, 1e300, -1e300, math.inf, -math.inf, math.nan, 1 + 1j, 1j),
]


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def values_of(dtype: np.dtype[Any]) -> Array:
    """Return the points that a dtype can be made of, some rounded."""
    found: list[Any] = []
    for point in POINTS:
        number: Any = int(point.real) if _has_integer(point) and dtype.kind in "iu" else point
        with np.errstate(all="ignore"), contextlib.suppress(OverflowError, TypeError, ValueError):
            found.append(np.array([number]).astype(object).astype(dtype)[0])
    return np.array(found, dtype)


def _has_integer(point: complex) -> bool:
    return point.imag == 0 and math.isfinite(point.real)


def parts(value: Any) -> tuple[Any, Any]:
    """Return real and imaginary part as exact numbers, or inf and nan."""
    number = complex(value) if isinstance(value, np.complexfloating | complex) else None
    if number is not None:
        return exact(number.real), exact(number.imag)
    return exact(value), Fraction(0)


def exact(value: Any) -> Any:
    if isinstance(value, np.integer | np.bool_ | int):
        return Fraction(int(value))
    return Fraction(float(value)) if math.isfinite(float(value)) else str(float(value))


@pytest.mark.parametrize("to", NAMES)
@pytest.mark.parametrize("source", NAMES)
def test_values_that_fit_exactly_are_unchanged(source: str, to: str) -> None:
    data, dtype = values_of(dtype_of(source)), dtype_of(to)
    assert data.size
    made, fits = cast(data, dtype)
    assert made.dtype == dtype
    near, in_range = cast(data, dtype, rounded=True)
    assert (in_range >= fits).all()
    for value, one, fit, other, inside in zip(data, made, fits, near, in_range, strict=True):
        if fit:
            assert parts(value) == parts(one)
            assert parts(value) == parts(other)
        else:
            # By Python's exact numbers: nothing of the dtype that is near is the same.
            for candidate in candidates(value, dtype):
                assert parts(candidate) != parts(value), (value, candidate)
        if inside and not fit:
            assert all(
                distance(value, other) <= distance(value, candidate)
                for candidate in candidates(value, dtype)
                if np.isfinite(candidate)
            )


@pytest.mark.parametrize("source", ["int16", "uint16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize(
    ("to", "digits"), [("float16", 11), ("bfloat16", 8), ("float32", 24), ("float64", 53)]
)
def test_small_whole_numbers_are_exact_as_floats(source: str, to: str, digits: int) -> None:
    info = np.iinfo(source)
    for most in (min(2**digits + extra, info.max) for extra in (-1, 0, 1)):
        for sign in (1, -1) if info.min else (1,):
            data = np.array([0, sign * most], source)
            made, fits = cast(data, dtype_of(to))
            expected = [
                Fraction(float(one)) == int(two) for one, two in zip(made, data, strict=True)
            ]
            assert fits.tolist() == expected
            assert expected == [True, most <= 2**digits]


@pytest.mark.parametrize("to", ["float16", "bfloat16", "float32"])
def test_floats_without_others_among_them_are_cast_as_with_them(to: str) -> None:
    points = values_of(np.dtype(np.float64)).astype(np.float64)
    for rounded in (False, True):
        made, fits = cast(points, dtype_of(to), rounded=rounded)
        alone = [cast(points[n : n + 1], dtype_of(to), rounded=rounded) for n in range(points.size)]
        assert made.tobytes() == b"".join(one.tobytes() for one, _ in alone)
        assert fits.tolist() == [bool(one[0]) for _, one in alone]


def candidates(value: Any, dtype: np.dtype[Any]) -> list[Any]:
    """Return values of a dtype near another value."""
    real = complex(value).real
    if dtype.kind == "b":
        return [np.bool_(False), np.bool_(True)]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        if not math.isfinite(real):
            return []
        base = int(value) if isinstance(value, np.integer | np.bool_) else math.floor(real)
        return [dtype.type(n) for n in (base, base + 1) if info.min <= n <= info.max]
    with np.errstate(all="ignore"):
        return (
            [np.array([value]).astype(dtype)[0]]
            if dtype.kind == "c"
            else [np.array([real if not isinstance(value, np.integer) else value]).astype(dtype)[0]]
        )


def distance(value: Any, other: Any) -> Any:
    return abs(parts(value)[0] - parts(other)[0])


@given(st.lists(st.integers(-(10**18) + 1, 10**18 - 1)), st.integers(0, 38))
def test_exact_decimals_are_those_of_fractions(digits: list[int], scale: int) -> None:
    digits += [5**27, 5 ** min(scale, 27)]
    numbers = [Fraction(one, 10**scale) for one in digits]
    data = np.array(digits, np.int64)
    found = exact_decimals(data, Decimals(38, scale))
    assert found.tolist() == [Fraction(float(one)) == one for one in numbers]
