"""The columns of a Hugging Face dataset without rows, from the description of its features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lodcli.formats.arrow.files import Found, Records
from lodcli.formats.text.lines import shown
from lodcli.kernels.errors import UnsupportedError

_INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
_TEXTS = ["string", "large_string", "binary", "large_binary"]
_VALUES = frozenset([*_INTEGERS, *_TEXTS, "bool", "float16", "float32", "float64"])
_LISTS = ("List", "Sequence", "LargeList")
_ARRAYS = {f"Array{axes}D": axes for axes in range(2, 6)}
# Deeper lists than this no one saves.
_MOST_DEPTH = 64


class NoRecords(Records):
    """Columns without a record.

    Args:
        features: of dataset_info.json, by column.

    Raises:
        UnsupportedError: a column is of a kind that no tensor has, or there are none.
    """

    def __init__(self, features: Mapping[str, Any]) -> None:
        if not features:
            raise UnsupportedError("has no features, and there are no data files")
        self.schema = pa.schema([(name, _type(name, said, 0)) for name, said in features.items()])
        self.count = 0

    def batches(
        self, columns: Sequence[str], limit_bytes: int, start: int = 0, *, check: bool = True
    ) -> Iterator[Found]:
        return iter(())


def _type(column: str, said: Any, depth: int) -> pa.DataType:
    kind = said.get("_type") if isinstance(said, dict) else None
    if depth < _MOST_DEPTH and isinstance(said, dict):
        if kind == "Value" and said.get("dtype") in _VALUES:
            return pa.type_for_alias("halffloat" if said["dtype"] == "float16" else said["dtype"])
        if kind == "ClassLabel":
            return pa.int64()
        if kind in _ARRAYS:
            found = _type(column, {"_type": "Value", "dtype": said.get("dtype")}, depth)
            for _ in range(_ARRAYS[kind]):
                found = pa.list_(found)
            return found
        if kind in _LISTS and "feature" in said:
            inner, length = _type(column, said["feature"], depth + 1), said.get("length", -1)
            if isinstance(length, int) and 0 <= length < 2**31:
                return pa.list_(inner, length)
            return pa.list_(inner)
        if kind is None and said:
            return pa.struct([(name, _type(column, one, depth + 1)) for name, one in said.items()])
    raise UnsupportedError(
        f"column {shown(column)}: cannot infer the dtype of an empty column from {shown(str(said))}"
    )
