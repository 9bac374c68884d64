"""The memory of Arrow arrays as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.kernels.index.checks import Array, Offsets


def values_of(array: Any, dtype: np.dtype[Any]) -> Array:
    """Return numbers or booleans without nulls; numbers without a copy.

    Not `to_numpy`, which imports pandas if it is installed, and that is slow.
    """
    if dtype != np.bool_:
        return buffer_of(array, 1, dtype, array.offset, len(array))
    return _bits(array, 1)


def valid_items(array: Any) -> Array:
    """Return which items are not null, as booleans.

    Not `is_valid`, which imports pyarrow.compute, and that is slow.
    """
    if array.null_count and array.buffers()[0] is None:  # nulls of a type without validity bits
        return _bits(array.is_valid(), 1)
    return _bits(array, 0) if array.null_count else np.ones(len(array), np.bool_)


def _bits(array: Any, number: int) -> Array:
    """Return a buffer of an array with a bit for each item, as booleans."""
    first, bits = array.offset // 8, array.offset % 8
    packed = buffer_of(array, number, np.dtype(np.uint8), first, (bits + len(array) + 7) // 8)
    found = np.unpackbits(packed, bitorder="little")[bits : bits + len(array)]
    return found.view(np.bool_)


_DTYPES = {pa.from_numpy_dtype(dtype): dtype for dtype in map(np.dtype, "?bhilBHILefd")}


def number_dtype(kind: Any) -> np.dtype[Any]:
    """Return the dtype of an Arrow type of numbers or booleans."""
    return _DTYPES[kind]


def integers(array: Any) -> Array:
    """Return an array of integers without nulls, of any width, without a copy."""
    return values_of(array, number_dtype(array.type))


def array_of(numbers: Array) -> Any:
    """Return numbers as an Arrow array of the same memory.

    Not `pyarrow.array`, which imports pandas if it is installed.
    """
    kind, buffer = pa.from_numpy_dtype(numbers.dtype), pa.py_buffer(np.ascontiguousarray(numbers))
    return pa.Array.from_buffers(kind, len(numbers), [None, buffer])


def buffer_of(array: Any, number: int, dtype: np.dtype[Any], start: int, count: int) -> Array:
    """Return `count` values of a buffer of an array, from value `start` on."""
    buffer = array.buffers()[number]
    if buffer is None or not count:
        return np.zeros(count, dtype)
    found: Array = np.frombuffer(buffer, dtype, count, start * dtype.itemsize)
    return found


def item_bounds(array: Any) -> tuple[Offsets, Offsets]:
    """Return where the items of each list, or the bytes of each text, begin and end."""
    kind, count, first = array.type, len(array), array.offset
    if is_view(kind):
        size = buffer_of(array, 1, np.dtype(np.int32), 4 * first, 4 * count)[::4].astype(np.int64)
    elif is_list_view(kind):
        width = np.dtype(np.int32 if types.is_list_view(kind) else np.int64)
        begin = buffer_of(array, 1, width, first, count).astype(np.int64)
        size = buffer_of(array, 2, width, first, count).astype(np.int64)
    else:
        if not count:  # then the offsets may have no bytes
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        ends = offsets_of(array)
        return ends[:-1].astype(np.int64), ends[1:].astype(np.int64)
    if array.null_count:  # a null may have any size and offset
        size = np.where(valid_items(array), size, 0)
    if is_view(kind):
        return np.zeros(count, np.int64), size
    begin = np.where(size > 0, begin, 0)
    return begin, begin + size


def offsets_of(array: Any) -> Array:
    """Return the offsets of at least one list or text, int32 or int64, without a copy."""
    kind = array.type
    large = types.is_large_list(kind) or types.is_large_string(kind)
    wide = np.dtype(np.int64 if large or types.is_large_binary(kind) else np.int32)
    return buffer_of(array, 1, wide, array.offset, len(array) + 1)


def large_binary(array: Any) -> Any:
    """Return text or bytes with 64-bit offsets; views as text."""
    # With 32-bit offsets, the cast copies only the offsets.
    if types.is_large_string(array.type) or types.is_large_binary(array.type):
        return array
    text = types.is_string_view(array.type) or types.is_string(array.type)
    return array.cast(pa.large_string() if text else pa.large_binary())


def inner_types(kind: pa.DataType) -> list[pa.DataType]:
    """Return the types in a nested type: of a map one, a struct; of runs their ends and values."""
    return [kind.field(number).type for number in range(kind.num_fields)]


def is_view(kind: pa.DataType) -> bool:
    """Return whether values are views of text or bytes."""
    return bool(types.is_string_view(kind) or types.is_binary_view(kind))


def is_list_view(kind: pa.DataType) -> bool:
    """Return whether values are views of lists."""
    return bool(types.is_list_view(kind) or types.is_large_list_view(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are text or bytes of any length, with offsets."""
    return bool(
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
    )
