"""Times written as text, in the unit of a tensor."""

from __future__ import annotations

import re

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.tensor.marks import Times

NANOSECONDS = {"D": 86_400 * 10**9, "s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_ZONE = re.compile(r"(Z|[+-][0-9]{2}:?[0-9]{2})$")
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"[0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"


def number_of(text: str, times: Times) -> int:
    """Return the number of a time of ISO 8601, in the unit of the times; UTC if it has no zone.

    Raises:
        InvalidDataError: it is no such time, or between two numbers.

    >>> number_of("1970-01-02 00:30+00:15", Times("timestamp", "s"))
    87300
    """
    whole, example = text, "'2024-05-01' or '2024-05-01T12:30:00'"
    pattern = f"{_DATE}([T ]{_CLOCK})?"
    if times.kind == "time":
        whole, example, pattern = f"1970-01-01T{text}", "'12:30' or '12:30:05.25'", f".*{_CLOCK}"
    shift = 0
    # A date alone ends like a zone.
    zone = _ZONE.search(whole) if times.kind == "timestamp" and ":" in whole else None
    if zone is not None:
        whole = whole[: zone.start()]
        if zone[0] != "Z":
            shift = int(f"{zone[0][0]}1") * (int(zone[0][1:3]) * 60 + int(zone[0][-2:]))
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
    nanoseconds += days * NANOSECONDS["D"] - shift * 60 * 10**9
    number, rest = divmod(nanoseconds, NANOSECONDS[times.unit])
    if rest:
        raise InvalidDataError(f"{text!r} is not a whole number of the unit {times.unit}")
    return number
