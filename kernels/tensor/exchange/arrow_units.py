"""Times and decimals of Arrow as int64, and back; types of units."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.exchange.time_texts import NANOSECONDS
from lodcli.kernels.tensor.marks import Categories, Decimals, Marks, Times, Unit

_INT64 = np.dtype(np.int64)
_DECIMALS = {32: "decimal32", 64: "decimal64", 128: "decimal128", 256: "decimal256"}


def marks_of(kind: Any) -> Marks | None:
    """Return the marks of an Arrow type of times or decimals; None for other types."""
    if types.is_timestamp(kind):
        return Marks(unit=Times("timestamp", kind.unit, kind.tz))
    if types.is_duration(kind):
        return Marks(unit=Times("duration", kind.unit))
    if types.is_time(kind):
        return Marks(unit=Times("time", kind.unit))
    if types.is_date(kind):
        return Marks(unit=Times("date", "D" if types.is_date32(kind) else "ms"))
    if types.is_decimal(kind):
        return Marks(unit=Decimals(kind.precision, kind.scale, kind.bit_width))
    return None


def type_of(unit: Unit, dtype: np.dtype[Any] = _INT64) -> Any:
    """Return the Arrow type of values of a unit, stored with this dtype."""
    if isinstance(unit, Categories):
        return pa.dictionary(pa.from_numpy_dtype(dtype), pa.string(), unit.ordered)
    if isinstance(unit, Decimals):
        return getattr(pa, _DECIMALS[unit.bits])(unit.precision, unit.scale)
    if unit.kind == "timestamp":
        return pa.timestamp(unit.unit, unit.zone)
    if unit.kind == "duration":
        return pa.duration(unit.unit)
    if unit.kind == "date":
        return pa.date32() if unit.unit == "D" else pa.date64()
    return pa.time32(unit.unit) if unit.unit in ("s", "ms") else pa.time64(unit.unit)


def integers_of(array: Any) -> Array:
    """Return times or decimals as int64; where one is null, the value is undefined.

    Raises:
        UnsupportedError: a decimal that does not fit in an int64; names its position.
    """
    width = array.type.bit_width // 8
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(len(array), np.int64)
    words = np.frombuffer(
        buffer, f"i{min(width, 8)}", len(array) * max(1, width // 8), array.offset * width
    )
    if width <= 8:
        return words.astype(np.int64)
    parts = words.reshape(len(array), -1)
    low = np.ascontiguousarray(parts[:, 0])
    wide = (parts[:, 1:] != (low >> 63)[:, np.newaxis]).any(axis=1)
    if array.null_count:
        wide &= np.asarray(array.is_valid())
    if wide.any():
        place = int(np.argmax(wide))
        raise UnsupportedError(
            f"position {place}: {array[place].as_py()} of {array.type} is beyond the 64 bits of a "
            "tensor"
        )
    return low


def stored(values: Array, kind: Any) -> Array:
    """Return flat int64 values in the storage of an Arrow type.

    Raises:
        UnsupportedError: a value that does not fit in the type, or that it does not allow.
    """
    width = kind.bit_width // 8
    wrong = _wrong(values, kind)
    if wrong is not None and wrong.any():
        raise UnsupportedError(f"{values[int(np.argmax(wrong))]} is not a value of {kind}")
    if width == 8:
        return values
    if width == 4:
        return values.astype(np.int32)
    words = np.empty((values.size, width // 8), np.int64)
    words[:, 0] = values
    words[:, 1:] = (values >> 63)[:, np.newaxis]
    return words.reshape(-1)


def _wrong(values: Array, kind: Any) -> Array | None:
    """Return which int64 an Arrow type does not allow; None if it allows all."""
    if types.is_date64(kind):
        return np.asarray(values % (NANOSECONDS["D"] // NANOSECONDS["ms"]) != 0)
    if types.is_time(kind):
        low, high = 0, NANOSECONDS["D"] // NANOSECONDS[kind.unit] - 1
    elif types.is_decimal(kind) and kind.precision < 19:
        low, high = 1 - 10**kind.precision, 10**kind.precision - 1
    elif types.is_date32(kind):
        low, high = -(2**31), 2**31 - 1
    else:
        return None
    wrong: Array = (values < low) | (values > high)
    return wrong
