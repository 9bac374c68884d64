"""Numbers to decimal text: whole numbers, and the shortest text that gives a float back.

The digits of floats are those of Schubfach (R. Giulietti, The Schubfach way to render doubles,
2020): of the shortest decimals that are rounded to the float, the one nearest to it. How they
are written is Python's way: "1e-05", "0.0001", "12.0", "1e+16".
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.extending import overload

LEAST_POWER, MOST_POWER = -292, 324
# What a number may take: "-2.2250738585072014e-308", or "-9223372036854775808".
MOST_TEXT_BYTES = 24

_U = np.uint64
_LOW = _U(0xFFFFFFFF)
_ZERO = _U(48)


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


def _pairs() -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer("".join(f"{n:02}" for n in range(100)).encode(), np.uint8).copy()


# Part of the compiled code.
_TENS = _powers_of_ten()
_PAIRS = _pairs()
_LIMITS = np.array([10**n for n in range(20)], np.uint64)


@nb.njit(cache=True)
def _times(a: Any, b: Any) -> Any:
    """Return the high and the low half of a product."""
    a0, a1 = a & _LOW, a >> _U(32)
    b0, b1 = b & _LOW, b >> _U(32)
    low, middle, other = a0 * b0, a1 * b0, a0 * b1
    carry = (low >> _U(32)) + (middle & _LOW) + (other & _LOW)
    high = a1 * b1 + (middle >> _U(32)) + (other >> _U(32)) + (carry >> _U(32))
    return high, (carry << _U(32)) | (low & _LOW)


@nb.njit(cache=True)
def _scaled(place: int, c: Any) -> Any:
    """Return c times a power of ten, its lowest bit set if more bits follow."""
    carry, _ = _times(_TENS[place, 1], c)
    high, low = _times(_TENS[place, 0], c)
    low += carry
    if low < carry:
        high += _U(1)
    return high | _U(low > _U(1))


@nb.njit(cache=True)
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


@nb.njit(cache=True)
def _without_zeros(w: Any, k: int) -> Any:
    if w % _U(100_000_000) == _U(0):
        w //= _U(100_000_000)
        k += 8
    if w % _U(10_000) == _U(0):
        w //= _U(10_000)
        k += 4
    while w % _U(10) == _U(0):
        w //= _U(10)
        k += 1
    return w, k


@nb.njit(cache=True)
def _size(w: Any) -> int:
    """Return the number of digits."""
    size = 1
    while size < 20 and w >= _LIMITS[size]:
        size += 1
    return size


@nb.njit(cache=True)
def _put_digits(w: Any, size: int, out: Any, at: int) -> int:
    """Write `size` digits, which are all there are."""
    end = at + size
    place = end
    while w >= _U(100):
        rest = w // _U(100)
        pair = np.int64(w - rest * _U(100)) * 2
        place -= 2
        out[place] = _PAIRS[pair]
        out[place + 1] = _PAIRS[pair + 1]
        w = rest
    if w >= _U(10):
        pair = np.int64(w) * 2
        out[at] = _PAIRS[pair]
        out[at + 1] = _PAIRS[pair + 1]
    else:
        out[at] = np.uint8(w + _ZERO)
    return end


@nb.njit(cache=True)
def _put_exponent(exponent: int, out: Any, at: int) -> int:
    out[at] = 101  # e
    out[at + 1] = 45 if exponent < 0 else 43
    w = _U(abs(exponent))
    if w < _U(10):
        out[at + 2] = 48
        return _put_digits(w, 1, out, at + 3)
    return _put_digits(w, _size(w), out, at + 2)


@nb.njit(cache=True)
def _put_decimal(w: Any, k: int, scientific: bool, out: Any, at: int) -> int:
    """Write w * 10**k, w without zeros at its end."""
    size = _size(w)
    point = size + k
    if scientific:
        _put_digits(w, size, out, at + 1)
        out[at] = out[at + 1]
        out[at + 1] = 46
        return _put_exponent(point - 1, out, at + (1 if size == 1 else size + 1))
    if k >= 0:
        at = _put_digits(w, size, out, at)
        for _ in range(k):
            out[at] = 48
            at += 1
        out[at] = 46
        out[at + 1] = 48
        return at + 2
    if point > 0:
        end = _put_digits(w, size, out, at + 1)
        for place in range(at, at + point):
            out[place] = out[place + 1]
        out[at + point] = 46
        return end
    out[at] = 48
    out[at + 1] = 46
    at += 2
    for _ in range(-point):
        out[at] = 48
        at += 1
    return _put_digits(w, size, out, at)


@nb.njit(cache=True)
def _put_real(value: Any, c: Any, q: Any, closer: Any, large: float, out: Any, at: int) -> int:
    """Write a finite value, whose size is c * 2**q."""
    if np.signbit(value):
        out[at] = 45
        at += 1
        value = -value
    if c == _U(0):
        out[at] = 48
        out[at + 1] = 46
        out[at + 2] = 48
        return at + 3
    if -53 < q <= 0 and c & ((_U(1) << _U(-q)) - _U(1)) == _U(0):
        # A whole number, as many are; its zeros are in their place, or to be counted.
        w, k = c >> _U(-q), 0
        if value >= large:
            w, k = _without_zeros(w, k)
    else:
        w, k = shortest(c, q, closer)
    # By the value, not by its digits: 1e-04 is the float32 that is a little less.
    return _put_decimal(w, k, not 1e-4 <= value < large, out, at)


@nb.njit(cache=True)
def _put_float64(bits: Any, value: Any, large: float, out: Any, at: int) -> int:
    exponent: Any = np.int64((bits >> _U(52)) & _U(0x7FF))
    c = bits & _U((1 << 52) - 1)
    closer = c == _U(0) and exponent > 1
    if exponent:
        c |= _U(1 << 52)
    return _put_real(value, c, (exponent if exponent else 1) - 1075, closer, large, out, at)


@nb.njit(cache=True)
def _put_float32(bits: Any, value: Any, large: float, out: Any, at: int) -> int:
    exponent: Any = np.int64((bits >> _U(23)) & _U(0xFF))
    c = bits & _U((1 << 23) - 1)
    closer = c == _U(0) and exponent > 1
    if exponent:
        c |= _U(1 << 23)
    return _put_real(
        np.float64(value), c, (exponent if exponent else 1) - 150, closer, large, out, at
    )


@nb.njit(cache=True)
def _put_unsigned(w: Any, out: Any, at: int) -> int:
    return _put_digits(w, _size(w), out, at)


@nb.njit(cache=True)
def _put_signed(value: Any, out: Any, at: int) -> int:
    if value < 0:
        out[at] = 45
        w = _U(0) - _U(value)
        return _put_digits(w, _size(w), out, at + 1)
    return _put_unsigned(_U(value), out, at)


@nb.njit(cache=True)
def _put_truth(value: Any, out: Any, at: int) -> int:
    if value:
        out[at], out[at + 1], out[at + 2], out[at + 3] = 116, 114, 117, 101
        return at + 4
    out[at], out[at + 1], out[at + 2], out[at + 3], out[at + 4] = 102, 97, 108, 115, 101
    return at + 5


def _float64(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    return _put_float64(np.uint64(bits[row]), values[row], large, out, at)


def _float32(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    return _put_float32(np.uint64(bits[row]), values[row], large, out, at)


def _truth(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    return _put_truth(values[row], out, at)


def _signed(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    return _put_signed(np.int64(values[row]), out, at)


def _unsigned(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    return _put_unsigned(np.uint64(values[row]), out, at)


def put(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    """Write one of `values` into `out`; return where it ends. For compiled code only.

    Args:
        values: (N,) bool, integers, finite float32 or float64.
        bits: the same bytes as unsigned integers.
        row: which.
        large: floats from this on are written with an exponent.
        out: uint8, with room for MOST_TEXT_BYTES from `at` on.
        at: where to begin.
    """
    raise NotImplementedError


@overload(put)
def _put(values: Any, bits: Any, row: Any, large: Any, out: Any, at: Any) -> Any:
    kind = values.dtype
    if kind == nb.float64:
        return _float64
    if kind == nb.float32:
        return _float32
    if kind == nb.boolean:
        return _truth
    return _signed if kind.signed else _unsigned
