"""Expanded size of Arrow dictionaries, runs and views.

A few bytes can represent any number of values, so the expanded size is computed first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.formats.arrow.sizes.buffers import (
    array_of,
    inner_types,
    integers,
    is_list_view,
    is_text,
    is_view,
    item_bounds,
    large_binary,
)
from lodcli.formats.core.bounds import Bounds
from lodcli.kernels.index.checks import Array

_WHAT = "the values of a dictionary, of runs or of views come to"


def is_expanded(kind: Any) -> bool:
    """Return whether a type contains dictionaries, runs or views."""
    if isinstance(kind, pa.BaseExtensionType):
        return is_expanded(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind) or is_list_view(kind):
        return True
    return is_view(kind) or any(map(is_expanded, inner_types(kind)))


def has_runs(kind: Any) -> bool:
    """Return whether values of a type are stored as runs."""
    if isinstance(kind, pa.BaseExtensionType):
        return has_runs(kind.storage_type)
    return bool(types.is_run_end_encoded(kind))


def plain(array: Any, bounds: Bounds) -> Any:
    """Return the array without extensions, with dictionaries and runs expanded.

    Raises:
        TooLargeError: the expanded array exceeds the bounds.
    """
    while True:
        if isinstance(array, pa.ExtensionArray):
            array = array.storage
        elif isinstance(array, pa.DictionaryArray):
            array = _taken(array.dictionary, array.indices, bounds)
        elif isinstance(array, pa.RunEndEncodedArray):
            bounds.check_block(len(array), _WHAT)
            sizes = item_bytes(array.values) * _run_lengths(array)
            bounds.check_block(int(sizes.sum()), _WHAT)
            array = _picked(array.values, array_of(_runs(array)), bounds)
        else:
            return array


def without_views(array: Any, bounds: Bounds) -> Any:
    """Return the array with views of text or bytes as plain text or bytes, for `filter`.

    Raises:
        TooLargeError: the expanded array exceeds the bounds.
    """
    kind = _viewless(array.type)
    if kind == array.type:
        return array
    bounds.check_block(int(item_bytes(array).sum()), _WHAT)
    return array.cast(kind)


def check_views(array: Any, bounds: Bounds) -> None:
    """Raise TooLargeError if the items of views of lists or text exceed the bounds."""
    kind = array.type
    if is_view(kind) or is_list_view(kind):
        bounds.check_block(int(item_bytes(array).sum()), _WHAT)


def _taken(words: Any, indices: Any, bounds: Bounds) -> Any:
    bounds.check_block(len(words), _WHAT)
    there = indices.drop_null() if indices.null_count else indices
    sizes = item_bytes(words)
    if sizes.size:
        bounds.check_block(int(sizes[integers(there)].sum()), _WHAT)
    return _picked(words, indices, bounds)


def _picked(words: Any, indices: Any, bounds: Bounds) -> Any:
    """Return words by index; types without `take` in pyarrow are expanded first."""
    if isinstance(words, pa.ExtensionArray):
        return _picked(words.storage, indices, bounds)
    if isinstance(words, pa.RunEndEncodedArray):
        return _picked(words.values, array_of(_runs(words)).take(indices), bounds)
    if types.is_struct(words.type):
        fields = [words.field(number) for number in range(words.type.num_fields)]
        parts = [_picked(one, indices, bounds) for one in fields]
        missing = None
        if words.null_count or indices.null_count:
            import pyarrow.compute as pc  # slow to import

            missing = pc.invert(words.is_valid().take(indices).fill_null(False))
        return pa.StructArray.from_arrays(parts, [one.name for one in words.type], mask=missing)
    if types.is_string(words.type) or types.is_binary(words.type):
        words = large_binary(words)  # 32-bit offsets would limit the result to 2 GiB
    return without_views(words, bounds).take(indices)


def _run_lengths(array: Any) -> Array:
    """Return the number of items of each run that are in the array, which may be a slice."""
    ends = np.clip(integers(array.run_ends), array.offset, array.offset + len(array))
    return np.diff(ends.astype(np.int64), prepend=array.offset)


def _runs(array: Any) -> Array:
    """Return the number of the run of each item."""
    lengths = _run_lengths(array)
    # A few bytes may be any number of items, so each takes only four bytes here.
    return np.repeat(np.arange(lengths.size, dtype=np.int32), lengths)


def item_bytes(array: Any) -> Array:
    """Return the bytes of each item in expanded form, (items,) float64.

    As floats, because nested views may exceed int64.
    """
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return item_bytes(array.storage)
    if isinstance(array, pa.DictionaryArray):
        words, places = item_bytes(array.dictionary), integers(array.indices.fill_null(0))
        return words.take(places) if words.size else np.zeros(len(array))
    if isinstance(array, pa.RunEndEncodedArray):
        return item_bytes(array.values).repeat(_run_lengths(array))
    if types.is_struct(kind):
        parts = [item_bytes(array.field(number)) for number in range(kind.num_fields)]
        total: Array = np.array(parts).reshape(len(parts), len(array)).sum(axis=0)
        return total
    if types.is_fixed_size_list(kind):
        items = array.values.slice(array.offset * kind.list_size, len(array) * kind.list_size)
        total = item_bytes(items).reshape(len(array), kind.list_size).sum(axis=1)
        return total
    if types.is_map(kind):
        return _summed(item_bytes(array.keys) + item_bytes(array.items), *item_bounds(array))
    if types.is_nested(kind) and not types.is_union(kind):
        if types.is_primitive(kind.value_type):
            width: int = (kind.value_type.bit_width + 7) // 8
            return _lengths(array) * width
        return _summed(item_bytes(array.values), *item_bounds(array))
    if is_view(kind) or is_text(kind):
        return _lengths(array)
    width = 0 if types.is_null(kind) or types.is_nested(kind) else (kind.bit_width + 7) // 8
    return np.full(len(array), width, np.float64)


def _lengths(array: Any) -> Array:
    begin, end = item_bounds(array)
    found: Array = (end - begin).astype(np.float64)
    return found


def _summed(sizes: Array, begin: Array, end: Array) -> Array:
    ends = np.concatenate([[0.0], np.cumsum(sizes)])
    found: Array = ends[end] - ends[begin]
    return found


def _viewless(kind: Any) -> Any:
    """Return the type with views of text or bytes as plain text or bytes."""
    if types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return pa.struct([field.with_type(_viewless(field.type)) for field in fields])
    if types.is_map(kind):
        return pa.map_(_viewless(kind.key_type), _viewless(kind.item_type), kind.keys_sorted)
    for is_one, make in _LISTS:
        if is_one(kind):
            return make(kind.value_field.with_type(_viewless(kind.value_type)))
    if types.is_fixed_size_list(kind):
        field = kind.value_field.with_type(_viewless(kind.value_type))
        return pa.list_(field, kind.list_size)
    return kind


_LISTS = (
    (types.is_list, pa.list_),
    (types.is_large_list, pa.large_list),
    (types.is_list_view, pa.list_view),
    (types.is_large_list_view, pa.large_list_view),
)
