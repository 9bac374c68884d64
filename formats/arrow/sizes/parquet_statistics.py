"""The least and greatest values of Parquet columns, from the statistics in the footer.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow.types as types

from lodcli.formats.arrow.layout import is_bytes
from lodcli.formats.choosing.choice import ValueRange

Decode = Callable[[bytes], Any]

# The fields of Statistics: those of old files, whose order is only that of signed numbers, then
# the number of nulls, then those in the order of the type.
_OLD_MAX, _OLD_MIN, NULL_COUNT, _MAX, _MIN = 1, 2, 3, 5, 6
FIELDS = (_OLD_MAX, _OLD_MIN, _MAX, _MIN)
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_WHOLE = {"INT32": 4, "INT64": 8}
_FLOATS = {"FLOAT": "<f", "DOUBLE": "<d"}
# Before version 1.5, parquet-cpp compared floats with nan: PARQUET-1225.
_COMPARED_NAN = re.compile(rb"parquet-cpp version (0|1\.[0-4])\.")
# Of arrow2 and old polars: with nan in a row group, its least and greatest values may be wrong, and
# the number of nulls of categories and texts may be 0 where there are some.
_WRONG = re.compile(rb"Polars\Z|Arrow2 ")


def are_wrong(writer: bytes) -> bool:
    """Return whether no statistics of a program can be trusted."""
    return _WRONG.match(writer) is not None


def null_count(statistics: Mapping[int, Any], kind: Any, column: Any) -> int | None:
    """Return the number of nulls of a column in a row group; None if it is not certain.

    Args:
        statistics: the fields of its Statistics that the file has.
        kind: the Arrow type of the values.
        column: its pyarrow.parquet.ColumnSchema.
    """
    # Some programs count null and empty lists, and some only the nulls in lists: PARQUET-2067.
    # parquet-wasm counts no nulls in a column of the null type.
    if column.max_repetition_level or types.is_null(kind):
        return None
    if not column.max_definition_level:
        return 0
    count = int(statistics.get(NULL_COUNT, -1))
    return count if count >= 0 else None


def decoder(kind: Any, column: Any, writer: bytes) -> Decode | None:
    """Return a function from the bytes of a statistic to a value as lod reads it.

    Args:
        kind: the Arrow type of the values.
        column: its pyarrow.parquet.ColumnSchema.
        writer: the program that wrote the file, from the footer.

    Returns:
        None if it is not certain that statistics of such columns mean the values.
    """
    stored, logical = column.physical_type, column.logical_type.type
    if is_bytes(kind):
        return bytes if stored == "BYTE_ARRAY" else None
    if types.is_boolean(kind):
        return _bool if stored == "BOOLEAN" else None
    if stored in _FLOATS and types.is_floating(kind):
        return None if _COMPARED_NAN.match(writer) else partial(_float, _FLOATS[stored])
    if types.is_decimal(kind):
        about = json.loads(column.logical_type.to_json())
        if logical != "DECIMAL" or about.get("scale") != kind.scale or stored == "BYTE_ARRAY":
            return None
        return partial(int.from_bytes, byteorder=_order(stored), signed=True)
    if stored not in _WHOLE or not _is_whole(kind, column):
        return None
    signed = not column.converted_type.startswith("UINT")
    return partial(_whole, _WHOLE[stored], signed=signed)


def in_signed_order(kind: Any, column: Any) -> bool:
    """Return whether the values have the only order that statistics of old files have."""
    numbers = column.physical_type in (*_WHOLE, *_FLOATS)
    return numbers and not is_bytes(kind) and not column.converted_type.startswith("UINT")


def _is_whole(kind: Any, column: Any) -> bool:
    """Return whether whole numbers are read as they are stored."""
    logical = column.logical_type.type
    if types.is_integer(kind):
        return logical in ("INT", "NONE")
    if types.is_date32(kind):
        return bool(logical == "DATE")
    if types.is_duration(kind):
        return bool(logical == "NONE")
    if types.is_timestamp(kind) or types.is_time(kind):
        about = json.loads(column.logical_type.to_json())
        return bool(about.get("timeUnit") == _UNITS[kind.unit])
    return False


def value_range(
    statistics: Mapping[int, Any],
    decode: Decode | None,
    *,
    ordered: bool,
    signed: bool,
    values: int,
    nulls: int | None,
) -> ValueRange:
    """Return the range of the values of a column in a row group.

    Args:
        statistics: the fields of its Statistics that the file has.
        decode: from `decoder`.
        ordered: whether the footer declares that statistics are in the order of the type.
        signed: from `in_signed_order`.
        values: how many values there are, nulls included.
        nulls: from `null_count`.
    """
    unknown = ValueRange(nulls=nulls != 0)
    if nulls and nulls == values:
        return replace(unknown, values=False)
    fields = (_MIN, _MAX) if ordered else (_OLD_MIN, _OLD_MAX)
    if decode is None or not (ordered or signed) or not all(one in statistics for one in fields):
        return unknown
    try:
        low, high = (decode(statistics[one]) for one in fields)
    except (ValueError, struct.error):
        return unknown
    # Not low > high: nan is neither.
    return replace(unknown, low=low, high=high) if low <= high else unknown


def _order(stored: str) -> Any:
    return "little" if stored in _WHOLE else "big"


def _bool(data: bytes) -> bool:
    """Return a boolean. Raises ValueError: it has another size."""
    if len(data) != 1:
        raise ValueError
    return data != b"\0"


def _float(form: str, data: bytes) -> float:
    found: float = struct.unpack(form, data)[0]
    return found


def _whole(size: int, data: bytes, *, signed: bool) -> int:
    if len(data) != size:
        raise ValueError
    return int.from_bytes(data, "little", signed=signed)
