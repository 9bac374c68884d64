"""Texts as fields of csv and JSON, in quotes and escaped where the format needs it."""

from __future__ import annotations

from lodcli.formats.text.words_numba import byte_at, put_byte
from lodcli.kernels.native.language_numba import function

_QUOTE, _BACKSLASH, _U, _LINE_FEED, _RETURN = 34, 92, 117, 10, 13


@function()
def put_bytes(begin: int, end: int, at: int) -> int:
    """Copy the bytes between two addresses; return where they end."""
    for place in range(begin, end):
        put_byte(at, byte_at(place))
        at += 1
    return at


@function()
def put_csv_text(begin: int, end: int, separator: int, at: int) -> int:
    """Write bytes as a field, in quotes if there are none or some need it; return where they end.

    An empty field without quotes is a null.
    """
    start, quoted = at, begin == end
    for place in range(begin, end):
        c = byte_at(place)
        put_byte(at, c)
        at += 1
        quoted |= c in (separator, _QUOTE, _LINE_FEED, _RETURN)
    if not quoted:
        return at
    at = start
    put_byte(at, _QUOTE)
    at += 1
    for place in range(begin, end):
        c = byte_at(place)
        put_byte(at, c)
        at += 1
        if c == _QUOTE:
            put_byte(at, c)
            at += 1
    put_byte(at, _QUOTE)
    return at + 1


@function()
def put_json_text(begin: int, end: int, at: int) -> int:
    """Write bytes in quotes, escaped as Python's json does; return where they end."""
    put_byte(at, _QUOTE)
    at += 1
    for place in range(begin, end):
        c = byte_at(place)
        if c >= 32 and c != _QUOTE and c != _BACKSLASH:
            put_byte(at, c)
            at += 1
            continue
        put_byte(at, _BACKSLASH)
        at += 1
        if c >= 32:
            put_byte(at, c)
        elif c == 10:
            put_byte(at, 110)
        elif c == 9:
            put_byte(at, 116)
        elif c == 13:
            put_byte(at, 114)
        elif c == 8:
            put_byte(at, 98)
        elif c == 12:
            put_byte(at, 102)
        else:
            put_byte(at, _U)
            put_byte(at + 1, 48)
            put_byte(at + 2, 48)
            put_byte(at + 3, 48 + (c >> 4))
            low = c & 15
            put_byte(at + 4, low + (48 if low < 10 else 87))
            at += 4
        at += 1
    put_byte(at, _QUOTE)
    return at + 1
