"""Dates and durations of NumPy (datetime64, timedelta64) as int64 with a unit and nulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.marks import TIME_UNITS, Times
from lodcli.kernels.tensor.nulls import Mask

KINDS = "Mm"


def times_of(dtype: np.dtype[Any]) -> Times | None:
    """Return the unit of a dtype of times; None if it has none of those of `Times`.

    >>> times_of(np.dtype("M8[D]")), times_of(np.dtype("m8[ms]"))
    (Times(kind='date', unit='D', zone=None), Times(kind='duration', unit='ms', zone=None))
    >>> times_of(np.dtype("M8[h]"))
    """
    if dtype.kind not in KINDS:
        return None
    unit, multiple = np.datetime_data(dtype)
    if multiple != 1:
        return None
    if dtype.kind == "M" and unit == "D":
        return Times("date", "D")
    if unit not in TIME_UNITS["timestamp"]:
        return None
    return Times("timestamp" if dtype.kind == "M" else "duration", unit)


def as_numbers(values: Array, first: int) -> tuple[Array, Mask | None]:
    """Return rows of times as int64, NaT as 0, and which are not NaT, None if all are.

    Other rows are returned unchanged.

    Args:
        values: (N, ..) in native byte order.
        first: the number of the first row, for messages.

    Raises:
        UnsupportedError: a NaT in a row of several values, which cannot be null in part.
    """
    if values.dtype.kind not in KINDS:
        return values, None
    numbers: Array = values.view(np.int64)
    missing = np.isnat(values)
    if not missing.any():
        return numbers, None
    if values.ndim > 1:
        row = first + int(np.argmax(missing.reshape(len(values), -1).any(axis=1)))
        raise UnsupportedError(
            f"row {row}: holds NaT among several values, and a row is null only as a whole; save "
            "each column of the array separately"
        )
    return np.where(missing, 0, numbers), ~missing
