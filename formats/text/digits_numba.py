"""Numbers to decimal text: integers, and the shortest text that round-trips a float.

The digits of floats are those of Schubfach (R. Giulietti, The Schubfach way to render doubles,
2020): of the shortest decimals that round to the float, the one nearest to it. The notation is
Python's: "1e-05", "0.0001", "12.0", "1e+16".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.text.words_numba import byte_at, put_byte, put_four, times
from lodcli.kernels.runtime.jit_numba import numba, overload

LEAST_POWER, MOST_POWER = -292, 324
# The longest texts: "-2.2250738585072014e-308", or "-9223372036854775808".
MOST_TEXT_BYTES = 24

_U = np.uint64


def _powers_of_ten() -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return the 128 highest bits of 10**k for each k, rounded up, high half first."""
    table = np.empty((MOST_POWER - LEAST_POWER + 1, 2), np.uint64)
    for place, power in enumerate(range(LEAST_POWER, MOST_POWER + 1)):
        five = 5 ** abs(power)
        if power < 0:
            value = -(-(1 << (five.bit_length() + 127)) // five)
        else:
            spare = max(0, five.bit_length() - 128)
            value = -(-five >> spare)
            value <<= 128 - value.bit_length()
        table[place] = value >> 64, value & 0xFFFFFFFFFFFFFFFF
    return table


def _fours(text: str) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return each number below 10,000 as four bytes, formatted by the template `text`."""
    return np.frombuffer("".join(text.format(n) for n in range(10_000)).encode(), np.uint32).copy()


# Frozen into the compiled code as constants.
_TENS = _powers_of_ten()
_TRUE, _FALS = np.frombuffer(b"truefals", np.uint32)
_PADDED, _PLAIN = _fours("{:04}"), _fours("{:<4}")


@numba.njit(cache=True)
def _scaled(place: int, c: Any) -> Any:
    """Return c times a power of ten; its lowest bit is also set if bits were dropped."""
    carry, _ = times(_TENS[place, 1], c)
    high, low = times(_TENS[place, 0], c)
    low += carry
    if low < carry:
        high += _U(1)
    return high | _U(low > _U(1))


@numba.njit(cache=True)
def shortest(c: Any, q: Any, closer: Any) -> Any:
    """Return (w, k): w * 10**k is the shortest decimal of the float c * 2**q.

    Args:
        c: uint64, not 0.
        q: the exponent.
        closer: whether the float below is at half the distance of the one above.
    """
    odd = c & _U(1)
    k = (q * 1262611 - (524031 if closer else 0)) >> 22
    shift = _U(q + ((-k * 1741647) >> 19) + 1)
    place = -k - LEAST_POWER
    middle = c << _U(2)
    lower = _scaled(place, (middle - _U(2) + _U(closer)) << shift) + odd
    value = _scaled(place, middle << shift)
    upper = _scaled(place, (middle + _U(2)) << shift) - odd
    s = value >> _U(2)
    if s >= _U(10):
        tenth = s // _U(10)
        below, above = lower <= _U(40) * tenth, _U(40) * tenth + _U(40) <= upper
        if below != above:
            return _without_zeros(tenth + _U(above), k + 1)
    below, above = lower <= _U(4) * s, _U(4) * s + _U(4) <= upper
    if below != above:
        return _without_zeros(s + _U(above), k)
    half = _U(4) * s + _U(2)
    return _without_zeros(s + _U(value > half or (value == half and s & _U(1) == _U(1))), k)


@numba.njit(cache=True)
def _without_zeros(w: Any, k: int) -> Any:
    if w % _U(100_000_000) == _U(0):
        w //= _U(100_000_000)
        k += 8
    if w % _U(10_000) == _U(0):
        w //= _U(10_000)
        k += 4
    if w % _U(100) == _U(0):
        w //= _U(100)
        k += 2
    while w % _U(10) == _U(0):
        w //= _U(10)
        k += 1
    return w, k


@numba.njit(cache=True)
def put_digits(w: Any, at: int) -> int:
    """Write an integer; up to three bytes after it are overwritten too."""
    if w >= _U(100_000_000):
        above = w // _U(100_000_000)
        rest = w - above * _U(100_000_000)
        if above >= _U(100_000_000):
            most = above // _U(100_000_000)
            at = _put_few(most, at)
            at = _put_eight(above - most * _U(100_000_000), at)
        elif above >= _U(10_000):
            most = above // _U(10_000)
            at = _put_few(most, at)
            put_four(at, _PADDED[above - most * _U(10_000)])
            at += 4
        else:
            at = _put_few(above, at)
        return _put_eight(rest, at)
    if w >= _U(10_000):
        above = w // _U(10_000)
        at = _put_few(above, at)
        put_four(at, _PADDED[w - above * _U(10_000)])
        return at + 4
    return _put_few(w, at)


@numba.njit(cache=True)
def _put_few(w: Any, at: int) -> int:
    """Write a number of up to four digits."""
    put_four(at, _PLAIN[w])
    more: int = (w >= _U(10)) + (w >= _U(100)) + (w >= _U(1000))
    return at + 1 + more


@numba.njit(cache=True)
def _put_eight(w: Any, at: int) -> int:
    """Write a number of up to eight digits as eight digits, zero-padded."""
    above = w // _U(10_000)
    put_four(at, _PADDED[above])
    put_four(at + 4, _PADDED[w - above * _U(10_000)])
    return at + 8


@numba.njit(cache=True)
def _put_exponent(exponent: int, at: int) -> int:
    put_byte(at, 101)  # e
    put_byte(at + 1, 45 if exponent < 0 else 43)
    w = _U(abs(exponent))
    if w < _U(10):
        put_byte(at + 2, 48)
        at += 1
    return put_digits(w, at + 2)


@numba.njit(cache=True)
def _put_decimal(w: Any, k: int, scientific: bool, at: int) -> int:
    """Write w * 10**k; w has no trailing zeros, except in an integer without an exponent."""
    # One byte further, as most numbers need room for the decimal point.
    end = put_digits(w, at + 1)
    size = end - at - 1
    point = size + k
    if scientific:
        put_byte(at, byte_at(at + 1))
        put_byte(at + 1, 46)
        return _put_exponent(point - 1, at + (1 if size == 1 else size + 1))
    if k >= 0:
        at = put_digits(w, at)
        for _ in range(k):
            put_byte(at, 48)
            at += 1
        put_byte(at, 46)
        put_byte(at + 1, 48)
        return at + 2
    if point > 0:
        for place in range(at, at + point):
            put_byte(place, byte_at(place + 1))
        put_byte(at + point, 46)
        return end
    put_byte(at, 48)
    put_byte(at + 1, 46)
    at += 2
    for _ in range(-point):
        put_byte(at, 48)
        at += 1
    return put_digits(w, at)


@numba.njit(cache=True)
def _put_real(value: Any, c: Any, q: Any, closer: Any, large: float, at: int) -> int:
    """Write a finite value, whose absolute value is c * 2**q."""
    if np.signbit(value):
        put_byte(at, 45)
        at += 1
        value = -value
    if c == _U(0):
        put_byte(at, 48)
        put_byte(at + 1, 46)
        put_byte(at + 2, 48)
        return at + 3
    if -53 < q <= 0 and c & ((_U(1) << _U(-q)) - _U(1)) == _U(0):
        # An integer, a common case; trailing zeros are removed only before an exponent.
        w, k = c >> _U(-q), 0
        if value >= large:
            w, k = _without_zeros(w, k)
    else:
        w, k = shortest(c, q, closer)
    # Compares the value, not its digits: the float32 of 1e-04 is a little less than 1e-4.
    return _put_decimal(w, k, not 1e-4 <= value < large, at)


@numba.njit(cache=True)
def put_float64(bits: Any, value: Any, large: float, at: int) -> int:
    exponent: Any = np.int64((bits >> _U(52)) & _U(0x7FF))
    c = bits & _U((1 << 52) - 1)
    closer = c == _U(0) and exponent > 1
    if exponent:
        c |= _U(1 << 52)
    return _put_real(value, c, (exponent if exponent else 1) - 1075, closer, large, at)


@numba.njit(cache=True)
def put_float32(bits: Any, value: Any, large: float, at: int) -> int:
    exponent: Any = np.int64((bits >> _U(23)) & _U(0xFF))
    c = bits & _U((1 << 23) - 1)
    closer = c == _U(0) and exponent > 1
    if exponent:
        c |= _U(1 << 23)
    return _put_real(np.float64(value), c, (exponent if exponent else 1) - 150, closer, large, at)


@numba.njit(cache=True)
def put_signed(value: Any, at: int) -> int:
    if value < 0:
        put_byte(at, 45)
        return put_digits(_U(0) - _U(value), at + 1)
    return put_digits(_U(value), at)


@numba.njit(cache=True)
def put_truth(value: Any, at: int) -> int:
    if value:
        put_four(at, _TRUE)
        return at + 4
    put_four(at, _FALS)
    put_byte(at + 4, 101)
    return at + 5


def _float64(value: Any, bits: Any, large: Any, at: Any) -> Any:
    return put_float64(np.uint64(bits), value, large, at)


def _float32(value: Any, bits: Any, large: Any, at: Any) -> Any:
    return put_float32(np.uint64(bits), value, large, at)


def _truth(value: Any, bits: Any, large: Any, at: Any) -> Any:
    return put_truth(value, at)


def _signed(value: Any, bits: Any, large: Any, at: Any) -> Any:
    return put_signed(np.int64(value), at)


def _unsigned(value: Any, bits: Any, large: Any, at: Any) -> Any:
    return put_digits(np.uint64(value), at)


def put(value: Any, bits: Any, large: Any, at: Any) -> Any:
    """Write a number; return where it ends. For compiled code only.

    Args:
        value: bool, integer, finite float32 or float64.
        bits: the same bytes as an unsigned integer.
        large: floats from this on are written with an exponent.
        at: an address with room for MOST_TEXT_BYTES.
    """
    raise NotImplementedError


@overload(put)
def _put(value: Any, bits: Any, large: Any, at: Any) -> Any:
    if value == numba.float64:
        return _float64
    if value == numba.float32:
        return _float32
    if value == numba.boolean:
        return _truth
    return _signed if value.signed else _unsigned
