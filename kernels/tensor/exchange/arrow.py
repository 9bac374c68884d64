"""Arrow arrays: a large list for each level, a fixed-size list for each axis of a row."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from lodcli.kernels.errors import InvalidDataError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LevelNames, LoD
from lodcli.kernels.tensor.exchange.arrow_units import integers_of, marks_of, stored, type_of
from lodcli.kernels.tensor.exchange.arrow_words import categories_of, texts_of
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, Categories, Marks, check_codes
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls, pack, zeros_at_nulls

# The names of a field's levels, outermost first, as a JSON list in the field's metadata.
NAMES_KEY = b"lod.levels"
# Text and bytes, whose bytes become a level. Without large binary, which needs no cast.
_TEXT = (
    *(types.is_string, types.is_large_string, types.is_string_view),
    *(types.is_binary, types.is_binary_view),
)
# For each list type: its test, its constructor, and its number of buffers besides the items.
_LISTS: tuple[tuple[Any, Any, int], ...] = (
    (types.is_list, pa.list_, 2),
    (types.is_large_list, pa.large_list, 2),
    (types.is_list_view, pa.list_view, 3),
    (types.is_large_list_view, pa.large_list_view, 3),
)


def is_text(kind: Any) -> bool:
    """Return whether values of this type are text, which Arrow requires to be UTF-8."""
    return any(is_one(kind) for is_one in _TEXT[:3])


def arrow_field(
    name: str,
    dtype: np.dtype[Any],
    row_shape: Sequence[int],
    names: LevelNames,
    marks: Marks = NO_MARKS,
    *,
    nullable: bool = False,
) -> pa.Field:
    """Return the field of a tensor with these level names; rows and items may be null if nullable.

    Raises:
        UnsupportedError: Arrow does not have this dtype.
    """
    try:
        kind = pa.from_numpy_dtype(dtype) if marks.unit is None else type_of(marks.unit, dtype)
    except pa.ArrowNotImplementedError:
        raise UnsupportedError(f"Arrow has no {dtype}; take tensor.data, or convert it") from None
    for extent in reversed(row_shape):
        kind = pa.list_(pa.field("item", kind, nullable=False), extent)
    levels = len(names)
    if marks.values:
        kind, levels = pa.large_string() if marks.is_text else pa.large_binary(), levels - 1
    for _ in range(levels):
        kind = pa.large_list(pa.field("item", kind, nullable=nullable))
    metadata = {NAMES_KEY: json.dumps(names).encode()} if any(names) else None
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def arrow_array(
    data: Array, lod: LoD, kind: pa.DataType, nulls: Nulls, marks: Marks = NO_MARKS
) -> pa.Array:
    """Return rows and their index as an array of the type that `arrow_field` returned.

    It shares their memory, except for booleans, which Arrow stores as bits, and for units that
    are not 64 bits wide in Arrow.

    Args:
        data, lod, nulls: of a tensor.
        kind: the type; for categories a dictionary, or that of their codes.
        marks: of the tensor, for the words of categories.
    """
    flat = np.ascontiguousarray(data).reshape(-1)
    if flat.dtype == np.bool_:
        flat = np.packbits(flat, bitorder="little")
    elif flat.dtype == np.int64 and marks.categories is None:
        flat = _of_unit(flat, kind)
    count = lod.count(0) if lod.n_levels else data.shape[0]
    masks = nulls.masks or (None,) * (len(lod) + 1)
    words = None if marks.categories is None else _dictionary(marks.categories)
    return _nested(lod, kind, 0, count, pa.py_buffer(flat), masks, words)


def _of_unit(flat: Array, kind: Any) -> Array:
    """Return whole numbers in the storage of the innermost type."""
    while kind.num_fields:
        kind = kind.value_type
    return flat if types.is_integer(kind) else stored(flat, kind)


def _nested(
    lod: LoD,
    kind: Any,
    depth: int,
    count: int,
    data: pa.Buffer,
    masks: Sequence[Mask | None],
    words: pa.Array | None,
) -> pa.Array:
    mask = masks[depth]
    valid, missing = None, 0
    if mask is not None:
        valid, missing = pa.py_buffer(pack(mask)), int(mask.size - np.count_nonzero(mask))
    if depth < lod.n_levels:
        offsets = lod.levels[depth]
        if types.is_large_string(kind) or types.is_large_binary(kind):
            return pa.Array.from_buffers(kind, count, [valid, _buffer(offsets), data], missing)
        below = _nested(lod, kind.value_type, depth + 1, int(offsets[-1]), data, masks, words)
        return pa.Array.from_buffers(kind, count, [valid, _buffer(offsets)], missing, 0, [below])
    if isinstance(kind, pa.FixedSizeListType):
        none = (None,) * len(masks)  # the outermost fixed-size list has the mask of the rows
        below = _nested(lod, kind.value_type, depth, count * kind.list_size, data, none, words)
        return pa.Array.from_buffers(kind, count, [valid], missing, 0, [below])
    if not types.is_dictionary(kind):
        return pa.Array.from_buffers(kind, count, [valid, data], missing)
    codes = pa.Array.from_buffers(kind.index_type, count, [valid, data], missing)
    return pa.DictionaryArray.from_arrays(codes, words, ordered=kind.ordered, safe=False)


# Cached: all batches of a file have the same dictionary.
@lru_cache(maxsize=4)
def _dictionary(categories: Categories) -> pa.Array:
    return texts_of(categories.words)


def _buffer(offsets: Offsets) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(offsets))


def to_arrow(data: Array, lod: LoD, marks: Marks, nulls: Nulls = NO_NULLS) -> pa.Array:
    """Return rows and their index as an Arrow array.

    Raises:
        InvalidDataError: a code that no category has, which would be an invalid array.
    """
    if marks.categories is not None:
        check_codes(data, lod, marks.categories, nulls.rows)
    shape = data.shape[1:]
    field = arrow_field("data", data.dtype, shape, lod.names, marks, nullable=bool(nulls))
    return arrow_array(data, lod, field.type, nulls, marks)


def to_table(data: Array, lod: LoD, marks: Marks, nulls: Nulls = NO_NULLS) -> pa.Table:
    """Return a table of one column called "data", which keeps the names of levels."""
    shape = data.shape[1:]
    field = arrow_field("data", data.dtype, shape, lod.names, marks, nullable=bool(nulls))
    return pa.table([to_arrow(data, lod, marks, nulls)], schema=pa.schema([field]))


def from_arrow(values: Any) -> tuple[Array, LoD, Marks, Nulls]:
    """Return the rows, index, marks and nulls of an Arrow array, or of a table of one column.

    Args:
        values: of pyarrow, or anything with `__arrow_c_array__` or `__arrow_c_stream__`.

    Raises:
        InvalidDataError: not an Arrow array, several columns, or a null among the values of a row.
        UnsupportedError: values other than numbers, booleans, times, decimals, text or bytes;
            permuted axes.
    """
    array, names = _one_array(values)
    levels: list[Offsets] = []
    marks, masks = NO_MARKS, list[Mask | None]()
    while True:
        extents = _extents(array.type)
        array, found_words = _coded(array)
        mask = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
        masks.append(mask)
        if _is_row(array):
            break
        if is_text(array.type):
            marks = TEXT
        elif types.is_large_binary(array.type) or any(is_one(array.type) for is_one in _TEXT):
            marks = BYTES
        offsets, array = _opened(array if mask is None else _without_views(array).filter(mask))
        if mask is not None:
            lengths = zeros_at_nulls(offsets_to_lengths(offsets), mask)
            offsets = lengths_to_offsets(lengths, level=len(levels))
        levels.append(offsets)
    array = array if mask is None else array.filter(mask)
    shape: list[int] = []
    count = len(array)
    while types.is_fixed_size_list(array.type):
        shape += extents or [array.type.list_size]
        array = array.flatten()
        extents = _extents(array.type)
        array, found_words = _coded(array)
        if array.null_count:
            raise InvalidDataError("values: a value in a row is null; only whole rows can be null")
    unit = marks_of(array.type) if found_words is None else None
    if found_words is not None:
        marks = Marks(unit=found_words)
    try:
        flat = array.to_numpy(zero_copy_only=False) if unit is None else integers_of(array)
    except UnsupportedError as error:
        raise UnsupportedError(f"{error}; cast it to double, or fewer digits, first") from None
    rows, marks = flat.reshape(count, *shape), marks if unit is None else unit
    given = names if names is not None and len(names) == len(levels) else None
    return zeros_at_nulls(rows, mask), LoD(levels, given), marks, Nulls.of(masks)


def _one_array(values: Any) -> tuple[pa.Array, LevelNames | None]:
    """Return an array in one chunk, and the level names stored in its field."""
    if not isinstance(values, pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch):
        values = _exported(values)
    if isinstance(values, pa.Table | pa.RecordBatch):
        _require_one(values.schema.names)
        field, column = values.schema.field(0), values.column(0)
        return _in_one_piece(column), _kept_names(field)
    array = _in_one_piece(values)
    if types.is_struct(array.type):
        _require_one([field.name for field in array.type])
        return array.flatten()[0], _kept_names(array.type.field(0))
    return array, None


def _exported(values: Any) -> pa.Array | pa.ChunkedArray:
    """Return the array that another library exports by Arrow's C interface."""
    streams = hasattr(values, "__arrow_c_stream__")
    if hasattr(values, "__arrow_c_array__"):
        try:
            return pa.array(values)
        except ValueError:  # nanoarrow exports an Array of several chunks as a stream only
            if not streams:
                raise
    if streams:
        # Polars exports the addresses of objects, as binary values of 8 bytes.
        if "Object" in map(str, [getattr(values, "dtype", None), *getattr(values, "dtypes", ())]):
            raise UnsupportedError(
                "values: tensors cannot hold objects, the dtype of a column of Polars; "
                "LoDTensor.from_lists(column.to_list()) takes those that are numbers, text or times"
            )
        return pa.chunked_array(values)
    remedy = "pyarrow.array makes one of a list or a Series"
    if hasattr(values, "collect"):  # a LazyFrame of Polars
        remedy = "its collect() makes one"
    elif hasattr(values, "with_format"):  # a Dataset of Hugging Face
        remedy = "its with_format('arrow')[:] is one"
    raise InvalidDataError(
        f"values: expected an Arrow array or table, found {type(values).__name__}; {remedy}"
    )


def _require_one(names: list[str]) -> None:
    if len(names) != 1:
        raise InvalidDataError(
            f"values: expected one column, found {len(names)} ({', '.join(names)}); choose one"
        )


def _in_one_piece(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return values


def _kept_names(field: pa.Field) -> LevelNames | None:
    found = (field.metadata or {}).get(NAMES_KEY)
    try:
        names = None if found is None else json.loads(found)
    except (ValueError, RecursionError):
        names = None  # not written by lod
    return tuple(names) if isinstance(names, list) else None


def _extents(kind: Any) -> list[int]:
    """Return the shape of tensors of a fixed shape, [] for other values.

    Raises:
        UnsupportedError: their axes are permuted.
    """
    while isinstance(kind, pa.BaseExtensionType):
        if isinstance(kind, pa.FixedShapeTensorType):
            if kind.permutation is not None and kind.permutation != sorted(kind.permutation):
                raise UnsupportedError(
                    f"values: the axes of the tensors are permuted as {kind.permutation}; take "
                    "their to_numpy_ndarray(), whose axes are in order"
                )
            return list(kind.shape)
        kind = kind.storage_type
    return []


def _coded(array: Any) -> tuple[Any, Categories | None]:
    """Return an array without encodings; for a dictionary of text, the codes and the words."""
    while isinstance(array, pa.ExtensionArray) and not isinstance(array, pa.Bool8Array):
        array = array.storage
    if isinstance(array, pa.DictionaryArray) and is_text(array.type.value_type):
        words = categories_of(array)
        if words is not None:
            return array.indices, words
    return _plain(array), None


def _plain(array: Any) -> Any:
    while True:
        if isinstance(array, pa.Bool8Array):
            return array.storage.cast(pa.bool_())
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif types.is_run_end_encoded(array.type):
            array = _without_views(_plain(array.values)).take(_runs(array))
        elif types.is_fixed_size_binary(array.type):
            return _of_bytes(array)
        elif types.is_null(array.type):  # as readers of files do
            return array.cast(pa.bool_())
        else:
            return array


def _runs(array: Any) -> pa.Array:
    """Return the number of the run of each item of an array, which may be a slice."""
    start = array.offset
    ends = np.clip(array.run_ends.to_numpy(), start, start + len(array)).astype(np.int64)
    return pa.array(np.repeat(np.arange(ends.size), np.diff(ends, prepend=start)))


def _of_bytes(array: Any) -> Any:
    """Return binary values of a fixed size as lists of their bytes."""
    width, stop = array.type.byte_width, array.offset + len(array)
    valid, data = array.buffers()
    letters = pa.Array.from_buffers(pa.uint8(), stop * width, [None, data])
    kind = pa.list_(pa.uint8(), width)
    return pa.Array.from_buffers(
        kind, len(array), [valid], array.null_count, array.offset, [letters]
    )


def _is_row(array: Any) -> bool:
    """Return whether values are rows: numbers, or fixed-size lists of them."""
    while types.is_fixed_size_list(array.type) or isinstance(array, pa.ExtensionArray):
        array = array.storage if isinstance(array, pa.ExtensionArray) else array.values
    kind = array.type
    if isinstance(array, pa.DictionaryArray) and is_text(kind.value_type):
        return categories_of(array) is not None
    if types.is_run_end_encoded(kind):
        kind = kind.value_type
    number = types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)
    other = types.is_null(kind) or types.is_fixed_size_binary(kind) or marks_of(kind) is not None
    return bool(number) or other


def _without_views(array: Any) -> Any:
    """Return text and bytes as large ones instead of views, which Arrow does not filter."""
    kind = array.type
    if types.is_string_view(kind) or types.is_binary_view(kind):
        return array.cast(pa.large_string() if is_text(kind) else pa.large_binary())
    for is_one, make, buffers in _LISTS:
        if is_one(kind):
            values = array.values
            items = _without_views(values)
            if items is values:
                break
            # Not a cast of the lists: a cast of list views with nulls loses items.
            given = array.buffers()[:buffers]
            return pa.Array.from_buffers(
                make(items.type), len(array), given, array.null_count, array.offset, [items]
            )
    return array


def _opened(array: Any) -> tuple[Offsets, Any]:
    """Return the offsets of lists, text or bytes, rebased to 0, and their items."""
    kind = array.type
    if any(is_one(kind) for is_one in _TEXT):
        array = array.cast(pa.large_binary())
    if types.is_large_binary(array.type):
        count = len(array)
        bounds = np.frombuffer(array.buffers()[1], np.int64)[array.offset :][: count + 1]
        letters = array.buffers()[2]
        low, high = (int(bounds[0]), int(bounds[-1])) if count else (0, 0)
        data = pa.py_buffer(b"") if letters is None else letters.slice(low, high - low)
        return _rebased(bounds), pa.Array.from_buffers(pa.uint8(), high - low, [None, data])
    if types.is_list(kind) or types.is_large_list(kind):
        bounds = array.offsets.to_numpy()
        low, high = int(bounds[0]), int(bounds[-1])
        return _rebased(bounds), array.values.slice(low, high - low)
    if types.is_fixed_size_list(kind):
        return np.arange(len(array) + 1) * kind.list_size, array.flatten()
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        import pyarrow.compute as pc  # slow to import

        lengths = pc.list_value_length(array).to_numpy()
        return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]), array.flatten()
    raise UnsupportedError(f"values: tensors cannot hold the Arrow type {kind}")


def _rebased(bounds: Array) -> Offsets:
    if not bounds.size:
        return np.zeros(1, np.int64)
    wide = bounds.astype(np.int64, copy=False)
    return wide - bounds[0] if bounds[0] else wide
