"""Converts Arrow arrays to tensors: offsets rebased, nulls rejected, rows without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from lodcli.formats.arrow.layout import Leaf, Level, Node, is_bytes
from lodcli.formats.arrow.sizes.buffers import (
    array_of,
    buffer_of,
    integers,
    large_binary,
    values_of,
)
from lodcli.formats.arrow.sizes.expansion import check_views, plain, without_views
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.text.lines import shown
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets, as_int64
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

_OR_EMPTY = "--nulls empty reads it as an empty one"
_NO_PLACE = "no tensor can hold a null; choose other columns with --field, or fill it"

Names = dict[str, tuple[str | None, ...]]


class ColumnReader:
    """One column, array by array.

    Args:
        name: of the column.
        node: what it holds.
        names: the level names of each of its tensors.
        nulls_empty: whether a null list or text is an empty one; else any null is an error.
        bounds: what its arrays may come to.
    """

    def __init__(
        self, name: str, node: Node, names: Names, *, nulls_empty: bool, bounds: Bounds
    ) -> None:
        self._name = name
        self._node = node
        self._names = names
        self._nulls_empty = nulls_empty
        self._bounds = bounds

    def tensors(self, array: pa.Array, first: int) -> dict[str, LoDTensor]:
        """Return the tensors of an array whose first record has the number `first`.

        Raises:
            InvalidDataError: a null; names the record and the place in it.
        """
        found: dict[str, LoDTensor] = {}
        self._first = first
        self._read(array, self._node, (), found)
        return found

    def _read(
        self, array: Any, node: Node, levels: tuple[Offsets, ...], found: dict[str, LoDTensor]
    ) -> None:
        array = plain(array, self._bounds)
        if isinstance(node, Level):
            check_views(array, self._bounds)
            if array.null_count and self._nulls_empty:
                offsets, array = self._without_nulls(array)
            else:
                self._refuse_nulls(array, levels, _OR_EMPTY)
                offsets, array = opened(array)
            # A copy, for they may lie in the file's memory; tensors below share it.
            level = as_int64(offsets, level=len(levels), what="offsets")
            self._read(array, node.below, (*levels, level), found)
        elif isinstance(node, Leaf):
            rows = self._rows(array, node, levels)
            found[node.name] = LoDTensor(rows, LoD(levels, self._names[node.name]), node.marks)
        else:
            self._refuse_nulls(array, levels, _NO_PLACE)
            for number, below in node.fields:
                self._read(array.field(number), below, levels, found)

    def _without_nulls(self, array: Any) -> tuple[Offsets, Any]:
        """Return the offsets with a null as an empty list, and the items."""
        valid = array.is_valid()
        offsets, items = opened(without_views(array, self._bounds).filter(valid))
        lengths = np.zeros(len(array), np.int64)
        lengths[values_of(valid, np.dtype(np.bool_))] = np.diff(offsets)
        return np.concatenate([[0], np.cumsum(lengths)]), items

    def _rows(self, array: Any, leaf: Leaf, levels: tuple[Offsets, ...]) -> Array:
        count, shape = len(array), [*leaf.row_shape]
        if 0 in shape:  # a few bytes can declare any number of rows without values
            self._bounds.check(self._first + count, "has rows without values, counted as")
        while True:
            self._refuse_nulls(array, levels, _NO_PLACE, count)
            array = plain(array, self._bounds)
            if not types.is_fixed_size_list(array.type):
                break
            array = array.flatten()
        if types.is_fixed_size_binary(array.type):
            array = _bytes(array)
        rows = values_of(array, leaf.dtype)
        if leaf.order is None:
            return rows.reshape(count, *shape)
        # The order is its own inverse.
        stored = rows.reshape(count, *(shape[axis] for axis in leaf.order))
        return np.ascontiguousarray(stored.transpose(0, *(axis + 1 for axis in leaf.order)))

    def _refuse_nulls(
        self, array: Any, levels: tuple[Offsets, ...], remedy: str, count: int | None = None
    ) -> None:
        """Raise for the first null of an array whose items lie below `levels`.

        `count` is how many rows it holds, where it has several values a row.
        """
        if not array.null_count:
            return
        place = int(np.argmax(values_of(array.is_null(), np.dtype(np.bool_))))
        place //= len(array) // count if count else 1
        path: list[int] = []
        for offsets in reversed(levels):
            item = int(np.searchsorted(offsets, place, side="right")) - 1
            path.insert(0, place - int(offsets[item]))
            place = item
        where = f"item <{','.join(map(str, path))}>: " if path else ""
        raise InvalidDataError(
            f"column {shown(self._name)}, record {self._first + place}: {where}is null; {remedy}"
        )


def opened(array: Any) -> tuple[Offsets, Any]:
    """Return the offsets of lists, text or bytes without nulls, from 0, and their items."""
    kind = array.type
    if is_bytes(kind):
        array = large_binary(array)
        offsets = buffer_of(array, 1, np.dtype(np.int64), array.offset, len(array) + 1)
        low = int(offsets[0])
        letters = buffer_of(array, 2, np.dtype(np.uint8), low, int(offsets[-1]) - low)
        return _rebased(offsets), array_of(letters)
    if types.is_fixed_size_list(kind):
        return np.arange(len(array) + 1) * kind.list_size, array.flatten()
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        lengths = integers(pc.list_value_length(array))
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), array.flatten()
    offsets = integers(array.offsets)
    low, high = int(offsets[0]), int(offsets[-1])
    if types.is_map(kind):
        parts = [array.keys.slice(low, high - low), array.items.slice(low, high - low)]
        return _rebased(offsets), pa.StructArray.from_arrays(parts, ["key", "value"])
    return _rebased(offsets), array.values.slice(low, high - low)


def _rebased(offsets: Array) -> Offsets:
    result: Offsets = offsets.astype(np.int64)
    if result[0]:
        result -= result[0]
    return result


def _bytes(array: Any) -> Any:
    width = array.type.byte_width
    values = buffer_of(array, 1, np.dtype(np.uint8), array.offset * width, len(array) * width)
    return array_of(values)
