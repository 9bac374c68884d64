"""Compiled parser of whole JSON lines: values into columns, lists into offsets.

All memory is passed by address: numba counts references to arrays at every call, which takes
longer than a number does. A column has `room` words of eight bytes for its rows, and for the
offsets of each level; the offsets of its levels are consecutive, and so are its counts.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.json.scanner.numbers_numba import HARD, TENS, rounded
from lodcli.formats.json.scanner.tokens_numba import (
    STOP,
    left_out,
    number_at,
    past_blanks,
    same_bytes,
    skipped_text,
    text_at,
    whole_at,
    word_at,
)
from lodcli.formats.json.words_numba import byte_at, int_at, put_byte, put_int, put_real
from lodcli.kernels.runtime.jit_numba import numba

WHOLE, REAL, TRUTH, TEXT = range(4)
# Maximum number of unknown fields of a line.
MOST_UNKNOWN = 64
# Words that describe a hard number: its column, its row, its start and its end.
HARD_INTS = 4
_U = np.uint64
_SIGN = _U(1 << 63)
_EXACT = _U(1 << 53)


@numba.njit(cache=True)
def _real(w: Any, power: int) -> Any:
    """Return w * 10**power, and 0; or, if that may be inexact, 0.0, and its bits or HARD."""
    if w == _U(0):
        return 0.0, _U(0)
    if w <= _EXACT and -22 <= power <= 22:
        return float(w) * TENS[power] if power >= 0 else float(w) / TENS[-power], _U(0)
    return 0.0, rounded(w, power)


@numba.njit(cache=True)
def _wholes(at: int, rows: int, row: int, many: bool) -> Any:
    """Scan an integer or, if `many`, several with commas between them."""
    while True:
        at, value = whole_at(at)
        if at < 0:
            return STOP, row
        put_int(rows + 8 * row, value)
        row += 1
        if not many:
            return at, row
        at = past_blanks(at)
        if byte_at(at) != 44:
            return at, row
        at = past_blanks(at + 1)


@numba.njit(cache=True)
def _reals(
    at: int, rows: int, row: int, many: bool, column: int, largest: int, hard: int, room: int,
    hards: int,
) -> Any:  # fmt: skip
    """Scan a real number or, if `many`, several with commas between them."""
    most = _U(int_at(largest + 8 * column))
    while True:
        first = at
        at, w, power, negative, whole, long = number_at(at)
        if at < 0:
            return STOP, row, hards
        if whole:
            if long or w > _EXACT:
                return STOP, row, hards
            most = max(most, w)
            # -0 is written as an integer, which has no negative zero.
            put_real(rows + 8 * row, -float(w) if negative and w != _U(0) else float(w))
        else:
            real, bits = _real(w, power)
            if long or bits == HARD:
                if hards == room:
                    return STOP, row, hards
                place = hard + 8 * HARD_INTS * hards
                put_int(place, column)
                put_int(place + 8, row)
                put_int(place + 16, first)
                put_int(place + 24, at)
                hards += 1
            elif bits:
                put_int(rows + 8 * row, np.int64(bits | _SIGN if negative else bits))
            else:
                put_real(rows + 8 * row, -real if negative else real)
        row += 1
        at = past_blanks(at) if many else at
        if not many or byte_at(at) != 44:
            put_int(largest + 8 * column, np.int64(most))
            return at, row, hards
        at = past_blanks(at + 1)


@numba.njit(cache=True)
def _value(
    at: int, column: int, kind: int, depth: int, rows: int, offsets: int, room: int, counts: int,
    largest: int, hard: int, hard_room: int, hards: int,
) -> Any:  # fmt: skip
    """Scan a value into its column; return its end (or STOP), and how many numbers are hard."""
    lists = depth - 1 if kind == TEXT else depth
    level = 0
    row = int_at(counts + 8 * depth)
    while True:
        at = past_blanks(at)
        if level < lists:
            if byte_at(at) != 91:
                return STOP, hards
            level += 1
            at = past_blanks(at + 1)
            if byte_at(at) != 93:
                continue
        elif kind == WHOLE:
            at, row = _wholes(at, rows, row, level > 0)
        elif kind == REAL:
            at, row, hards = _reals(
                at, rows, row, level > 0, column, largest, hard, hard_room, hards
            )
        elif kind == TRUTH:
            at, letter = word_at(at)
            if letter == 110:
                return STOP, hards
            put_byte(rows + row, letter == 116)
            row += 1
        else:
            if byte_at(at) != 34:
                return STOP, hards
            at, row = text_at(at + 1, rows, row)
            _close(counts, offsets, room, level, row)
        if at < 0:
            return STOP, hards
        put_int(counts + 8 * depth, row)
        while level:
            at = past_blanks(at)
            if byte_at(at) != 93:
                break
            level -= 1
            at += 1
            _close(counts, offsets, room, level, int_at(counts + 8 * (level + 1)))
        if not level:
            return at, hards
        if byte_at(at) != 44:
            return STOP, hards
        at += 1


@numba.njit(cache=True)
def _close(counts: int, offsets: int, room: int, level: int, end: int) -> None:
    """Append the end offset of an item of a level."""
    count = int_at(counts + 8 * level) + 1
    put_int(counts + 8 * level, count)
    put_int(offsets + 8 * (level * room + count), end)


@numba.njit(cache=True)
def _object(
    at: int, line: int, seen: int, unknown: int, columns: int, kinds: int, depths: int, keys: int,
    key_ends: int, others: bool, values: int, offsets: int, levels: int, room: int, counts: int,
    largest: int, hard: int, hard_room: int, hards: int,
) -> Any:  # fmt: skip
    """Scan an object into its columns; return its end (or STOP), and how many numbers are hard."""
    if byte_at(at) != 123:
        return STOP, hards
    found = strangers = 0
    column = -1
    while True:
        start = past_blanks(at + 1) + 1
        if byte_at(start - 1) != 34:
            return STOP, hards
        at, plain = skipped_text(start)
        if at < 0 or not plain:
            return STOP, hards
        stop = at - 1
        at = past_blanks(at)
        if byte_at(at) != 58:
            return STOP, hards
        at += 1
        known = -1
        tried = column
        for _ in range(columns):  # most lines have their fields in the same order
            tried = tried + 1 if tried + 1 < columns else 0
            ends = key_ends + 8 * tried
            if same_bytes(start, stop, keys + int_at(ends), keys + int_at(ends + 8)):
                known = tried
                break
        if known >= 0:
            column = known
            if int_at(seen + 8 * column) == line:
                return STOP, hards
            put_int(seen + 8 * column, line)
            found += 1
            at, hards = _value(
                at, column, int_at(kinds + 8 * column), int_at(depths + 8 * column),
                values + 8 * column * room, offsets + 8 * column * levels * room, room,
                counts + 8 * column * levels, largest, hard, hard_room, hards,
            )  # fmt: skip
        else:
            if not others or strangers == MOST_UNKNOWN:
                return STOP, hards
            for k in range(strangers):
                place = unknown + 16 * k
                if same_bytes(start, stop, int_at(place), int_at(place + 8)):
                    return STOP, hards
            put_int(unknown + 16 * strangers, start)
            put_int(unknown + 16 * strangers + 8, stop)
            strangers += 1
            at = left_out(at)
        if at < 0:
            return STOP, hards
        at = past_blanks(at)
        if byte_at(at) == 44:
            continue
        if byte_at(at) != 125 or found != columns:
            return STOP, hards
        return at + 1, hards
