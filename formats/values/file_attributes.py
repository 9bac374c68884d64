"""Attributes of a file as a whole: a JSON object, separate from those of its tensors."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.core.names import is_plain, shown
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.options import by_reader, option
from lodcli.kernels.tensor.marks import attributes_text

# In formats that keep only text: the entry for all other attributes, as a JSON object.
OTHERS = "lod.attributes"
# Attribute of integers in netCDF, "true" or "false": read them as unsigned, or as signed.
UNSIGNED = "_Unsigned"
# Attributes of arrays in netCDF: scales, the sign, and missing values.
CONVENTIONS = ("scale_factor", "add_offset", UNSIGNED, "_FillValue", "missing_value")
# Attributes of times in netCDF (CF): "hours since 1900-01-01", and the calendar.
UNITS, CALENDAR = "units", "calendar"
_SINCE = re.compile(r"\s*([a-z]+)\s+since\s+(.*\S)\s*", re.IGNORECASE)
_DAY = re.compile(
    r"(\d{1,4})-(\d{1,2})-(\d{1,2})(?:[t\s]\s*(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.0*)?)?)?)?"
    r"\s*(?:z|utc|gmt|[+-]0?0(?::?00)?)?",
    re.IGNORECASE,
)
_SECONDS = {"s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hr": 3600}
_SECONDS |= {"hour": 3600, "d": 86400, "day": 86400}
_FINER = {"millisecond": "ms", "msec": "ms", "ms": "ms", "microsecond": "us", "us": "us"}
_FINER |= {"nanosecond": "ns", "ns": "ns"}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
# Calendars whose days are those of datetime: the first two since 1582-10-15.
_STANDARD, _PROLEPTIC = ("standard", "gregorian"), "proleptic_gregorian"
# Attribute of the index of an indexed ragged array of netCDF (CF).
INSTANCES = "instance_dimension"


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
    """Return a note that numbers are times in netCDF; None if not.

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
    start = _start(since[2], calendar.lower())
    unit, scale = since[1].lower(), 1
    if len(unit) > 3 or unit == "hrs":
        unit = unit.removesuffix("s")
    if unit in _SECONDS:
        unit, scale = "s", _SECONDS[unit]
    else:
        unit = _FINER.get(unit, "")
    certain = alone and dtype.kind != "f" and is_plain(name)
    if start is None or not unit or not certain:
        return told
    kind = f"timestamp[{unit}]"
    first = start * _PER_SECOND[unit]
    if scale == 86400 and not start % scale:
        kind, unit, scale, first = "date", "days", 1, start // scale
    if abs(first) >= 2**63:
        return told
    counted = name + (f" * {scale}" if scale > 1 else "")
    if first:
        counted += f" {'-' if first < 0 else '+'} {abs(first)}"
    steps, missing = [f"lod cast '{name}={kind}'"], ""
    python = f"{counted} counts {unit} since 1970"
    if dtype.name == "int64":  # of which xarray stores the least for a missing time
        missing = f"None if {name} == {-(2**63)} else "
        python += ", the least int64 for a missing time"
    if missing or counted != name:
        steps.insert(0, f"lod apply '{missing}{counted}' --into {name}")
        if not missing:
            steps.insert(0, f"lod cast {name}=int64")
            python += ", in int64"
    how = by_reader(shell=f"for times, {', then '.join(steps)}", python=python)
    return f"{told}; {how}"


def _text(value: Any) -> str:
    """Return an attribute that is a text, or a list of one, as some programs store it; else ""."""
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return value if isinstance(value, str) else ""


def _start(text: str, calendar: str) -> int | None:
    """Return the seconds from 1970 to a time in netCDF; None if they are not certain."""
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    try:
        start = datetime(*(int(one or 0) for one in found.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None
    if calendar != _PROLEPTIC and (calendar not in _STANDARD or start < datetime(1582, 10, 15)):
        return None
    return (start - datetime(1970, 1, 1)) // timedelta(seconds=1)


def parsed(text: str | None) -> dict[str, Any]:
    """Return the attributes from their JSON text, as in WriteOptions and headers."""
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def checked(content: Any, where: str) -> str:
    """Return the attributes from a file as JSON text.

    Raises:
        DamagedFileError: they are not a JSON object with a member, or too large.
    """
    try:
        found = attributes_text(content)
    except InvalidDataError as error:
        raise DamagedFileError(f"{where}: {error}") from None
    if not found:
        raise DamagedFileError(f"{where}: attributes: expected at least one, found {{}}")
    return found


def fitting(content: Any) -> tuple[dict[str, Any], list[str]]:
    """Return attributes of a foreign file, and a note if they cannot be kept.

    >>> fitting({"unit": "m"}), fitting({"x": float("nan")})[0]
    (({'unit': 'm'}, []), {})
    """
    try:
        return parsed(attributes_text(content)), []
    except InvalidDataError as error:
        return {}, [f"the attributes of the file are not kept: {error}"]


def texts_and_others(
    attributes: Mapping[str, Any], reserved: Iterable[str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Return the attributes that are text, and all others, for formats that keep only text.

    Args:
        attributes: of a file.
        reserved: names with another meaning in the format, which count as others.
    """
    taken = frozenset(reserved)
    texts = {k: v for k, v in attributes.items() if isinstance(v, str) and k not in taken}
    return texts, {name: attributes[name] for name in attributes if name not in texts}


def alike(files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the attributes that are equal in all files.

    >>> alike([{"license": "MIT", "day": 1}, {"day": 2, "license": "MIT"}])
    {'license': 'MIT'}
    """
    if not files:
        return {}
    first, *others = files
    return {
        name: value
        for name, value in first.items()
        if all(name in other and _same(value, other[name]) for other in others)
    }


def _same(one: Any, other: Any) -> bool:
    # As text, because True == 1 == 1.0 in Python.
    return one is other or json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
