"""Whole numbers with a unit as text, and as Python's dates, times, decimals and words; and back."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS, number_of
from lodcli.kernels.tensor.marks import (
    TIME_UNITS,
    Categories,
    Decimals,
    TimeKind,
    Times,
    Unit,
    check_codes,
)

# NumPy's NaT. In a column it is a valid time, since nulls have a mask.
_LEAST = -(2**63)
_EXACT = decimal.Context(prec=200)
_MICROSECOND = datetime.timedelta(microseconds=1)
_EPOCH = datetime.datetime(1970, 1, 1)
_UNITS = {
    datetime.date: Times("date", "D"),
    datetime.datetime: Times("timestamp", "us"),
    datetime.time: Times("time", "us"),
    datetime.timedelta: Times("duration", "us"),
}
# The types of single times and decimals.
OBJECTS = (*_UNITS, decimal.Decimal, np.datetime64, np.timedelta64)
_TEXT_OR_OBJECT = (*OBJECTS, str, bytes)
_NO_NUMBER = (*_TEXT_OR_OBJECT, list, tuple, np.ndarray, type(None))
# By the kind of a dtype: units of NumPy that no tensor has, and units that hold the same times.
_FINER = {"M": {**dict.fromkeys("YMW", "D"), "h": "s", "m": "s"}, "m": dict.fromkeys("WDhm", "s")}


def texts(values: Array, unit: Unit) -> list[str]:
    """Return flat values as text: times as in ISO 8601, decimals in digits, words in quotes.

    >>> import numpy as np
    >>> from lodcli.kernels.tensor.marks import Times
    >>> texts(np.array([0, 1500]), Times("timestamp", "ms", "UTC"))
    ['1970-01-01T00:00:00.000Z', '1970-01-01T00:00:01.500Z']
    >>> texts(np.array([-1500, 60000]), Times("duration", "ms"))
    ['-PT1.500S', 'PT60.000S']
    >>> texts(np.array([12345, -5, 0]), Decimals(5, 2))
    ['123.45', '-0.05', '0.00']
    """
    if isinstance(unit, Categories):
        return list(map(repr, objects(values, unit)))
    if isinstance(unit, Decimals):
        return [f"{one:f}" for one in objects(values, unit)]
    if unit.kind == "duration":
        per_second = NANOSECONDS["s"] // NANOSECONDS[unit.unit]
        return [_duration(value, per_second) for value in values.tolist()]
    found: list[str] = values.view(f"M8[{unit.unit}]").astype(str).tolist()
    for place in _least(values):
        found[place] = _least_text(unit)
    if unit.kind == "time":
        return [one.partition("T")[2] for one in found]
    if unit.kind == "date":
        return [one.removesuffix("T00:00:00.000") for one in found]
    return found if unit.zone is None else [f"{one}Z" for one in found]


def objects(values: Array, unit: Unit) -> list[Any]:
    """Return flat values as Python objects; nanoseconds as NumPy's datetime64 and timedelta64.

    Some values stay numbers: a time beyond Python's range, such as the year 10,000, a time of
    -2^63, which is NumPy's NaT, and a code that no word has.
    """
    if isinstance(unit, Categories):
        words = dict(enumerate(unit.words))
        return [words.get(code, code) for code in values.tolist()]
    if isinstance(unit, Decimals):
        return [decimal.Decimal(one).scaleb(-unit.scale, _EXACT) for one in values.tolist()]
    found = _times(values, unit)
    for place in _least(values):
        found[place] = _LEAST
    return found


def _times(values: Array, unit: Times) -> list[Any]:
    spans, times = values.view(f"m8[{unit.unit}]"), values.view(f"M8[{unit.unit}]")
    if unit.unit == "ns":
        return list(times if unit.kind == "timestamp" else spans)
    found: list[Any] = (spans if unit.kind == "duration" else times).tolist()
    moment = datetime.datetime
    if unit.kind == "date":
        return [one.date() if isinstance(one, moment) else one for one in found]
    if unit.kind == "time":
        return [one.time() if isinstance(one, moment) else one for one in found]
    if unit.zone is not None and unit.kind == "timestamp":
        utc = datetime.UTC
        return [one.replace(tzinfo=utc) if isinstance(one, moment) else one for one in found]
    return found


def _least(values: Array) -> list[int]:
    """Return where the value is that NumPy takes for no time (NaT)."""
    places: list[int] = (values == _LEAST).nonzero()[0].tolist()
    return places


def _least_text(unit: Times) -> str:
    """Return -2^63 as a time: as 400 years later, when the calendar is the same."""
    period = 146097 * NANOSECONDS["D"] // NANOSECONDS[unit.unit]
    later: str = np.array([_LEAST + period]).view(f"M8[{unit.unit}]").astype(str).tolist()[0]
    sign, digits = ("-", later[1:]) if later.startswith("-") else ("", later)
    year, rest = digits.split("-", 1)
    return f"{int(sign + year) - 400}-{rest}"


def _duration(value: int, per_second: int) -> str:
    seconds, rest = divmod(abs(value), per_second)
    digits = len(str(per_second)) - 1
    part = f".{rest:0{digits}}" if digits else ""
    return f"{'-' if value < 0 else ''}PT{seconds}{part}S"


def integers(values: list[Any]) -> tuple[Array, Unit] | None:
    """Return Python's dates, times or decimals as int64 and their unit; None for other values.

    Args:
        values: at least one, all of one type; or nested lists of them, of equal lengths.

    Raises:
        InvalidDataError: several types, decimals beyond 64 bits, or times with and without zone.

    >>> integers([decimal.Decimal("1.5"), decimal.Decimal("20")])
    (array([ 15, 200]), Decimals(precision=3, scale=1, bits=128))
    """
    boxed = np.array(values, object)
    flat: list[Any] = boxed.reshape(-1).tolist()
    kinds = list(dict.fromkeys(map(type, flat)))
    if all(hasattr(kind, "asm8") for kind in kinds):
        counts, times = _of_pandas(flat)
        return counts.reshape(boxed.shape), times
    if not {*kinds} & {*_UNITS, decimal.Decimal}:
        return None
    if len(kinds) > 1:
        raise InvalidDataError(
            f"values: expected {kinds[0].__name__}, as before, found {kinds[1].__name__}"
        )
    numbers, unit = _digits(flat) if kinds[0] is decimal.Decimal else _counts(flat)
    try:
        return np.array(numbers, np.int64).reshape(boxed.shape), unit
    except OverflowError:
        raise InvalidDataError(f"values: {unit} is beyond the 64 bits of a tensor") from None


def _counts(values: list[Any]) -> tuple[list[int], Times]:
    kind, unit = type(values[0]), _UNITS[type(values[0])]
    if kind is datetime.date:
        return [one.toordinal() - _EPOCH.toordinal() for one in values], unit
    if kind is datetime.timedelta:
        return [one // _MICROSECOND for one in values], unit
    zoned = {one.tzinfo is not None for one in values}
    if len(zoned) > 1 or (True in zoned and kind is datetime.time):
        raise InvalidDataError(
            f"values: expected a {kind.__name__} without a zone, found one with it; "
            ".replace(tzinfo=None) drops it"
        )
    if True in zoned:
        unit = Times("timestamp", "us", "UTC")
        values = [one.astimezone(datetime.UTC).replace(tzinfo=None) for one in values]
    if kind is datetime.time:
        values = [datetime.datetime.combine(_EPOCH, one) for one in values]
    return [(one - _EPOCH) // _MICROSECOND for one in values], unit


def _of_pandas(values: list[Any]) -> tuple[Array, Times]:
    """Return Timestamps or Timedeltas as int64 and their unit, that of the finest."""
    zoned = {one.tzinfo is not None for one in values if hasattr(one, "tzinfo")}
    times = [one.asm8 for one in values]
    if len(zoned) > 1 or len({one.dtype.kind for one in times}) > 1:
        raise InvalidDataError("values: expected times of one type, all with or without a zone")
    counts, unit = of_numpy(np.array(times))
    return counts, dataclasses.replace(unit, zone="UTC") if True in zoned else unit


def in_unit(value: Any, unit: Unit | None) -> Any:
    """Return the whole number that stands for a time, a decimal or a word; others as they are.

    So are all values without a unit. Times may be text of ISO 8601, in UTC unless it has a zone.

    Raises:
        InvalidDataError: a time of another kind, one that is no whole number of the unit, a word
            of no category, or a code that has no word.

    >>> in_unit(1.5, Decimals(6, 2)), in_unit("1970-01-02", Times("timestamp", "s"))
    (150, 86400)
    """
    if unit is None:
        return value
    if isinstance(unit, Categories):
        code = unit.code_of(value) if isinstance(value, str) else value
        if isinstance(code, int | float | np.number) and not 0 <= code < len(unit.words):
            raise InvalidDataError(f"{value} is the code of no word of a {unit}")
        return code
    if isinstance(value, str) and isinstance(unit, Times):
        return number_of(value, unit)
    if isinstance(value, np.generic) and value.dtype.kind in "iuf":
        value = value.item()
    if isinstance(unit, Decimals):
        if not isinstance(value, int | float | decimal.Decimal):
            return value
        exact = decimal.Decimal(repr(value) if isinstance(value, float) else value)
        digits = exact.scaleb(unit.scale, _EXACT) if exact.is_finite() else None
        if digits is None or digits != int(digits) or abs(digits) >= 10**unit.precision:
            raise InvalidDataError(f"{value} is not a {unit}")
        return int(digits)
    is_numpy = isinstance(value, np.datetime64 | np.timedelta64)
    found = of_numpy(np.array([value])) if is_numpy else integers([value])
    if found is None or not isinstance(found[1], Times):
        return value
    own = found[1]
    count, rest = divmod(int(found[0][0]) * NANOSECONDS[own.unit], NANOSECONDS[unit.unit])
    alike = own.kind == unit.kind or (own.kind, unit.kind) == ("date", "timestamp")
    if rest or not alike or (own.kind == unit.kind and (own.zone is None) != (unit.zone is None)):
        raise InvalidDataError(f"{value} is not a {unit}")
    return count


def as_stored(value: Any, unit: Unit | None) -> Any:
    """Return the numbers that stand for a time, decimal or word, or for arrays or lists of them.

    Numbers are returned as they are.

    Raises:
        InvalidDataError: not a value of the unit, a fraction, or a code that has no word; None or
            NaT; a list that contains itself; without a unit, text or a time.

    >>> as_stored(decimal.Decimal("1.5"), Decimals(6, 2)), as_stored(7, Decimals(6, 2))
    (150, 7)
    """
    if unit is None:
        return _number(value)
    if _is_missing(value):
        raise _missing(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OMmU":
        value = list(value) if value.ndim else value[()]
    if isinstance(value, list | tuple) and any(
        issubclass(of, _NO_NUMBER) for of in set(map(type, value))
    ):
        try:
            return [as_stored(one, unit) for one in value]
        except RecursionError:
            what = "value: its lists are nested too deeply, or one contains itself"
            raise InvalidDataError(what) from None
    if isinstance(value, _TEXT_OR_OBJECT):
        number = in_unit(value, unit)
        if isinstance(number, _TEXT_OR_OBJECT):
            raise InvalidDataError(f"{value} is not a {unit}")
        return number
    counts = np.atleast_1d(value)
    if counts.dtype.kind == "f" and (rest := counts != np.trunc(counts)).any():
        raise InvalidDataError(f"expected whole numbers for a {unit}, found {counts[rest][0]}")
    if isinstance(unit, Categories) and counts.dtype.kind in "iu":
        check_codes(counts, LoD(), unit, None)
    return value


def _number(value: Any) -> Any:
    """Return a value for rows without a unit. Raises InvalidDataError: None, a time or text.

    NumPy would set nan for None, the count of a time, and the number that a text spells.
    """
    if isinstance(value, list | tuple):
        try:
            value = np.asarray(value)
        except ValueError:  # lists of several lengths, which the assignment explains
            return value
    if _is_missing(value):
        raise _missing(value)
    if isinstance(value, np.ndarray) and value.dtype.kind == "O":
        for one in value.flat:
            _number(one)
    elif isinstance(value, _TEXT_OR_OBJECT) and not isinstance(value, decimal.Decimal):
        raise InvalidDataError(f"value: expected numbers, found {value!r}")
    elif isinstance(value, np.ndarray) and value.dtype.kind in "MmUS":
        raise InvalidDataError(f"value: expected numbers, found {value.dtype}")
    return value


def _is_missing(value: Any) -> bool:
    """Return whether a value is None or NaT, of NumPy or pandas, or is masked."""
    if isinstance(value, np.ma.MaskedArray):
        return np.ma.is_masked(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    return value is None or type(value).__name__ == "NaTType"


def _missing(value: Any) -> InvalidDataError:
    null = "a masked value" if isinstance(value, np.ma.MaskedArray) else value
    return InvalidDataError(
        f"value: {null} is a null, which cannot be set; make a tensor with nulls, as "
        "LoDTensor.from_lists([[1, None]])"
    )


def _digits(values: list[decimal.Decimal]) -> tuple[list[int], Decimals]:
    for one in values:
        if not one.is_finite():
            raise InvalidDataError(f"values: expected a finite decimal, found {one}")
    scale = max(0, *(-int(one.as_tuple().exponent) for one in values))
    numbers = [int(one.scaleb(scale, _EXACT)) for one in values]
    return numbers, Decimals(max(scale, *(len(str(abs(one))) for one in numbers)), scale)


def of_numpy(times: Array) -> tuple[Array, Times]:
    """Return datetime64 or timedelta64 as int64 and their unit; days and longer are dates.

    Raises:
        InvalidDataError: NaT, or a unit that no tensor has.
    """
    letter, unit = times.dtype.kind, np.datetime_data(times.dtype)[0]
    unit = _FINER[letter].get(unit, unit)
    kind: TimeKind = "duration" if letter == "m" else "date" if unit == "D" else "timestamp"
    if unit not in TIME_UNITS[kind]:
        raise InvalidDataError(f"values: expected times in s, ms, us or ns, found {times.dtype}")
    if np.isnat(times).any():
        raise InvalidDataError("values: found NaT; give None for a missing time")
    return times.astype(f"{letter}8[{unit}]").view(np.int64), Times(kind, unit)
