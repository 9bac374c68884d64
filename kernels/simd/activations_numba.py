"""tanh, sigmoid, exp and log1p of SIMD vectors.

float32: rational approximation x P(x^2) / Q(x^2), fitted to the smallest relative error over |x| <=
7.9 (6e-9; with float32 rounding 3e-7); beyond, tanh is within 3e-7 of 1. float64: by the
exponential function, to the last digit or two.

exp is a Taylor series about the nearest power of two. log1p, for 0 to 1 only, is 2 atanh(x / (2 +
x)).
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import function
from lodcli.kernels.runtime.jit_numba import overload, types
from lodcli.kernels.simd.lanes_numba import above, below, power_of_two

# Adding these rounds a number to an integer in the low bits.
_SHIFT, _SHIFT_SINGLE = 1.5 * 2.0**52, 1.5 * 2.0**23
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
_LN2_HIGH_SINGLE, _LN2_LOW_SINGLE = 0.693359375, -2.12194440054690583e-4


def tanh(x: Any) -> Any:
    """Return tanh of every lane."""
    raise NotImplementedError


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)) of every lane."""
    raise NotImplementedError


def exp(x: Any) -> Any:
    """Return exp(x) of every lane; x is clipped to +-700, in float32 to +-87."""
    raise NotImplementedError


def log1p(x: Any) -> Any:
    """Return log(1 + x) of every lane, for x from 0 to 1."""
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
    """Return exp of every lane in float64; x is clipped to +-700."""
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
def _exp_single(x):  # type: ignore[no-untyped-def]
    """Return exp of every lane in float32; x is clipped to +-87."""
    x = above(below(x, 87.0), -87.0)
    shifted = x * _LOG2_E + _SHIFT_SINGLE
    n = shifted - _SHIFT_SINGLE
    r = x - n * _LN2_HIGH_SINGLE - n * _LN2_LOW_SINGLE
    # The series to r**7: at |r| <= ln(2)/2 the next term is 5e-9.
    e = r * (1.0 / 5040.0) + 1.0 / 720.0
    e = e * r + 1.0 / 120.0
    e = e * r + 1.0 / 24.0
    e = e * r + 1.0 / 6.0
    e = e * r + 0.5
    e = e * r + 1.0
    return power_of_two(e * r + 1.0, shifted)


@function()
def _log1p_single(x):  # type: ignore[no-untyped-def]
    s = x / (x + 2.0)
    z = s * s
    # The series of atanh: s is at most 1/3, and the next term 2e-9.
    p = z * (1.0 / 15.0) + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    p = p * z + 1.0
    return s * p * 2.0


@function()
def _log1p(x):  # type: ignore[no-untyped-def]
    s = x / (x + 2.0)
    z = s * s
    # As above; the next term is 2e-18.
    p = z * (1.0 / 33.0) + 1.0 / 31.0
    p = p * z + 1.0 / 29.0
    p = p * z + 1.0 / 27.0
    p = p * z + 1.0 / 25.0
    p = p * z + 1.0 / 23.0
    p = p * z + 1.0 / 21.0
    p = p * z + 1.0 / 19.0
    p = p * z + 1.0 / 17.0
    p = p * z + 1.0 / 15.0
    p = p * z + 1.0 / 13.0
    p = p * z + 1.0 / 11.0
    p = p * z + 1.0 / 9.0
    p = p * z + 1.0 / 7.0
    p = p * z + 1.0 / 5.0
    p = p * z + 1.0 / 3.0
    p = p * z + 1.0
    return s * p * 2.0


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


@overload(exp)
def _exp_of(x):  # type: ignore[no-untyped-def]
    if x.dtype == types.float32:
        return lambda x: _exp_single(x)
    return lambda x: _exp(x)


@overload(log1p)
def _log1p_of(x):  # type: ignore[no-untyped-def]
    if x.dtype == types.float32:
        return lambda x: _log1p_single(x)
    return lambda x: _log1p(x)
