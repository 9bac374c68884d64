"""Decimal text to float64, rounded exactly as by Python's float(), or rejected.

The exact product of two float64 where both fit (W. D. Clinger, How to read floating point
numbers accurately, 1990), else 64 x 128 bits of a power of five (D. Lemire, Number parsing at a
gigabyte per second, 2021). The result is HARD if neither decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.text.words_numba import leading_zeros, times
from lodcli.kernels.runtime.jit_numba import numba

LEAST_POWER, MOST_POWER = -342, 308
HARD = np.uint64(0xFFFFFFFFFFFFFFFF)  # the bits of a NaN, which no decimal text has

_U = np.uint64
_ALL = _U(0xFFFFFFFFFFFFFFFF)


def _powers_of_five() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the 128 highest bits of 5**q for each q, high half first."""
    table = np.empty((MOST_POWER - LEAST_POWER + 1, 2), np.uint64)
    for place, power in enumerate(range(LEAST_POWER, MOST_POWER + 1)):
        five = 5 ** abs(power)
        if power < 0:
            bits = (five - 1).bit_length()
            # Up to 5**27 the product must not be less than a value halfway between two floats.
            value = (1 << (bits + 127 if power >= -27 else 2 * bits + 128)) // five + 1
        else:
            value = five << 128
        value >>= value.bit_length() - 128
        table[place] = value >> 64, value & 0xFFFFFFFFFFFFFFFF
    return table


# Frozen into the compiled code as constants.
FIVES = _powers_of_five()
TENS = 10.0 ** np.arange(23)


@numba.njit(cache=True)
def rounded(w: Any, power: int) -> Any:
    """Return the bits of the float64 nearest to w * 10**power, or HARD.

    Args:
        w: uint64, not 0.
        power: exponent of ten.
    """
    if power < LEAST_POWER or power > MOST_POWER:
        return HARD
    zeros = leading_zeros(w)
    w <<= _U(zeros)
    place = power - LEAST_POWER
    high, low = times(w, FIVES[place, 0])
    if high & _U(0x1FF) == _U(0x1FF):
        more, _ = times(w, FIVES[place, 1])
        low += more
        if low < more:
            high += _U(1)
    if low == _ALL and (power < -27 or power > 55):
        return HARD
    upper = high >> _U(63)
    shift = upper + _U(9)
    mantissa = high >> shift
    exponent = ((217706 * power) >> 16) + 63 + np.int64(upper) - zeros + 1023
    if exponent <= 0:
        return HARD  # subnormal or 0
    if (
        low <= _U(1)
        and -4 <= power <= 23
        and mantissa & _U(3) == _U(1)
        and mantissa << shift == high
    ):
        mantissa &= ~_U(1)  # halfway between two floats: rounded to even
    mantissa += mantissa & _U(1)
    mantissa >>= _U(1)
    if mantissa >= _U(1 << 53):
        mantissa = _U(1 << 52)
        exponent += 1
    if exponent >= 2047:
        return HARD  # too large
    return (mantissa & _U((1 << 52) - 1)) | (_U(exponent) << _U(52))
