"""Times rounded down to days, hours, months and other steps."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS, number_of
from lodcli.kernels.tensor.marks import Times

# Weeks begin on Mondays: 1970-01-05 is the first after 1970-01-01.
_MONDAY, _WEEK = 4, 7
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}
_MONTHS = re.compile("P([0-9]{1,4})([MY])", re.ASCII)


def date_of(times: Times) -> Callable[[Array], Array]:
    """Return a function of times of this unit: their days since 1970, in UTC."""
    day = _per_day(times)
    return lambda numbers: numbers // day


def clock_of(times: Times) -> Callable[[Array], Array]:
    """Return a function of times of this unit: the times since midnight, in UTC."""
    day = _per_day(times)
    return lambda numbers: numbers % day


def part_of(name: str, times: Times) -> Callable[[Array], Array]:
    """Return a function of times of this unit: such as the year, in UTC, as whole numbers.

    Months and days are counted from 1, and weekdays from 0 on Mondays, as in Python.

    >>> part_of("weekday", Times("date", "D"))(np.array([0, 4, -4])).tolist()
    [3, 0, 6]
    >>> part_of("month", Times("date", "D"))(np.array([0, 31, -1])).tolist()
    [1, 2, 12]
    >>> part_of("hour", Times("timestamp", "s"))(np.array([7300, -1])).tolist()
    [2, 23]
    """
    if name in _SECONDS:
        count = _SECONDS[name] * (NANOSECONDS["s"] // NANOSECONDS[times.unit])
        return lambda numbers: numbers // count % (24 if name == "hour" else 60)
    day = _per_day(times)
    if name == "weekday":
        return lambda numbers: (numbers // day % _WEEK - _MONDAY) % _WEEK
    if name == "day":
        return lambda numbers: numbers // day - _first_of(numbers // day, 1) + 1
    if name == "year":
        return lambda numbers: _month_of(numbers // day) // 12
    return lambda numbers: _month_of(numbers // day) % 12 + 1


def floor_to(step: str, times: Times) -> Callable[[Array], Array]:
    """Return a function that rounds times of this unit down to a multiple of a duration.

    Multiples are counted from 1970-01-01, from midnight or from 0; those of weeks from a Monday.
    Of moments the step may also be of months or years, such as "P1M", "P3M" or "P1Y".

    Raises:
        InvalidDataError: the text is no duration, or no whole number of the unit; the function: a
            result does not fit 64 bits.

    >>> floor_to("PT1H", Times("timestamp", "s"))(np.array([7300, -1])).tolist()
    [7200, -3600]
    >>> floor_to("P1M", Times("date", "D"))(np.array([30, 31, -1])).tolist()
    [0, 31, -31]
    """
    day = _per_day(times) if times.kind in ("date", "timestamp") else 0
    months = _MONTHS.fullmatch(step) if day else None
    count = 1 if months else number_of(step, Times("duration", times.unit))
    whole = count % day == 0 if times.kind == "date" else True
    if count <= 0 or (months and not int(months[1])) or not (whole or months):
        example = "'P1D', 'P1W' or 'P1M'" if day else "'PT1H' or 'PT15M'"
        raise InvalidDataError(f"expected a duration such as {example}, found {step!r}")
    origin = _MONDAY * day % count if day and count % (_WEEK * day) == 0 else 0

    def floored(numbers: Array) -> Array:
        found: Array
        if months:
            several = int(months[1]) * (12 if months[2] == "Y" else 1)
            days = numbers // day
            found = numbers - numbers % day - (days - _first_of(days, several)) * day
        else:
            # Not (numbers - origin) // count: the difference may not fit 64 bits.
            found = numbers - (numbers % count - origin) % count
        if (found > numbers).any():
            raise InvalidDataError("a time does not fit 64 bits")
        return found

    return floored


def _per_day(times: Times) -> int:
    return NANOSECONDS["D"] // NANOSECONDS[times.unit]


def _first_of(days: Array, months: int) -> Array:
    """Return the first day of the month, or of the several months, that each day is in.

    Both are days since 1970-01-01, and the months are counted from a January.

    References:
        Howard Hinnant, chrono-compatible low-level date algorithms: years begin in March, in
        eras of 400 years.
    """
    number = _month_of(days) // months * months
    year, month = np.divmod(number - 2, 12)
    era, year = np.divmod(year, 400)
    first: Array = era * 146_097 + 365 * year + year // 4 - year // 100 + (153 * month + 2) // 5
    return first - 719_468


def _month_of(days: Array) -> Array:
    """Return the number of the month that each day is in, from January of the year 0 on.

    Args:
        days: since 1970-01-01; see `_first_of`.
    """
    era, day = np.divmod(days, 146_097)
    more, day = np.divmod(day + 719_468, 146_097)  # not days + 719_468, which may overflow
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day = day - (365 * year + year // 4 - year // 100)
    found: Array = ((era + more) * 400 + year) * 12 + (5 * day + 2) // 153 + 2
    return found
