"""Compiled JSON tokenizer: the end and value of a token, or STOP.

Bytes are written as numbers: 9 tab, 10 line feed, 13 return, 32 space, 34 ", 44 comma, 45 -,
46 ., 48 0, 58 colon, 91 [, 92 backslash, 93 ], 123 {, 125 }. Positions are addresses. The
data are followed by zeros, which no token accepts, so that nothing reads too far.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.text.words_numba import byte_at, int_at, put_byte, put_int
from lodcli.kernels.runtime.jit_numba import numba

STOP = -1
# Maximum number of names of skipped fields that are compared.
MOST_UNKNOWN = 256
# Numbers of up to this many digits always fit 64 bits.
_MOST_DIGITS = 19
_U = np.uint64
_SIGN = _U(1 << 63)


@numba.njit(cache=True)
def past_blanks(at: int) -> int:
    while byte_at(at) == 32 or byte_at(at) == 9 or byte_at(at) == 13:
        at += 1
    return at


@numba.njit(cache=True)
def whole_at(at: int) -> Any:
    """Return the end (or STOP) and the value of an integer that fits int64."""
    first = at
    negative = byte_at(at) == 45
    if negative:
        at += 1
    start = at
    w: Any = 0
    while True:
        c = byte_at(at) - 48
        if c < 0 or c > 9:
            break
        w = w * 10 + c
        at += 1
    size = at - start
    c = byte_at(at)
    if c == 46 or c == 101 or c == 69 or size == 0:
        return STOP, w
    if size > 18 or (size > 1 and byte_at(start) == 48):
        return _long_whole_at(first)
    return at, -w if negative else w


@numba.njit(cache=True)
def _long_whole_at(at: int) -> Any:
    at, w, _, negative, _, long = number_at(at)
    if at < 0 or long or w > _SIGN or (w == _SIGN and not negative):
        return STOP, np.int64(0)
    return at, -np.int64(w) if negative else np.int64(w)


@numba.njit(cache=True)
def number_at(at: int) -> Any:
    """Return the end of a number (or STOP), its digits, its power of ten, and three booleans.

    These are: whether it is negative, is an integer, and has more digits than were kept.
    """
    zero = _U(0)
    negative = byte_at(at) == 45
    if negative:
        at += 1
    digits = 0
    w = zero
    c = byte_at(at) - 48
    if c == 0:
        at += 1
    elif 0 < c <= 9:
        while True:
            c = byte_at(at) - 48
            if c < 0 or c > 9:
                break
            if digits < _MOST_DIGITS:
                w = w * _U(10) + _U(c)
            digits += 1
            at += 1
    else:
        return STOP, zero, 0, negative, True, False
    power = 0
    whole = True
    if byte_at(at) == 46:
        whole = False
        at += 1
        first = at
        while True:
            c = byte_at(at) - 48
            if c < 0 or c > 9:
                break
            if digits < _MOST_DIGITS:
                w = w * _U(10) + _U(c)
            if w != zero:
                digits += 1
            at += 1
        if at == first:
            return STOP, zero, 0, negative, True, False
        power = first - at
    if byte_at(at) == 101 or byte_at(at) == 69:
        whole = False
        at += 1
        minus = byte_at(at) == 45
        if minus or byte_at(at) == 43:
            at += 1
        first = at
        exponent = 0
        while True:
            c = byte_at(at) - 48
            if c < 0 or c > 9:
                break
            exponent = min(exponent * 10 + c, 1 << 40)
            at += 1
        if at == first:
            return STOP, zero, 0, negative, True, False
        power += -exponent if minus else exponent
    return at, w, power, negative, whole, digits > _MOST_DIGITS


@numba.njit(cache=True)
def _hex(at: int) -> int:
    """Return the value of four hexadecimal digits, or STOP."""
    value: int = 0
    for k in range(at, at + 4):
        c = int(byte_at(k))
        if 48 <= c <= 57:
            c -= 48
        elif 97 <= c <= 102:
            c -= 87
        elif 65 <= c <= 70:
            c -= 55
        else:
            return STOP
        value = value * 16 + c
    return value


@numba.njit(cache=True)
def text_at(at: int, out: int, row: int) -> Any:
    """Unescape the string after a quote to row.. of `out`; return its end (or STOP), next row."""
    while True:
        c = byte_at(at)
        if c == 34:
            return at + 1, row
        if c < 32:
            return STOP, row
        at += 1
        if c != 92:
            put_byte(out + row, c)
            row += 1
            continue
        c = byte_at(at)
        at += 1
        if c == 117:
            code = _hex(at)
            at += 4
            if code < 0 or 0xDC00 <= code < 0xE000:
                return STOP, row
            if 0xD800 <= code < 0xDC00:
                if byte_at(at) != 92 or byte_at(at + 1) != 117:
                    return STOP, row
                other = _hex(at + 2)
                at += 6
                if not 0xDC00 <= other < 0xE000:
                    return STOP, row
                code = 0x10000 + ((code - 0xD800) << 10) + other - 0xDC00
            if code < 0x80:
                put_byte(out + row, code)
                row += 1
                continue
            if code < 0x800:
                put_byte(out + row, 0xC0 | code >> 6)
                row += 1
            else:
                if code < 0x10000:
                    put_byte(out + row, 0xE0 | code >> 12)
                    row += 1
                else:
                    put_byte(out + row, 0xF0 | code >> 18)
                    put_byte(out + row + 1, 0x80 | code >> 12 & 0x3F)
                    row += 2
                put_byte(out + row, 0x80 | code >> 6 & 0x3F)
                row += 1
            put_byte(out + row, 0x80 | code & 0x3F)
            row += 1
            continue
        if c == 34 or c == 92 or c == 47:
            put_byte(out + row, c)
        elif c == 110:
            put_byte(out + row, 10)
        elif c == 116:
            put_byte(out + row, 9)
        elif c == 114:
            put_byte(out + row, 13)
        elif c == 98:
            put_byte(out + row, 8)
        elif c == 102:
            put_byte(out + row, 12)
        else:
            return STOP, row
        row += 1


@numba.njit(cache=True)
def word_at(at: int) -> Any:
    """Return the end (or STOP) of true, false or null, and its first letter."""
    c = byte_at(at)
    if c == 116 and byte_at(at + 1) == 114 and byte_at(at + 2) == 117 and byte_at(at + 3) == 101:
        return at + 4, c
    if c == 110 and byte_at(at + 1) == 117 and byte_at(at + 2) == 108 and byte_at(at + 3) == 108:
        return at + 4, c
    false = c == 102 and byte_at(at + 1) == 97 and byte_at(at + 2) == 108
    if false and byte_at(at + 3) == 115 and byte_at(at + 4) == 101:
        return at + 5, c
    return STOP, c


@numba.njit(cache=True)
def left_out(at: int, names: int, top: int) -> int:
    """Return the end (or STOP) of a skipped value; at most 63 nested lists and objects.

    Args:
        at: its beginning, or blanks before it.
        names: see `is_new`; entries from `top` on are free.
        top: number of the first one.
    """
    depth = 0
    objects = _U(0)  # a bit for each open list or object: 1 for an object
    base = top  # of the names in the innermost object
    named = False
    while True:
        at = past_blanks(at)
        if named:
            at = _name_left_out(at, names, base, top)
            if at < 0:
                return STOP
            top += 1
            named = False
            at = past_blanks(at)
        c = byte_at(at)
        if c == 91 or c == 123:
            named = c == 123
            if depth == 63 or top == MOST_UNKNOWN:
                return STOP
            depth += 1
            objects = objects << _U(1) | _U(named)
            if named:
                put_int(names + 16 * top, base)
                top += 1
                base = top
            at = past_blanks(at + 1)
            if byte_at(at) != (125 if named else 93):
                continue
            named = False
        elif c == 34:
            at, _ = skipped_text(at + 1)
        elif c == 45 or 48 <= c <= 57:
            first = at
            at, _, _, _, _, _ = number_at(at)
            if at - first > 300:
                return STOP
        else:
            at, _ = word_at(at)
        if at < 0:
            return STOP
        while depth:
            at = past_blanks(at)
            c = byte_at(at)
            inside = objects & _U(1) == _U(1)
            if c == (125 if inside else 93):
                if inside:
                    top = base - 1
                    base = int_at(names + 16 * top)
                objects >>= _U(1)
                depth -= 1
                at += 1
                continue
            if c != 44:
                return STOP
            at += 1
            named = inside
            break
        if not depth:
            return at


@numba.njit(cache=True)
def _name_left_out(at: int, names: int, base: int, top: int) -> int:
    """Return the position behind the name of a field and its colon, or STOP."""
    if byte_at(at) != 34:
        return STOP
    end, plain = skipped_text(at + 1)
    if not plain or not is_new(at + 1, end - 1, names, base, top):
        return STOP
    end = past_blanks(end)
    return end + 1 if byte_at(end) == 58 else STOP


@numba.njit(cache=True)
def is_new(start: int, stop: int, names: int, base: int, top: int) -> bool:
    """Return whether the name at start..stop is none of those of an object, and add it to them.

    Args:
        start, stop: of the name, without escapes.
        names: (MOST_UNKNOWN, 2) int64, start and stop of names.
        base, top: the entries that the object has so far; there may be no room for another.
    """
    if top == MOST_UNKNOWN:
        return False
    for k in range(base, top):
        if same_bytes(start, stop, int_at(names + 16 * k), int_at(names + 16 * k + 8)):
            return False
    put_int(names + 16 * top, start)
    put_int(names + 16 * top + 8, stop)
    return True


@numba.njit(cache=True)
def skipped_text(at: int) -> Any:
    """Return the end (or STOP) of the string after a quote, and whether it has no escapes."""
    plain = True
    while byte_at(at) != 34:
        c = byte_at(at)
        if c < 32:
            return STOP, False
        at += 1
        if c == 92:
            plain = False
            c = byte_at(at)
            at += 1
            if c == 117:
                if _hex(at) < 0:
                    return STOP, False
                at += 4
            elif not (
                c == 34
                or c == 92
                or c == 47
                or c == 98
                or c == 102
                or c == 110
                or c == 114
                or c == 116
            ):
                return STOP, False
    return at + 1, plain


@numba.njit(cache=True)
def same_bytes(start: int, stop: int, begin: int, end: int) -> bool:
    """Return whether the bytes at start..stop and begin..end are equal."""
    if stop - start != end - begin:
        return False
    for k in range(stop - start):  # noqa: SIM110 - numba has no generators
        if byte_at(start + k) != byte_at(begin + k):
            return False
    return True


@numba.njit(cache=True)
def past_same(at: int, begin: int, end: int) -> int:
    """Return the position behind the bytes at begin..end and a quote; STOP if others are there."""
    for k in range(begin, end):
        if byte_at(at) != byte_at(k):
            return STOP
        at += 1
    return at + 1 if byte_at(at) == 34 else STOP
