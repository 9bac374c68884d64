"""Gather of whole items of a level in any order, and of rows with their nulls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.items import FoundItems, find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.row_ranges import DISPATCHED_BYTES, rows_at, rows_of_ranges
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls


def take_items(tensor: LoDTensor, items: npt.ArrayLike, level: int | str = 0) -> LoDTensor:
    """Return whole items of a level in a given order, copied.

    Args:
        tensor: data (N, ...), any dtype. Without levels its rows are the items.
        items: (K,) integers, 0 to the number of items of `level` minus 1. An item may
            come more than once, or not at all.
        level: the level whose sequences are taken.

    Returns:
        A tensor of K outermost items. Its levels are those from `level` on; the position of
        the items in the levels above is lost.

    Raises:
        InvalidDataError: `items` are not a flat list of whole numbers.
        SelectionError: no such level, or no such item; names its position in `items`.

    >>> words = LoDTensor(np.arange(6), [[3, 1, 2]])
    >>> take_items(words, [2, 0, 2])
    LoDTensor(7 int64, [[4, 5], [0, 1, 2], [4, 5]])
    >>> take_items(words, [2, 0, 2]).data.tolist()
    [4, 5, 0, 1, 2, 4, 5]
    """
    lod = tensor.lod
    number = lod.level(level) if lod.n_levels or level != 0 else 0
    checked = _checked_items(items, lod.count(number) if lod.n_levels else tensor.rows)
    return take_known(tensor, checked, number)


def take_known(tensor: LoDTensor, items: Offsets, number: int) -> LoDTensor:
    """Return `take_items` of int64 items that are known to be valid."""
    nulls = tensor.nulls.taken(tensor.lod, items, number)
    return tensor._part(*taken(tensor.values, tensor.lod, items, number), nulls)


def taken(data: Array, lod: LoD, items: Offsets, number: int) -> tuple[Array, LoD]:
    """Return the rows and the index of items of a level, which are known to be valid.

    Args:
        data: (N, ...), under `lod`.
        items: (K,) int64.
        number: of the level; 0 if there are no levels.
    """
    if not lod.levels and type(data) is np.ndarray:
        if data.nbytes < DISPATCHED_BYTES:
            return data.take(items, axis=0), lod
        return rows_at(data, items), lod
    found = find_items(lod, items, number)
    return gather_items(data, found), found.lod


def gather_items(data: Array, found: FoundItems) -> Array:
    """Return the rows of items located by `find_items`, copied."""
    return rows_of_ranges(data, found.starts, found.bounds)


def _checked_items(items: npt.ArrayLike, count: int) -> Offsets:
    array = on_host(items, "items")
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InvalidDataError(
            f"items must be a flat list of whole numbers, found {array.ndim} dimensions "
            f"of {array.dtype}"
        )
    numbers = array.astype(np.int64, copy=False)
    # As unsigned numbers, negative ones are greater than all others.
    outside = numbers.view(np.uint64) >= count
    if np.count_nonzero(outside):
        position = int(np.argmax(outside))
        raise SelectionError(
            f"items, position {position}: no item {array[position]}, there are {count}"
        )
    return numbers


def with_nulls(
    tensor: LoDTensor, level: int, move: Callable[[LoDTensor], LoDTensor], *, whole: bool
) -> LoDTensor:
    """Return the result of an op that only moves items below a level, with the nulls of a tensor.

    Args:
        tensor: with nulls.
        level: the level whose sequences stay in place; a result has as many of them.
        move: the op. It is called with numbers of rows, and of the items of levels with nulls. It
            may add levels below `level`.
        whole: whether it moves whole finest sequences, which stay text.
    """
    lod, masks = tensor.lod, list(tensor.nulls.masks)
    for number in range(level + 1, lod.n_levels + 1):
        mask, is_rows = masks[number], number == lod.n_levels
        if mask is not None or is_rows:
            count = tensor.rows if is_rows else lod.count(number)
            found = move(LoDTensor(np.arange(count), lod.upto(number - 1)))
            masks[number] = None if mask is None else mask[found.data]
    masks[level + 1 : level + 1] = [None] * (found.lod.n_levels - lod.n_levels)
    marks = tensor.marks.moved(whole=whole)
    return LoDTensor(tensor.values[found.data], found.lod, marks, Nulls.of(masks))
