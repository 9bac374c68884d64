"""Kernel that reads many texts as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.text.numbers_numba import HARD, rounded
from lodcli.formats.text.words_numba import byte_at, put_int
from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import address, function

_U = np.uint64
_MOST_DIGITS, _MOST_EXPONENT = 19, 1000
_POINT, _MINUS, _PLUS, _ZERO, _E, _LETTER_CASE = 46, 45, 43, 48, 101, 32


@kernel()
def read_numbers(
    data: Pointer[np.uint8], starts: Pointer[np.int64], lengths: Pointer[np.int64], whole: bool,
    known: Pointer[np.uint8], out: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the number of each text as eight bytes, and whether the text is known to be one.

    Args:
        whole: whether numbers are int64, else float64.
        known: set to 0 where a text must be read in another way.
        out: address of the numbers.
    """
    for number in range(first, last):
        begin = address(data) + starts[number]
        end = begin + lengths[number]
        bits, is_known = _number(begin, end, whole)
        known[number] = is_known
        put_int(out + 8 * number, np.int64(bits))
    return 0


@function()
def _number(at: int, end: int, whole: bool) -> Any:
    negative = False
    if at < end and (byte_at(at) == _MINUS or byte_at(at) == _PLUS):
        negative = byte_at(at) == _MINUS
        at += 1
    # Zeros before all other digits do not count.
    start, w, digits, power = at, _U(0), 0, 0
    while at < end and byte_at(at) - _ZERO < 10 and byte_at(at) >= _ZERO:
        w = w * _U(10) + _U(byte_at(at) - _ZERO)
        digits += digits > 0 or w != _U(0)
        at += 1
    seen = at > start
    if whole:
        if at != end or not seen or digits > _MOST_DIGITS or w >> _U(63) != _U(0):
            return 0, False
        return -np.int64(w) if negative else np.int64(w), True
    if at < end and byte_at(at) == _POINT:
        at += 1
        while at < end and byte_at(at) - _ZERO < 10 and byte_at(at) >= _ZERO:
            w = w * _U(10) + _U(byte_at(at) - _ZERO)
            digits += digits > 0 or w != _U(0)
            power -= 1
            at += 1
            seen = True
    if not seen or digits > _MOST_DIGITS:
        return 0, False
    if at < end and byte_at(at) | _LETTER_CASE == _E:
        at += 1
        down = False
        if at < end and (byte_at(at) == _MINUS or byte_at(at) == _PLUS):
            down = byte_at(at) == _MINUS
            at += 1
        exponent: Any = 0
        begin = at
        while at < end and byte_at(at) - _ZERO < 10 and byte_at(at) >= _ZERO:
            if exponent > _MOST_EXPONENT:
                return 0, False
            exponent = exponent * 10 + np.int64(byte_at(at)) - _ZERO
            at += 1
        if at == begin:
            return 0, False
        power += -exponent if down else exponent
    if at != end:
        return 0, False
    sign = _U(negative) << _U(63)
    if w == _U(0):
        return np.int64(sign), True
    found = rounded(w, power)
    if found == HARD:
        return 0, False
    return np.int64(found | sign), True
