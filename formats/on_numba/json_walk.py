"""Whole lines of JSON, compiled: values into their columns, lists into offsets."""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from lodcli.formats.on_numba.json_tokens import (
    STOP,
    left_out,
    number_at,
    past_blanks,
    same_bytes,
    skipped_text,
    text_at,
    word_at,
)
from lodcli.formats.on_numba.numbers import HARD, TENS, rounded

WHOLE, REAL, TRUTH, TEXT = range(4)
# Fields of a line that nobody wants.
_MOST_UNKNOWN = 64
_U = np.uint64
_SIGN = _U(1 << 63)
_EXACT = _U(1 << 53)


@nb.njit(cache=True)
def _real(w: Any, power: int) -> Any:
    """Return w * 10**power; or, where that is not 0, its bits, or HARD."""
    if w == _U(0):
        return 0.0, _U(0)
    if w <= _EXACT and -22 <= power <= 22:
        return float(w) * TENS[power] if power >= 0 else float(w) / TENS[-power], _U(0)
    return 0.0, rounded(w, power)


@nb.njit(cache=True)
def _value(
    data: Any, at: int, column: int, kind: int, depth: int, values: Any, floats: Any, letters: Any,
    offsets: Any, counts: Any, largest: Any, hard: Any, hards: int,
) -> Any:  # fmt: skip
    """Scan one value into its column; return where it ends, or STOP, and the hard numbers."""
    lists = depth - 1 if kind == TEXT else depth
    level = 0
    row = counts[depth]
    while True:
        at = past_blanks(data, at)
        if level < lists:
            if data[at] != 91:
                return STOP, hards
            level += 1
            at = past_blanks(data, at + 1)
            if data[at] != 93:
                continue
        elif kind == WHOLE:
            at, w, _, negative, whole, long = number_at(data, at)
            if at < 0 or not whole or long or w > _SIGN or (w == _SIGN and not negative):
                return STOP, hards
            values[row] = -np.int64(w) if negative else np.int64(w)
            row += 1
        elif kind == REAL:
            first = at
            at, w, power, negative, whole, long = number_at(data, at)
            if at < 0:
                return STOP, hards
            if whole:
                if long or w > _EXACT:
                    return STOP, hards
                largest[column] = max(largest[column], w)
                # -0 is a whole number, which has no sign.
                floats[row] = -float(w) if negative and w != _U(0) else float(w)
            else:
                real, bits = _real(w, power)
                if long or bits == HARD:
                    if hards == hard.shape[0]:
                        return STOP, hards
                    hard[hards] = column, row, first, at
                    hards += 1
                elif bits:
                    values[row] = np.int64(bits | _SIGN if negative else bits)
                else:
                    floats[row] = -real if negative else real
            row += 1
        elif kind == TRUTH:
            at, letter = word_at(data, at)
            if at < 0 or letter == 110:
                return STOP, hards
            letters[row] = letter == 116
            row += 1
        else:
            if data[at] != 34:
                return STOP, hards
            at, row = text_at(data, at + 1, letters, row)
            if at < 0:
                return STOP, hards
            counts[level] += 1
            offsets[level, counts[level]] = row
        counts[depth] = row
        while level:
            at = past_blanks(data, at)
            if data[at] != 93:
                break
            level -= 1
            at += 1
            counts[level] += 1
            offsets[level, counts[level]] = counts[level + 1]
        if not level:
            return at, hards
        if data[at] != 44:
            return STOP, hards
        at += 1


@nb.njit(cache=True)
def _object(
    data: Any, at: int, line: int, seen: Any, unknown: Any, kinds: Any, depths: Any, keys: Any,
    key_ends: Any, others: bool, values: Any, floats: Any, letters: Any, offsets: Any, counts: Any,
    largest: Any, hard: Any, hards: int,
) -> Any:  # fmt: skip
    """Scan an object, each field into its column; return where it ends, or STOP."""
    columns = kinds.size
    if data[at] != 123:
        return STOP, hards
    found = strangers = 0
    column = -1
    while True:
        start = past_blanks(data, at + 1) + 1
        if data[start - 1] != 34:
            return STOP, hards
        at, plain = skipped_text(data, start)
        if at < 0 or not plain:
            return STOP, hards
        stop = at - 1
        at = past_blanks(data, at)
        if data[at] != 58:
            return STOP, hards
        at += 1
        known = -1
        for step in range(columns):  # most lines have their fields in the same order
            tried = (column + 1 + step) % columns
            if same_bytes(data, start, stop, keys, key_ends[tried], key_ends[tried + 1]):
                known = tried
                break
        if known >= 0:
            column = known
            if seen[column] == line:
                return STOP, hards
            seen[column] = line
            found += 1
            at, hards = _value(
                data, at, column, kinds[column], depths[column], values[column], floats[column],
                letters[column], offsets[column], counts[column], largest, hard, hards,
            )  # fmt: skip
        else:
            if not others or strangers == _MOST_UNKNOWN:
                return STOP, hards
            for k in range(strangers):
                if same_bytes(data, start, stop, data, unknown[k, 0], unknown[k, 1]):
                    return STOP, hards
            unknown[strangers] = start, stop
            strangers += 1
            at = left_out(data, at)
        if at < 0:
            return STOP, hards
        at = past_blanks(data, at)
        if data[at] == 44:
            continue
        if data[at] != 125 or found != columns:
            return STOP, hards
        return at + 1, hards


@nb.njit(cache=True, nogil=True)
def scan_lines(
    data: Any, size: int, kinds: Any, depths: Any, keys: Any, key_ends: Any, objects: bool,
    others: bool, values: Any, floats: Any, letters: Any, offsets: Any, counts: Any, largest: Any,
    hard: Any,
) -> int:  # fmt: skip
    """Scan all lines; return how many hard numbers they have, or STOP."""
    columns = kinds.size
    for column in range(columns):
        for level in range(depths[column]):
            offsets[column, level, 0] = 0
    seen = np.full(columns, -1, np.int64)
    unknown = np.empty((_MOST_UNKNOWN, 2), np.int64)
    at = hards = 0
    line = 0
    while at < size:
        if not objects:
            at, hards = _value(
                data, at, 0, kinds[0], depths[0], values[0], floats[0], letters[0], offsets[0],
                counts[0], largest, hard, hards,
            )  # fmt: skip
        else:
            at, hards = _object(
                data, past_blanks(data, at), line, seen, unknown, kinds, depths, keys, key_ends,
                others, values, floats, letters, offsets, counts, largest, hard, hards,
            )  # fmt: skip
        if at < 0:
            return STOP
        at = past_blanks(data, at)
        if at < size:
            if data[at] != 10:
                return STOP
            at += 1
        line += 1
    return hards
