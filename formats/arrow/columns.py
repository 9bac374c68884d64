"""Converts Arrow arrays to tensors: offsets rebased, nulls as masks, rows without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.dictionaries import codes_of
from lodcli.formats.arrow.layout import Leaf, Level, Node, Record, is_bytes, records
from lodcli.formats.arrow.sizes.buffers import (
    array_of,
    buffer_of,
    integers,
    is_list_view,
    is_view,
    large_binary,
    offsets_of,
    valid_items,
    values_of,
)
from lodcli.formats.arrow.sizes.expansion import check_views, has_runs, plain, without_views
from lodcli.formats.core.bounds import Bounds
from lodcli.formats.core.names import shown
from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, as_int64
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_below
from lodcli.kernels.options import option
from lodcli.kernels.tensor.exchange.arrow_units import integers_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, Nulls, zeros_at_nulls

_BOOL = np.dtype(np.bool_)

Names = dict[str, tuple[str | None, ...]]


class ColumnReader:
    """One column, array by array.

    Args:
        node: its layout.
        names: the level names of each of its tensors.
        bounds: maximum expanded size of its arrays.
        null_records: whether to distinguish null records from records of nulls only.

    Attributes:
        records: by the name of structs: True if one was null, False if none was null but one had
            only null fields. Filled while reading.
        both: names of structs with both kinds of nulls, for which a tensor stores which are null.
            For other structs, finding the second kind later is an error.
    """

    def __init__(
        self, name: str, node: Node, names: Names, *, bounds: Bounds, null_records: bool = True
    ) -> None:
        self._name = name
        self._node = node
        self._names = names
        self._bounds = bounds
        self._null_records = null_records
        self.records = {one.name: False for one in records(node) if one.required}
        self.both = set[str]()
        self._settled = False

    def settle(self, *, both: bool = False) -> None:
        """Treat structs with neither kind of null so far as structs that may be null.

        Args:
            both: whether every struct that the file declares nullable may have both kinds.
        """
        self._settled = True
        for one in records(self._node):
            self.records.setdefault(one.name, True)
            if (both or not one.fields) and one.present is not None:
                self.both.add(one.name)

    def tensors(self, array: pa.Array, first: int) -> dict[str, LoDTensor]:
        """Return the tensors of an array whose first record has the number `first`.

        Raises:
            InvalidDataError: a null among the values of a row; names the record and the place.
        """
        found: dict[str, LoDTensor] = {}
        self._first = first
        self._read(array, self._node, (), (), found, None)
        return found

    def _read(
        self,
        array: Any,
        node: Node,
        levels: tuple[Offsets, ...],
        masks: tuple[Mask | None, ...],
        found: dict[str, LoDTensor],
        above: Mask | None,
    ) -> None:
        """Read the tensors below a node into `found`; `above` marks the enclosing records that are
        not null."""
        array = self._plain(array, node)
        if isinstance(node, Level):
            check_views(array, self._bounds)
            mask = _mask(array)
            offsets, array = opened(array) if mask is None else self._without_nulls(array, mask)
            # A copy, because they may be in the file's memory; the tensors below share it.
            level = as_int64(offsets, level=len(levels), what="offsets")
            self._read(array, node.below, (*levels, level), (*masks, mask), found, None)
        elif isinstance(node, Leaf):
            rows, mask = self._rows(array, node, levels)
            lod = LoD(levels, self._names[node.name])
            found[node.name] = LoDTensor(rows, lod, node.marks, Nulls.of((*masks, mask)))
        else:
            # In a null record, every field is null.
            if self._null_records:
                self._tell_nulls(array, node, levels, above)
            parts = self._fields(array)
            valid = _mask(array)
            for number, below in node.fields:
                self._read(parts[number], below, levels, masks, found, valid)
            told = node.present
            if told is not None and (not self._settled or node.name in self.both):
                rows = np.ones(len(array), _BOOL) if valid is None else valid
                lod = LoD(levels, self._names[told.name])
                found[told.name] = LoDTensor(rows, lod, told.marks, Nulls.of((*masks, None)))

    def _fields(self, array: Any) -> list[Any]:
        """Return the fields of structs, each null where the struct is."""
        fields = [array.field(number) for number in range(array.type.num_fields)]
        if not array.null_count:
            return fields
        import pyarrow.compute as pc  # slow to import

        missing = pc.invert(array.is_valid())
        # flatten() does not apply the mask to runs, which have no validity bits.
        fields = [plain(one, self._bounds) if has_runs(one.type) else one for one in fields]
        names = [str(number) for number in range(len(fields))]
        found: list[Any] = pa.StructArray.from_arrays(fields, names, mask=missing).flatten()
        return found

    def _tell_nulls(
        self, array: Any, node: Record, levels: tuple[Offsets, ...], above: Mask | None
    ) -> None:
        """Record which structs are null or have only nulls; raise an error if it is too late to
        distinguish them."""
        valid, nothing = _mask(array), self._all_null(array, node)
        for is_null, places in (
            (True, None if valid is None else ~valid if above is None else ~valid & above),
            (False, nothing if valid is None or nothing is None else nothing & valid),
        ):
            if places is None or not places.any():
                continue
            if self.records.setdefault(node.name, is_null) == is_null or node.name in self.both:
                continue
            if not self._settled or node.present is None:  # not yet settled, or no such tensor
                self.both.add(node.name)
            else:
                branch = branch_below(levels, int(np.argmax(places)))
                where = f"column {shown(self._name)}, record {self._first + branch[0]}"
                if branch[1:]:
                    where += f", item <{','.join(map(str, branch[1:]))}>"
                what = "null" if is_null else "nothing but nulls"
                raise InvalidDataError(
                    f"{where}: a record of {shown(node.name)} is {what}, but no earlier one is; "
                    f"{option('nulls', 'keep')} distinguishes null records from records of nulls "
                    "only, zero or drop replaces both"
                )

    def _all_null(self, array: Any, node: Record) -> Mask | None:
        """Return which records are null, or have only nulls; None for none."""
        found: Mask | None = None
        parts = self._fields(array)
        for number, below in node.fields:
            part = plain(parts[number], self._bounds)
            if isinstance(below, Record):
                mask = self._all_null(part, below)
            else:
                mask = None if not part.null_count else ~valid_items(part)
            if mask is None:
                return None
            found = mask if found is None else found & mask
        return found

    def _without_nulls(self, array: Any, mask: Mask) -> tuple[Offsets, Any]:
        """Return the offsets with a null as an empty list, and the items."""
        if is_bytes(array.type):
            array = without_views(array, self._bounds)
            if not np.diff(offsets_of(array))[~mask].any():  # as nearly always
                return opened(array)
            offsets, items = opened(array.filter(array.is_valid()))
            lengths = zeros_at_nulls(np.diff(offsets), mask)
            return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), items
        # Not `filter`: pyarrow has none for lists of views or runs.
        array = _as_lists(array) if types.is_map(array.type) else array
        import pyarrow.compute as pc  # slow to import

        # Not `fill_null`, which imports pandas if it is installed.
        lengths = np.where(mask, integers(pc.list_value_length(array)), 0)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return offsets, _items(array, int(offsets[-1]))

    def _rows(
        self, array: Any, leaf: Leaf, levels: tuple[Offsets, ...]
    ) -> tuple[Array, Mask | None]:
        count, shape = len(array), [*leaf.row_shape]
        if 0 in shape or types.is_null(array.type):
            # A few bytes can declare any number of such items.
            self._bounds.check(self._first + count, "has rows without values, counted as")
        mask = _mask(array)
        if types.is_null(array.type):
            return np.zeros(count, leaf.dtype), mask
        if mask is not None and not types.is_fixed_size_list(array.type):
            if types.is_fixed_size_binary(array.type):
                array = _bytes(array)
            rows = self._numbers(array, leaf).reshape(count, *shape).copy()
            rows[~mask] = np.zeros((), leaf.dtype)
            return rows, mask
        return zeros_at_nulls(self._values(array, leaf, levels, mask), mask), mask

    def _values(
        self, array: Any, leaf: Leaf, levels: tuple[Offsets, ...], mask: Mask | None
    ) -> Array:
        """Return the rows that are valid by a mask; None: all."""
        count, shape = len(array) - array.null_count, leaf.row_shape
        items = count
        while types.is_fixed_size_list(array.type):
            items *= array.type.list_size
            array = self._plain(_items(array, items), leaf)
            self._refuse_null_value(array, levels, mask, count)
        if types.is_null(array.type):
            return np.zeros((count, *shape), leaf.dtype)
        if types.is_fixed_size_binary(array.type):
            array = _bytes(array)
        rows = self._numbers(array, leaf)
        if leaf.order is None:
            return rows.reshape(count, *shape)
        # The order is its own inverse.
        stored = rows.reshape(count, *(shape[axis] for axis in leaf.order))
        return np.ascontiguousarray(stored.transpose(0, *(axis + 1 for axis in leaf.order)))

    def _plain(self, array: Any, node: Node) -> Any:
        """Return an array without encodings; for categories their codes."""
        if isinstance(node, Leaf) and node.marks.categories is not None:
            return codes_of(array, node.marks.categories, node.dtype)
        return plain(array, self._bounds)

    def _numbers(self, array: Any, leaf: Leaf) -> Array:
        """Return flat numbers; those with a unit, such as times, as int64."""
        if leaf.dtype == _BOOL and types.is_int8(array.type):  # arrow.bool8
            return values_of(array, np.dtype(np.int8)).astype(np.bool_)
        if leaf.marks.unit is None and types.is_decimal(array.type):
            # Arrow's own cast to floats does not always find the nearest.
            array = array.cast(pa.string()).cast(pa.from_numpy_dtype(leaf.dtype))
        if leaf.marks.unit is None or leaf.marks.categories is not None:
            return values_of(array, leaf.dtype)
        try:
            return integers_of(array)
        except UnsupportedError as error:
            where = f"column {shown(self._name)}, records from {self._first} on"
            remedy = f"{option('float-decimals', True)} reads such decimals as float64"
            raise UnsupportedError(f"{where}: {error}; {remedy}") from None

    def _refuse_null_value(
        self, array: Any, levels: tuple[Offsets, ...], mask: Mask | None, count: int
    ) -> None:
        """Raise for the first null among the values of `count` rows."""
        values = _mask(array)
        if values is None:
            return
        place = int(np.argmin(values)) // (len(array) // count)
        if mask is not None:
            place = int(np.flatnonzero(mask)[place])
        place, *path = branch_below(levels, place)
        where = f"item <{','.join(map(str, path))}>: " if path else ""
        raise InvalidDataError(
            f"column {shown(self._name)}, record {self._first + place}: {where}a value "
            f"inside a row is null, but only whole rows can be; choose other columns with "
            f"{option('columns')}, or fill it"
        )


def _mask(array: Any) -> Mask | None:
    """Return which items are valid; None if all are."""
    if not array.null_count:
        return None
    return valid_items(array)


def opened(array: Any) -> tuple[Offsets, Any]:
    """Return the offsets of lists, text or bytes without nulls, from 0, and their items."""
    kind = array.type
    if not len(array) and not types.is_fixed_size_list(kind):
        # Then its offsets may have no bytes, not even the 0 before the first item.
        none = array_of(np.zeros(0, np.uint8)) if is_bytes(kind) else _slice(array, 0, 0)
        return np.zeros(1, np.int64), none
    if is_bytes(kind):
        if is_view(kind):
            array = large_binary(array)
        offsets = offsets_of(array)
        low = int(offsets[0])
        letters = buffer_of(array, 2, np.dtype(np.uint8), low, int(offsets[-1]) - low)
        return _rebased(offsets), array_of(letters)
    if types.is_fixed_size_list(kind):
        fixed = np.arange(len(array) + 1) * kind.list_size
        return fixed, _items(array, int(fixed[-1]))
    if is_list_view(kind):
        import pyarrow.compute as pc  # slow to import

        lengths = integers(pc.list_value_length(array))
        views = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return views, _items(array, int(views[-1]))
    offsets = integers(array.offsets)
    low, high = int(offsets[0]), int(offsets[-1])
    return _rebased(offsets), _slice(array, low, high - low)


def _slice(array: Any, start: int, count: int) -> Any:
    """Return some of the items that lists divide, or of the entries that maps divide."""
    if not types.is_map(array.type):
        return array.values.slice(start, count)
    parts = [array.keys.slice(start, count), array.items.slice(start, count)]
    return pa.StructArray.from_arrays(parts, ["key", "value"])


def _items(array: Any, count: int) -> Any:
    """Return the items of all lists that are not null, `count` in all."""
    if types.is_fixed_size_list(array.type) and not array.null_count:
        # As flatten, which imports pyarrow.compute.
        return array.values.slice(array.offset * array.type.list_size, count)
    # pyarrow joins parts of any type, but makes no empty arrays of extension types.
    return array.flatten() if count else array.values.slice(0, 0)


def _as_lists(array: Any) -> Any:
    """Return maps, of which some are null, as lists of structs."""
    import pyarrow.compute as pc  # slow to import

    offsets = array_of(integers(array.offsets).copy())  # pyarrow takes no slice with a mask
    entries = _slice(array, 0, len(array.keys))
    return pa.ListArray.from_arrays(offsets, entries, mask=pc.invert(array.is_valid()))


def _rebased(offsets: Array) -> Offsets:
    result: Offsets = offsets.astype(np.int64)
    if result[0]:
        result -= result[0]
    return immutable(result)


def _bytes(array: Any) -> Any:
    width = array.type.byte_width
    values = buffer_of(array, 1, np.dtype(np.uint8), array.offset * width, len(array) * width)
    return array_of(values)
