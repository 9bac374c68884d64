"""Rows and index of a tensor with nulls: select items, fill nulls, drop nulls."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.items import find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.tensor.casting import held
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.marks import Marks
from lodcli.kernels.tensor.nulls import Nulls

Parts = tuple[Array, LoD, Nulls]


def chosen(data: Array, lod: LoD, nulls: Nulls, items: Offsets) -> Parts:
    """Return outermost items in the given order, copied."""
    found = find_items(lod, items)
    return data[ranges(found.starts, found.bounds)], found.lod, nulls.taken(lod, items)


def filled(data: Array, lod: LoD, nulls: Nulls, value: Any, marks: Marks) -> tuple[Array, LoD]:
    """Return rows and index with `value` in place of null rows, or of null texts or bytes.

    Args:
        data, lod, nulls, marks: of the tensor.
        value: a number, or what the unit of the marks takes; of texts or bytes, one of them, or 0
            for empty ones.

    Raises:
        InvalidDataError: the dtype, or the marks, cannot represent the value.
    """
    if marks.values:
        return _filled_texts(data, lod, nulls, value, marks)
    mask = nulls.rows
    if mask is None:
        return data, lod
    value = in_unit(value, marks.unit)
    given = on_host(value, "fill_nulls")
    made = None if given.ndim else held(given, data.dtype)
    if made is None:
        what = marks.unit or data.dtype
        raise InvalidDataError(f"no {what} is {value!r}, which nulls are to be filled with")
    result: Array = data.copy()
    result[~mask] = made
    return result, lod


def _filled_texts(
    data: Array, lod: LoD, nulls: Nulls, value: Any, marks: Marks
) -> tuple[Array, LoD]:
    kind = str if marks.is_text else bytes
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and value == 0:
        value = kind()
    if not isinstance(value, kind):
        raise InvalidDataError(
            f"nulls of {marks.values} cannot be filled with {value!r}; expected {kind.__name__}, "
            "or 0 for empty ones"
        )
    try:
        raw = value.encode() if isinstance(value, str) else value
    except UnicodeEncodeError:
        raise InvalidDataError(f"half of a surrogate pair in {value!r}") from None
    mask, offsets = nulls.masks[-2], lod.levels[-1]
    if mask is None or not raw:  # null texts have no rows
        return data, lod
    letters = np.frombuffer(raw, np.uint8)
    lengths = np.where(mask, offsets_to_lengths(offsets), letters.size)
    old = np.repeat(mask, lengths)
    rows = np.empty(old.size, np.uint8)
    rows[old] = on_host(data, "fill_nulls")
    rows[~old] = np.tile(letters, np.count_nonzero(~mask))
    levels = [*lod.levels[:-1], lengths_to_offsets(lengths, level=lod.n_levels - 1)]
    return rows, LoD._trusted(levels, lod.names)


def dropped(data: Array, lod: LoD, nulls: Nulls) -> tuple[Array, LoD]:
    """Return rows and index without the items and rows that are null."""
    kept: Any = nulls.masks[0]
    count = lod.count(0) if lod.n_levels else data.shape[0]
    kept = np.ones(count, np.bool_) if kept is None else kept
    levels = []
    for offsets, mask in zip(lod.levels, nulls.masks[1:], strict=True):
        below = np.repeat(kept, offsets_to_lengths(offsets))
        if mask is not None:
            below = below & mask
        lengths = np.diff(lengths_to_offsets(below.astype(np.int64), level=0)[offsets])
        levels.append(lengths_to_offsets(lengths[kept], level=0))
        kept = below
    return data[kept], LoD._trusted(levels, lod.names)
