"""tanh and sigmoid of SIMD vectors.

float32: a quotient of polynomials, x P(x^2) / Q(x^2), fitted to the smallest relative error
over |x| <= 7.9 (6e-9; the rounding of float32 makes it 3e-7), where tanh is within 3e-7 of 1.
float64: by the exponential function, to the last digit or two.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.runtime.jit_numba import overload, types
from lodcli.kernels.simd.lanes_numba import above, below, power_of_two

_SHIFT = 1.5 * 2.0**52  # added to a float64, it leaves the nearest whole number in the low bits
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


def tanh(x: Any) -> Any:
    """Return tanh of every lane."""
    raise NotImplementedError


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) of every lane."""
    raise NotImplementedError


@function()
def _tanh_fitted(x):  # type: ignore[no-untyped-def]
    x = above(below(x, 7.9), -7.9)
    z = x * x
    p = (((z * 1.5428743e-08 + 2.20238132e-05) * z + 3.57902711e-03) * z + 0.134506503) * z
    q = (((z * 8.59909892e-07 + 3.42370752e-04) * z + 0.0261923721) * z + 0.467839783) * z
    return x * (p + 0.999999994) / (q + 1.0)


@function()
def _sigmoid_fitted(x):  # type: ignore[no-untyped-def]
    return _tanh_fitted(x * 0.5) * 0.5 + 0.5


@function()
def _exp(x):  # type: ignore[no-untyped-def]
    """Return exp of every lane, float64; beyond +-700 the exp of that."""
    x = above(below(x, 700.0), -700.0)
    shifted = x * _LOG2_E + _SHIFT
    n = shifted - _SHIFT
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    # The series to r**13: at |r| <= ln(2)/2 the next term is 4e-18.
    e = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    e = e * r + 1.0 / 39916800.0
    e = e * r + 1.0 / 3628800.0
    e = e * r + 1.0 / 362880.0
    e = e * r + 1.0 / 40320.0
    e = e * r + 1.0 / 5040.0
    e = e * r + 1.0 / 720.0
    e = e * r + 1.0 / 120.0
    e = e * r + 1.0 / 24.0
    e = e * r + 1.0 / 6.0
    e = e * r + 0.5
    e = e * r + 1.0
    return power_of_two(e * r + 1.0, shifted)


@function()
def _sigmoid_exact(x):  # type: ignore[no-untyped-def]
    return 1.0 / (_exp(0.0 - x) + 1.0)


@function()
def _tanh_exact(x):  # type: ignore[no-untyped-def]
    return 1.0 - 2.0 / (_exp(x * 2.0) + 1.0)


@overload(tanh)
def _tanh(x):  # type: ignore[no-untyped-def]
    if x.dtype == types.float32:
        return lambda x: _tanh_fitted(x)
    return lambda x: _tanh_exact(x)


@overload(sigmoid)
def _sigmoid(x):  # type: ignore[no-untyped-def]
    if x.dtype == types.float32:
        return lambda x: _sigmoid_fitted(x)
    return lambda x: _sigmoid_exact(x)
