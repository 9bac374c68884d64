"""Kernel that writes records: fields of columns, with fixed bytes before, between and after them.

Values are read by their addresses, so that one compiled version serves all dtypes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.formats.text.digits_numba import (
    put_digits,
    put_float32,
    put_float64,
    put_signed,
    put_truth,
)
from lodcli.formats.text.record_fields import (
    BOOL,
    CSV_TEXT,
    DECIMAL,
    FLOAT32,
    FLOAT64,
    INT64,
    JSON_TEXT,
    LIST,
    TIME,
    UINT64,
)
from lodcli.formats.text.strings_numba import put_bytes, put_csv_text, put_json_text
from lodcli.formats.text.words_numba import (
    byte_at,
    four_at,
    int_at,
    put_byte,
    put_four,
    real_at,
    single_at,
)
from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import address, function

_U = np.uint64
_DAY_SECONDS = 86400
_TENS = np.array([10**n for n in range(19)], np.uint64)
_INF, _NAN = np.frombuffer(b"inf\0nan\0", np.uint32)
_MINUS, _POINT, _ZERO, _COLON, _T, _Z, _OPEN, _CLOSE = 45, 46, 48, 58, 84, 90, 91, 93


class Fields(NamedTuple):
    """Columns of fields.

    Attributes:
        kinds: (C,), of the values.
        data: (C,), the address of the values; of texts, of their bytes.
        places: (C,), the address of the offsets of texts; else 0.
        valid: (C,), the address of bytes that are 0 where a value is null; 0 if none is.
        large: (C,), floats from this on are written with an exponent.
        detail: (C,), see `record_fields.Field`.
        fixed: the bytes before each field, those after the last one, and those of a null.
        bounds: (C + 3,), the offsets of these in `fixed`.
        columns: their number.
    """

    kinds: Pointer[np.int64]
    data: Pointer[np.int64]
    places: Pointer[np.int64]
    valid: Pointer[np.int64]
    large: Pointer[np.float64]
    detail: Pointer[np.int64]
    fixed: Pointer[np.uint8]
    bounds: Pointer[np.int64]
    columns: int


@kernel()
def put_records(
    fields: Fields, ends: Pointer[np.int64], row_from: int, row_to: int, out: int
) -> int:
    """Write records to an address; return how many bytes they take.

    Args:
        ends: (row_to - row_from,), set to the bytes up to the end of each record.
    """
    at, count, fixed = out, fields.columns, address(fields.fixed)
    for row in range(row_from, row_to):
        for column in range(count + 1):
            at = put_bytes(fixed + fields.bounds[column], fixed + fields.bounds[column + 1], at)
            if column == count:
                break
            valid = fields.valid[column]
            if valid != 0 and byte_at(valid + row) == 0:
                begin = fields.bounds[count + 1]
                at = put_bytes(fixed + begin, fixed + fields.bounds[count + 2], at)
            else:
                at = _put_field(
                    fields.kinds[column], fields.data[column], fields.places[column],
                    fields.large[column], fields.detail[column], row, at,
                )  # fmt: skip
        ends[row - row_from] = at - out
    return at - out


@function()
def _put_field(
    kind: int, data: int, places: int, large: float, detail: int, row: int, at: int
) -> Any:
    if kind == INT64:
        return put_signed(int_at(data + 8 * row), at)
    if kind == FLOAT64:
        bits = _U(int_at(data + 8 * row))
        if bits >> _U(52) & _U(0x7FF) == _U(0x7FF):
            return _put_special(bits << _U(12) != _U(0), bits >> _U(63) != _U(0), at)
        return put_float64(bits, real_at(data + 8 * row), large, at)
    if kind == FLOAT32:
        half = _U(four_at(data + 4 * row))
        if half >> _U(23) & _U(0xFF) == _U(0xFF):
            return _put_special(half << _U(41) != _U(0), half >> _U(31) != _U(0), at)
        return put_float32(half, single_at(data + 4 * row), large, at)
    if kind == BOOL:
        return put_truth(byte_at(data + row), at)
    if kind == UINT64:
        return put_digits(_U(int_at(data + 8 * row)), at)
    if kind == DECIMAL:
        return _put_decimal(int_at(data + 8 * row), detail, at)
    if kind == TIME:
        return _put_time(int_at(data + 8 * row), detail, at)
    begin, end = data + int_at(places + 8 * row), data + int_at(places + 8 * row + 8)
    if kind == CSV_TEXT:
        return put_csv_text(begin, end, detail, at)
    if kind == JSON_TEXT:
        return put_json_text(begin, end, at)
    if kind == LIST:
        put_byte(at, _OPEN)
        at = put_bytes(begin, max(begin, end - detail), at + 1)
        put_byte(at, _CLOSE)
        return at + 1
    return put_bytes(begin, max(begin, end - detail), at)


@function()
def _put_special(is_nan: bool, is_negative: bool, at: int) -> int:
    """Write nan, inf or -inf."""
    if is_nan:
        put_four(at, _NAN)
        return at + 3
    if is_negative:
        put_byte(at, _MINUS)
        at += 1
    put_four(at, _INF)
    return at + 3


@function()
def _put_padded(w: Any, digits: int, at: int) -> int:
    """Write a number as so many digits, zero-padded."""
    left = _U(w)
    for place in range(at + digits - 1, at - 1, -1):
        put_byte(place, _ZERO + np.int64(left % _U(10)))
        left //= _U(10)
    return at + digits


@function()
def _put_decimal(value: int, scale: int, at: int) -> Any:
    """Write value / 10**scale with all its digits."""
    w = _U(value)
    if value < 0:
        put_byte(at, _MINUS)
        at += 1
        w = _U(0) - w
    if scale == 0:
        return put_digits(w, at)
    whole = w // _TENS[scale]
    at = put_digits(whole, at)
    put_byte(at, _POINT)
    return _put_padded(w - whole * _TENS[scale], scale, at + 1)


@function()
def _put_time(value: int, detail: int, at: int) -> Any:
    """Write a date, a time of day or both as in ISO 8601, of the years 1 to 9999.

    References:
        Hinnant, chrono-compatible low-level date algorithms, `civil_from_days`.
    """
    digits, quote = detail & 15, detail >> 7 & 1
    has_date, has_time, has_zone = detail >> 4 & 1, detail >> 5 & 1, detail >> 6 & 1
    per_second = np.int64(_TENS[digits])
    per_day = _DAY_SECONDS * per_second if has_time or digits else 1
    days = value // per_day
    rest = value - days * per_day
    if quote:
        put_byte(at, 34)
        at += 1
    if has_date:
        shifted = days + 719468
        era = shifted // 146097
        day = shifted - era * 146097
        year = (day - day // 1460 + day // 36524 - day // 146096) // 365
        in_year = day - (365 * year + year // 4 - year // 100)
        month = (5 * in_year + 2) // 153
        of_month = in_year - (153 * month + 2) // 5 + 1
        month += 3 if month < 10 else -9
        at = _put_padded(year + 400 * era + (month <= 2), 4, at)
        put_byte(at, _MINUS)
        at = _put_padded(month, 2, at + 1)
        put_byte(at, _MINUS)
        at = _put_padded(of_month, 2, at + 1)
    if has_time:
        if has_date:
            put_byte(at, _T)
            at += 1
        seconds = rest // per_second
        at = _put_padded(seconds // 3600, 2, at)
        put_byte(at, _COLON)
        at = _put_padded(seconds // 60 % 60, 2, at + 1)
        put_byte(at, _COLON)
        at = _put_padded(seconds % 60, 2, at + 1)
        if digits:
            put_byte(at, _POINT)
            at = _put_padded(rest - seconds * per_second, digits, at + 1)
    if has_zone:
        put_byte(at, _Z)
        at += 1
    if quote:
        put_byte(at, 34)
        at += 1
    return at
