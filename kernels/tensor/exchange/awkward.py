"""Awkward arrays over the same memory."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.units import of_numpy
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, Marks, Times
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls, zeros_at_nulls

# Awkward's names for the lists and the items of text and bytes.
NAMES = {"text": ("string", "char"), "bytes": ("bytestring", "byte")}


def to_awkward(data: Array, lod: LoD, marks: Marks, nulls: Nulls = NO_NULLS) -> Any:
    """Return rows and their index as an array of Awkward; nulls make it an option type.

    Times become datetime64, without a zone, or timedelta64; those of a day stay numbers.
    """
    lists, items = NAMES[marks.values] if marks.values else (None, None)
    if isinstance(marks.unit, Times) and marks.unit.kind != "time":
        data = data.view(f"{'m' if marks.unit.kind == 'duration' else 'M'}8[{marks.unit.unit}]")
    try:
        layout = ak.contents.NumpyArray(data, parameters=_behaviour(items))
    except TypeError:
        raise UnsupportedError(f"Awkward has no {data.dtype}; convert it first") from None
    layout = _option(layout, nulls.rows)
    for level in reversed(range(lod.n_levels)):
        index = ak.index.Index64(lod.levels[level])
        layout = ak.contents.ListOffsetArray(index, layout, parameters=_behaviour(lists))
        layout = _option(layout, nulls.mask(level))
        lists = None  # of the finest level only
    return ak.Array(layout)


def _option(layout: Any, mask: Mask | None) -> Any:
    if mask is None:
        return layout
    return ak.contents.ByteMaskedArray(ak.index.Index8(mask.view(np.int8)), layout, valid_when=True)


def _behaviour(name: str | None) -> dict[str, str] | None:
    return None if name is None else {"__array__": name}


def from_awkward(values: Any) -> tuple[Array, LoD, Marks, Nulls]:
    """Return the rows, index, marks and nulls of an array of Awkward.

    Raises:
        InvalidDataError: a missing value in a row; not an array.
        UnsupportedError: records, unions.
    """
    try:
        layout: Any = ak.to_layout(values)
    except (TypeError, ValueError, RuntimeError, BufferError):
        layout = None
    if not isinstance(layout, ak.contents.Content):
        raise InvalidDataError(
            f"values: expected an array of Awkward, found {type(values).__name__}"
        )
    levels = list[Offsets]()
    marks, masks, mask = NO_MARKS, list[Mask | None](), None
    while not _is_row(layout):
        if layout.is_option:
            mask, layout = _without_option(layout, mask)
        elif layout.is_indexed:
            layout = layout.project()
        elif layout.is_list:
            called = layout.parameter("__array__")
            marks = {"string": TEXT, "bytestring": BYTES}.get(called, NO_MARKS)
            begins = isinstance(layout, ak.contents.ListOffsetArray) and layout.offsets[0] == 0
            lists = layout if begins else layout.to_ListOffsetArray64(True)  # copies the offsets
            offsets = np.asarray(lists.offsets)
            if mask is not None:
                lengths = zeros_at_nulls(offsets_to_lengths(offsets), mask)
                offsets = lengths_to_offsets(lengths, level=len(levels))
            masks.append(mask)
            mask = None
            levels.append(offsets)
            layout = lists.content[: int(offsets[-1])]
        else:
            raise UnsupportedError(
                f"values: a {type(layout).__name__} of Awkward cannot be a tensor; choose a field"
            )
    try:
        rows = np.asarray(
            layout.data if layout.is_numpy else ak.to_numpy(layout, allow_missing=False)
        )
    except ValueError:
        raise InvalidDataError("values: a value in a row is missing; ak.fill_none first") from None
    if rows.dtype.kind in "mM":
        rows, times = of_numpy(rows)
        marks = Marks(unit=times)
    return zeros_at_nulls(rows, mask), LoD(levels), marks, Nulls.of([*masks, mask])


def _without_option(layout: Any, mask: Mask | None) -> tuple[Mask | None, Any]:
    """Return the mask of items valid in this option and in those around it, and the valid items."""
    valid = ~np.asarray(ak.is_none(ak.Array(layout), axis=0))
    layout = layout.project()
    if mask is None:
        return valid, layout
    whole = mask.copy()
    whole[mask] = valid
    return whole, layout


def _is_row(layout: Any) -> bool:
    while layout.is_regular and layout.parameter("__array__") not in ("string", "bytestring"):
        layout = layout.content
    return bool(layout.is_numpy) or layout.is_unknown
