"""Awkward arrays over the same memory."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, Marks

# What Awkward calls the lists and the items of text and bytes.
NAMES = {"text": ("string", "char"), "bytes": ("bytestring", "byte")}


def to_awkward(data: Array, lod: LoD, marks: Marks) -> Any:
    """Return rows and their index as an array of Awkward."""
    lists, items = NAMES[marks.values] if marks.values else (None, None)
    try:
        layout = ak.contents.NumpyArray(data, parameters=_behaviour(items))
    except TypeError:
        raise UnsupportedError(f"Awkward has no {data.dtype}; convert it first") from None
    for offsets in reversed(lod.levels):
        index = ak.index.Index64(offsets)
        layout = ak.contents.ListOffsetArray(index, layout, parameters=_behaviour(lists))
        lists = None  # of the finest level only
    return ak.Array(layout)


def _behaviour(name: str | None) -> dict[str, str] | None:
    return None if name is None else {"__array__": name}


def from_awkward(values: Any) -> tuple[Array, LoD, Marks]:
    """Return the rows, index and marks of an array of Awkward.

    Raises:
        InvalidDataError: missing values.
        UnsupportedError: records, unions.
    """
    layout, levels = ak.to_layout(values), list[Offsets]()
    marks = NO_MARKS
    while not _is_row(layout):
        if layout.is_option:
            if ak.any(ak.is_none(ak.Array(layout), axis=0)):
                raise InvalidDataError(
                    "values: has missing values, which no tensor holds; ak.fill_none or "
                    "ak.drop_none first"
                )
            layout = layout.project()
        elif layout.is_indexed:
            layout = layout.project()
        elif layout.is_list:
            called = layout.parameter("__array__")
            marks = {"string": TEXT, "bytestring": BYTES}.get(called, NO_MARKS)
            lists = layout.to_ListOffsetArray64(True)
            offsets = np.asarray(lists.offsets)
            levels.append(offsets)
            layout = lists.content[: int(offsets[-1])]
        else:
            raise UnsupportedError(
                f"values: no tensor holds a {type(layout).__name__} of Awkward; choose a field"
            )
    rows = np.asarray(ak.to_numpy(layout)) if layout.is_regular else np.asarray(layout.data)
    return rows, LoD(levels), marks


def _is_row(layout: Any) -> bool:
    while layout.is_regular and layout.parameter("__array__") not in ("string", "bytestring"):
        layout = layout.content
    return bool(layout.is_numpy) or layout.is_unknown
