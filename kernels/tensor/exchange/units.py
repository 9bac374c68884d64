"""Whole numbers with a unit as text, and as Python's dates, times, decimals and words."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.marks import Categories, Decimals, Times, Unit

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# NumPy's NaT. In a column it is a valid time, since nulls have a mask.
_LEAST = -(2**63)
_EXACT = decimal.Context(prec=200)


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
        return [_duration(value, _PER_SECOND[unit.unit]) for value in values.tolist()]
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
    period = 146097 * (24 * 3600 * _PER_SECOND[unit.unit] if unit.unit in _PER_SECOND else 1)
    later: str = np.array([_LEAST + period]).view(f"M8[{unit.unit}]").astype(str).tolist()[0]
    sign, digits = ("-", later[1:]) if later.startswith("-") else ("", later)
    year, rest = digits.split("-", 1)
    return f"{int(sign + year) - 400}-{rest}"


def _duration(value: int, per_second: int) -> str:
    seconds, rest = divmod(abs(value), per_second)
    digits = len(str(per_second)) - 1
    part = f".{rest:0{digits}}" if digits else ""
    return f"{'-' if value < 0 else ''}PT{seconds}{part}S"
