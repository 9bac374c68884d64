"""Attributes of arrays in netCDF that change values, or make times of them (CF)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from lodcli.formats.core.names import is_plain, shown
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.options import by_reader, option

# "true" or "false": read integers as unsigned, or as signed.
UNSIGNED = "_Unsigned"
# Scales, the sign, and missing values.
CONVENTIONS = ("scale_factor", "add_offset", UNSIGNED, "_FillValue", "missing_value")
# Of times: "hours since 1900-01-01", and the calendar.
UNITS, CALENDAR = "units", "calendar"
# Of the index of an indexed ragged array.
INSTANCES = "instance_dimension"
_SINCE = re.compile(r"\s*([a-z]+)\s+since\s+(.*\S)\s*", re.IGNORECASE)
_DAY = re.compile(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[t\s]\s*(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.0*)?)?)?)?"
    r"\s*(?:z|utc|gmt|[+-]0?0(?::?00)?)?",
    re.IGNORECASE,
)
# Units of times, without the "s" of several: the unit of a timestamp, and how many of it.
_TIME_UNITS = {
    **dict.fromkeys(("d", "day"), ("s", 86400)),
    **dict.fromkeys(("h", "hr", "hour"), ("s", 3600)),
    **dict.fromkeys(("min", "minute"), ("s", 60)),
    **dict.fromkeys(("s", "sec", "second"), ("s", 1)),
    **dict.fromkeys(("ms", "msec", "millisecond"), ("ms", 1)),
    **dict.fromkeys(("us", "microsecond"), ("us", 1)),
    **dict.fromkeys(("ns", "nanosecond"), ("ns", 1)),
}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Calendars whose days are those of datetime: the first two since 1582-10-15.
_STANDARD, _PROLEPTIC = ("standard", "gregorian"), "proleptic_gregorian"


def no_lengths(path: str) -> UnsupportedError:
    """Return the error about the index of an indexed ragged array."""
    return UnsupportedError(
        f"{path}: has the sequence of each row (an indexed ragged array of CF), not lengths or "
        f"offsets; read it and the rows with {option('data')}, lod merge them, and lod group by it"
    )


def changes_sign(unsigned: Any, dtype: np.dtype[Any]) -> bool:
    """Return whether the attribute UNSIGNED changes the signedness of integers.

    >>> changes_sign("true", np.dtype("i1")), changes_sign("true", np.dtype("u1"))
    (True, False)
    """
    return isinstance(unsigned, str) and (dtype.kind, unsigned.lower()) in (
        ("i", "true"),
        ("u", "false"),
    )


def time_note(
    attributes: Mapping[str, Any], dtype: np.dtype[Any], name: str, *, alone: bool
) -> str | None:
    """Return a note that numbers are times; None if not.

    It says how to make times of them if that is certain: of integers that nothing else changes.

    Args:
        attributes: of the array.
        dtype: of the numbers.
        name: of the tensor.
        alone: whether the numbers are all of the tensor, and have none of CONVENTIONS.

    >>> units = {"units": "seconds since 1970-01-01"}
    >>> print(time_note(units, np.dtype("i4"), "t", alone=True))
    values are as stored: 'seconds since 1970-01-01' not applied; t counts s since 1970
    >>> print(time_note(units, np.dtype("f4"), "t", alone=True))
    values are as stored: 'seconds since 1970-01-01' not applied
    """
    units, calendar = _text(attributes.get(UNITS)), _text(attributes.get(CALENDAR, _STANDARD[0]))
    since = _SINCE.fullmatch(units[:200]) if units else None
    if since is None or dtype.kind not in "iuf":
        return None
    told = f"values are as stored: {shown(units)} not applied"
    if calendar.lower() not in (*_STANDARD, _PROLEPTIC):
        return f"{told}, calendar {shown(calendar)}"
    counted = _counted(since[1].lower(), _start(since[2], calendar.lower()))
    if counted is None or not alone or dtype.kind == "f" or not is_plain(name):
        return told
    return f"{told}; {_conversion(name, dtype, *counted)}"


def _text(value: Any) -> str:
    """Return an attribute that is a text, or a list of one, as some programs store it; else ""."""
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value if isinstance(value, str) else ""


def _start(text: str, calendar: str) -> int | None:
    """Return the seconds from 1970 to a time; None if they are not certain."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    try:
        start = datetime(*(int(one or 0) for one in found.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None
    if calendar != _PROLEPTIC and start < datetime(1582, 10, 15):
        return None
    return (start - datetime(1970, 1, 1)) // timedelta(seconds=1)


def _counted(unit: str, start: int | None) -> tuple[str, int, int] | None:
    """Return what to multiply numbers by and then to add, to count days or another unit since 1970.

    Args:
        unit: of the numbers.
        start: see `_start`.

    Returns:
        The unit, the factor and the number to add; None if unknown, or out of 64 bits.

    >>> _counted("hours", 86400), _counted("days", 86400)
    (('s', 3600, 86400), ('days', 1, 1))
    """
    if len(unit) > 3 or unit == "hrs":
        unit = unit.removesuffix("s")
    if start is None or unit not in _TIME_UNITS:
        return None
    if unit in ("d", "day") and start % 86400 == 0:
        return "days", 1, start // 86400
    unit, scale = _TIME_UNITS[unit]
    first = start * _PER_SECOND[unit]
    return (unit, scale, first) if abs(first) < 2**63 else None


def _conversion(name: str, dtype: np.dtype[Any], unit: str, scale: int, first: int) -> str:
    """Return how to make times of the integers of a tensor; see `_counted`."""
    counted = name + (f" * {scale}" if scale > 1 else "")
    if first:
        counted += f" {'-' if first < 0 else '+'} {abs(first)}"
    python = f"{counted} counts {unit} since 1970"
    steps = [f"lod cast '{name}={'date' if unit == 'days' else f'timestamp[{unit}]'}'"]
    if dtype.name == "int64":  # of which xarray stores the least for a missing time
        python += ", the least int64 for a missing time"
        steps.insert(0, f"lod apply 'None if {name} == {-(2**63)} else {counted}' --into {name}")
    elif counted != name:
        python += ", in int64"
        steps = [f"lod cast {name}=int64", f"lod apply '{counted}' --into {name}", *steps]
    return by_reader(shell=f"for times, {', then '.join(steps)}", python=python)
