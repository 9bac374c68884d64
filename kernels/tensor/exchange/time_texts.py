"""Times written as text, in the unit of a tensor."""

from __future__ import annotations

import re

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import Times

NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_ZONE = re.compile(r"(?:Z|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9]))?)\Z", re.ASCII)
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_COUNT = "[0-9]{1,19}"
_DURATION = re.compile(
    rf"([+-]?)P(?=.)({_COUNT}W)?({_COUNT}D)?"
    rf"(?:T(?=.)({_COUNT}H)?({_COUNT}M)?({_COUNT}(?:\.[0-9]{{1,9}})?S)?)?",
    re.ASCII,
)
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"


def number_of(text: str, times: Times) -> int:
    """Return the number of a time or duration of ISO 8601, in the unit; UTC if it has no zone.

    Raises:
        InvalidDataError: it is no such time, or between two numbers.

    >>> number_of("1970-01-02 00:30+00:15", Times("timestamp", "s"))
    87300
    >>> number_of("-PT1M30.5S", Times("duration", "ms"))
    -90500
    """
    number, rest = divmod(nanoseconds_of(text, times), NANOSECONDS[times.unit])
    if rest:
        raise InvalidDataError(f"{text!r} is not a whole number of the unit {times.unit}")
    return number


def nanoseconds_of(text: str, times: Times) -> int:
    """Return the nanoseconds of a time or duration of ISO 8601; UTC if it has no zone.

    Raises:
        InvalidDataError: it is no such time.

    >>> nanoseconds_of("00:00:01.5", Times("time", "s"))
    1500000000
    """
    return _duration(text) if times.kind == "duration" else _moment(text, times)


def _duration(text: str) -> int:
    """Return the nanoseconds of a duration of ISO 8601, without months and years."""
    found = _DURATION.fullmatch(text)
    if found is None:
        what = f"expected a duration such as 'PT90S' or 'P1DT12H30M', found {text!r}"
        raise InvalidDataError(what)
    sign, weeks, days, hours, minutes, seconds = (part or "0 " for part in found.groups())
    whole, _, part = seconds[:-1].partition(".")
    total = ((int(weeks[:-1]) * 7 + int(days[:-1])) * 24 + int(hours[:-1])) * 60
    total = (total + int(minutes[:-1])) * 60 + int(whole)
    total = total * 10**9 + int(part.ljust(9, "0"))
    return -total if sign == "-" else total


def _moment(text: str, times: Times) -> int:
    """Return the nanoseconds of a time of ISO 8601, since 1970 or midnight."""
    whole, example = text, "'2024-05-01' or '2024-05-01T12:30:00'"
    pattern = f"{_DATE}([T ]{_CLOCK})?"
    if times.kind == "time":
        whole, example, pattern = f"1970-01-01T{text}", "'12:30' or '12:30:05.25'", f".*{_CLOCK}"
    shift = 0
    # A date alone ends like a zone.
    zone = _ZONE.search(whole) if times.kind == "timestamp" and ":" in whole else None
    if zone is not None:
        whole = whole[: zone.start()]
        sign, hours, minutes = (part or "0" for part in zone.groups())
        shift = int(f"{sign}1") * (int(hours) * 60 + int(minutes))
    try:
        if not re.fullmatch(pattern, whole, re.ASCII):
            raise ValueError
        # In two parts: in nanoseconds, 64 bits hold only 584 years.
        days = int(np.datetime64(whole[:10]).astype(np.int64))
        clock = f"1970-01-01T{whole[11:]}" if whole[11:] else "1970-01-01"
        nanoseconds = int(np.datetime64(clock).astype("datetime64[ns]").astype(np.int64))
    except ValueError:
        what = f"expected a {times.kind} such as {example}, found {text!r}"
        raise InvalidDataError(what) from None
    return nanoseconds + days * NANOSECONDS["D"] - shift * 60 * 10**9
