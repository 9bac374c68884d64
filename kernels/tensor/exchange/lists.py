"""Nested lists, lists of arrays and padded batches to rows with an index, and back."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from numbers import Number
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import dtype_of_rows
from lodcli.kernels.errors import InvalidDataError, OptionError, UnsupportedError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import MOST_AXES, array_of, as_array
from lodcli.kernels.tensor.casting import cast
from lodcli.kernels.tensor.exchange.rows import rows_of
from lodcli.kernels.tensor.exchange.units import integers, objects, of_numpy
from lodcli.kernels.tensor.marks import BYTES, NO_MARKS, TEXT, Marks, check_text
from lodcli.kernels.tensor.nulls import Mask, Nulls
from lodcli.kernels.tensor.numpy_protocol import NumpyProtocol

Names = Sequence[str | None] | None
# Only deeper lists are searched for one that contains itself: this takes time and memory.
_USUAL_DEPTH = 4


def rows_of_lists(
    values: Any, levels: int | None, dtype: npt.DTypeLike | None, names: Names
) -> tuple[Array, LoD, Marks, Nulls]:
    """Return the rows, index, marks and nulls of nested lists.

    The innermost items are numbers, arrays, text, dates, times or decimals. None is a null.

    Raises:
        InvalidDataError: lists mixed with other values, fewer levels than `levels`, or a list that
            contains itself.
        OptionError: no such dtype.
    """
    dtype = None if dtype is None else dtype_of_rows(dtype)
    lengths, masks, lists = list[list[int]](), list[Mask | None](), set[int]()
    items, mask = _filled(_items(values), lists=levels not in (None, 0), rows=levels == 0)
    while items and (levels is None or len(lengths) < levels):
        if all(map(_is_array, items)):
            parts = [rows_of(item) for item in items]
            rows, marks = _timed(_joined(parts, dtype))
            index = LoD.from_lengths([*lengths, [part.shape[0] for part in parts]], names)
            return rows, index, marks, Nulls.of([*masks, mask, None])
        if not isinstance(items[0], list | tuple):
            break
        _require_lists(items, len(lengths))
        if len(lengths) >= _USUAL_DEPTH:
            lists.update(map(id, items))
            # A path through more lists than there are passes one of them twice.
            if len(lengths) - _USUAL_DEPTH > len(lists):
                raise InvalidDataError("values: a list contains itself, so its nesting has no end")
        lengths.append(list(map(len, items)))
        masks.append(mask)
        items, mask = _filled(
            list(itertools.chain.from_iterable(items)),
            lists=levels is not None and len(lengths) < levels,
            rows=len(lengths) == levels,
        )
    if items and isinstance(items[0], str | bytes) and levels in (None, len(lengths) + 1):
        return (*_text(items, lengths, dtype, names), Nulls.of([*masks, mask, None]))
    missing = 0 if levels is None else levels - len(lengths)
    if missing and items:
        raise InvalidDataError(
            f"values: expected {levels} levels of lists, found {len(lengths)}, then "
            f"{type(items[0]).__name__}"
        )
    kinds = set(map(type, items))
    for kind in kinds:  # NumPy would take them as rows, without units
        if issubclass(kind, NumpyProtocol):
            raise InvalidDataError(
                f"values: expected arrays or lists at depth {len(lengths)}, found "
                f"{kind.__name__}; give to_list() of each"
            )
    if levels is None:
        _refuse_lists_and_texts(items, kinds, len(lengths))
    if dtype is None:
        rows, marks = _values(items, len(lengths))
    else:
        rows, marks = _converted(items, dtype), NO_MARKS
    index = LoD.from_lengths([*lengths, *[[]] * missing], names)
    return rows, index, marks, Nulls.of([*masks, *[None] * missing, mask])


def _refuse_lists_and_texts(items: list[Any], kinds: set[type], depth: int) -> None:
    """Raise InvalidDataError for lists, texts and other sequences among items of these types."""
    if any(issubclass(kind, list | tuple) for kind in kinds):
        raise InvalidDataError(
            f"values: a list at position {_first(items, list | tuple)} of depth {depth}, beside "
            f"{type(items[0]).__name__}"
        )
    for kind in kinds:  # NumPy would take them as rows
        if issubclass(kind, str | bytes):
            raise _another(type(items[0]), kind, _first(items, kind), depth)
        if issubclass(kind, Sequence):
            raise InvalidDataError(
                f"values: expected lists at depth {depth}, found {kind.__name__}; list() makes "
                "one of it"
            )


def _first(items: list[Any], kind: Any) -> int:
    return next(place for place, item in enumerate(items) if isinstance(item, kind))


def _timed(rows: Array) -> tuple[Array, Marks]:
    """Return rows of datetime64 and timedelta64 as int64 with marks, and others as they are."""
    if rows.dtype.kind not in "mM":
        return rows, NO_MARKS
    found, unit = of_numpy(rows)
    return found, Marks(unit=unit)


def _filled(items: list[Any], *, lists: bool, rows: bool) -> tuple[list[Any], Mask | None]:
    """Return items with an empty value for each null, and the mask of valid ones; None if all are.

    Args:
        items: of one depth.
        lists: whether nulls become empty lists if all items are null; else they become 0.
        rows: whether the items are rows, so that lists are their axes.
    """
    if not any(item is None for item in items):
        return items, None
    valid = np.array([item is not None for item in items])
    first: Any = next((item for item in items if item is not None), [] if lists else 0)
    empty: Any
    if rows and not isinstance(first, str | bytes):
        array = np.asarray(first)
        kept = array.dtype.kind in "OmM"
        empty = first if kept else np.zeros_like(array).tolist() if array.ndim else type(first)()
    elif isinstance(first, list | tuple | np.ndarray):
        empty = first[:0]
    else:
        # NumPy counts timedelta64 among its numbers.
        is_plain = isinstance(first, Number | str | bytes) and not isinstance(first, np.timedelta64)
        empty = type(first)() if is_plain else first
    return [empty if item is None else item for item in items], valid


def _text(
    items: list[Any], lengths: list[list[int]], dtype: np.dtype[Any] | None, names: Names
) -> tuple[Array, LoD, Marks]:
    """Return the rows, index and marks of text or bytes; the bytes are the finest level."""
    kind = str if isinstance(items[0], str) else bytes
    if dtype is not None and dtype != np.uint8:
        raise InvalidDataError(f"values: text is uint8: expected no other dtype, found {dtype}")
    for place, item in enumerate(items):
        if not isinstance(item, kind):
            raise _another(kind, type(item), place, len(lengths))
    try:
        parts = [item.encode() for item in items] if kind is str else items
    except UnicodeEncodeError as error:
        raise InvalidDataError(f"values: half of a surrogate pair in {error.object!r}") from None
    rows = np.frombuffer(bytearray().join(parts), np.uint8)
    index = LoD.from_lengths([*lengths, list(map(len, parts))], names)
    return rows, index, TEXT if kind is str else BYTES


def _another(expected: type, found: type, place: int, depth: int) -> InvalidDataError:
    return InvalidDataError(
        f"values: expected {expected.__name__} at position {place} of depth {depth}, as before, "
        f"found {found.__name__}{_if_missing(found)}"
    )


def _if_missing(kind: type) -> str:
    """Return the replacement for a missing value of pandas; "" for other types."""
    return "; give None for a missing value" if kind.__name__ in ("NAType", "NaTType") else ""


def nested(flat: Any, lod: LoD) -> Any:
    """Return a list, or an array of rows, split into nested lists of slices."""
    for offsets in reversed(lod.levels):
        bounds = offsets.tolist()
        flat = [flat[low:high] for low, high in itertools.pairwise(bounds)]
    return flat


def is_nested(values: Any, depth: int) -> bool:
    """Return whether lists and tuples are nested this deep, by the first value in them.

    Of empty lists only, by the deepest. Visits no value but the first, and nothing below `depth`.

    >>> is_nested([[], [[1]]], 3), is_nested([[], [[1]]], 2), is_nested([[], [[]]], 3)
    (True, False, True)
    """
    return _depth(values, depth + 1)[0] == depth


def _depth(values: Any, most: int) -> tuple[int, bool]:
    """Return how deep lists are nested, at most `most`, and whether there is a value in them."""
    if not isinstance(values, list | tuple):
        return 0, True
    if most == 1:
        return 1, True
    deepest = 0
    for one in values:
        found, is_known = _depth(one, most - 1)
        if is_known:
            return found + 1, True
        deepest = max(deepest, found)
    return deepest + 1, False


def is_one_each(values: Any, depth: int) -> bool:
    """Return whether each of the outer lists, this many deep, has one item.

    >>> is_one_each([[1, 2, 3]], 1), is_one_each([[1, 2, 3]], 2)
    (True, False)
    """
    for _ in range(depth):
        if len(values) != 1:
            return False
        values = values[0]
    return True


def texts(data: Array, lod: LoD, marks: Marks) -> list[Any]:
    """Return nested lists of the finest sequences of a tensor as str or bytes."""
    found = flat_texts(data, lod, marks)
    result: list[Any] = nested(found, lod.without_finest()) if lod.n_levels > 1 else found
    return result


def flat_texts(data: Array, lod: LoD, marks: Marks) -> list[Any]:
    """Return the finest sequences of a tensor as str or bytes, K of them."""
    raw, bounds = data.tobytes(), lod.levels[-1].tolist()
    found: list[Any] = [raw[low:high] for low, high in itertools.pairwise(bounds)]
    if marks.is_text:
        try:
            found = [one.decode() for one in found]
        except UnicodeDecodeError:
            check_text(data, lod)  # names the item
            raise
    return found


def rows_list(data: Array, marks: Marks) -> list[Any]:
    """Return rows as lists of Python objects: dates, decimals or words if they have a unit."""
    if marks.unit is None:
        found: list[Any] = data.tolist()
        return found
    flat = np.ascontiguousarray(data).reshape(-1)
    boxed = np.fromiter(objects(flat, marks.unit), object, flat.size)
    plain: list[Any] = boxed.reshape(data.shape).tolist()
    return plain


def with_nulls(data: Array, lod: LoD, marks: Marks, nulls: Nulls) -> list[Any]:
    """Return nested lists as `nested` or `texts` do, with None for each null."""
    depth, flat = lod.n_levels, list[Any]()
    if marks.values:
        flat = texts(data, LoD._trusted(lod.levels[-1:]), marks)
        depth -= 1
    else:
        flat = rows_list(data, marks)
    for level in range(depth, -1, -1):
        if level < depth:
            flat = [flat[low:high] for low, high in itertools.pairwise(lod.levels[level].tolist())]
        mask = nulls.masks[level]
        if mask is not None:
            for place in np.flatnonzero(~mask).tolist():
                flat[place] = None
    return flat


def box(data: Array, lod: LoD) -> Array:
    """Return a view of the rows with one axis for each level, whose sequences have equal length.

    Raises:
        UnsupportedError: sequences of a level differ in length; names the level and both. There
            are more axes than NumPy has.
    """
    extents = [lod.count(0)] if lod.n_levels else []
    for level in range(lod.n_levels):
        lengths = lod.lengths(level)
        wrong = np.flatnonzero(lengths != lengths[:1])
        if wrong.size:
            raise UnsupportedError(
                f"level {level}: item 0 has length {lengths[0]} and item {wrong[0]} "
                f"{lengths[wrong[0]]}, so that no array holds them; use to_padded(), to_arrays(), "
                "to_list(), or .data for the rows alone"
            )
        extents.append(int(lengths[0]) if lengths.size else 0)
    if lod.n_levels + data.ndim > MOST_AXES:
        raise UnsupportedError(
            f"{lod.n_levels} levels: an array of NumPy has at most {MOST_AXES} axes, this one "
            f"would have {lod.n_levels + data.ndim}; use to_arrays() or to_list()"
        )
    return data.reshape(*extents, *data.shape[1:]) if lod.n_levels else data


def under_mask(padded: Array, mask: npt.ArrayLike) -> tuple[Array, Offsets]:
    """Return the rows of a padded array (S, T, ...) where a mask (S, T) is true, and lengths."""
    chosen = rows_of(mask)
    if chosen.dtype != np.bool_:
        if chosen.dtype.kind not in "iu" or ((chosen != 0) & (chosen != 1)).any():
            raise InvalidDataError(
                f"mask: expected true and false, or 1 and 0; found {chosen.dtype}"
            )
        chosen = chosen != 0
    if chosen.ndim != 2 or chosen.shape != padded.shape[:2]:
        raise InvalidDataError(
            f"mask: expected shape {padded.shape[:2]}, that of padded, found {chosen.shape}"
        )
    return padded[chosen], chosen.sum(axis=1, dtype=np.int64)


def lengths_of_ids(ids: npt.ArrayLike, rows: int, count: int | None) -> Offsets:
    """Return how many rows each sequence has, given the number of the sequence of each row."""
    array = as_array(ids)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InvalidDataError(
            f"row_ids: expected a flat list of whole numbers, found {array.ndim} dimensions of "
            f"{array.dtype}"
        )
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise InvalidDataError(f"row_ids: expected less than 2**63, found {array.max()}")
    numbers: Offsets = array.astype(np.int64)
    if numbers.size != rows:
        raise InvalidDataError(
            f"row_ids: expected one for each of {rows} rows, found {numbers.size}"
        )
    falls = numbers[1:] < numbers[:-1]
    if falls.any():
        place = int(np.argmax(falls)) + 1
        raise InvalidDataError(
            f"row_ids, position {place}: expected at least {numbers[place - 1]}, found "
            f"{numbers[place]}; sort the rows by their ids first"
        )
    if numbers.size and (numbers[0] < 0 or (count is not None and numbers[-1] >= count)):
        wrong = numbers[0] if numbers[0] < 0 else numbers[-1]
        most = " or more" if count is None else f" to {count - 1}"
        raise InvalidDataError(f"row_ids: expected 0{most}, found {wrong}")
    try:
        return np.bincount(numbers, minlength=count or 0)
    except (MemoryError, ValueError):
        many = int(numbers[-1]) + 1 if count is None else count
        raise InvalidDataError(
            f"row_ids: the lengths of {many} sequences do not fit into memory; number the "
            "sequences from 0 on"
        ) from None


def _items(values: Any) -> list[Any]:
    if isinstance(values, list | tuple):
        return list(values)
    remedy = ""
    if hasattr(values, "to_list"):  # a column of pandas or Polars
        remedy = "; its to_list() makes one"
    elif hasattr(values, "dtype") and values.dtype != object:
        remedy = "; an array of rows is given with lengths, LoDTensor(rows, lengths)"
    elif isinstance(values, Iterable) and not isinstance(values, str | bytes):
        remedy = "; list() makes one"  # such as an array of arrays
    raise InvalidDataError(
        f"values: expected a list of sequences, found {type(values).__name__}{remedy}"
    )


def _is_array(item: Any) -> bool:
    return hasattr(item, "__array__") and getattr(item, "ndim", 0) > 0


def _require_lists(items: list[Any], depth: int) -> None:
    if set(map(type, items)) <= {list, tuple}:
        return
    for place, item in enumerate(items):
        if not isinstance(item, list | tuple):
            raise InvalidDataError(
                f"values: expected a list at position {place} of depth {depth}, found "
                f"{type(item).__name__}, as the others there are lists"
            )


def _joined(parts: list[Array], dtype: np.dtype[Any] | None) -> Array:
    for place, part in enumerate(parts):
        if part.shape[1:] != parts[0].shape[1:]:
            raise InvalidDataError(
                f"values: array {place} has rows of shape {part.shape[1:]}, array 0 of "
                f"{parts[0].shape[1:]}"
            )
    try:
        joined: Array = np.concatenate(parts)
    except TypeError:
        kinds = ", ".join(dict.fromkeys(str(part.dtype) for part in parts))
        raise InvalidDataError(f"values: no dtype holds all of {kinds}") from None
    if dtype is not None:
        if joined.dtype.hasobject:
            return _converted(list(joined), dtype)
        _require_fit(joined, dtype)
        return joined.astype(dtype, copy=False)
    if joined.dtype.kind == "f" and all(part.dtype.kind in "iu" for part in parts):
        # NumPy makes float64 of them, which lacks digits.
        raise InvalidDataError(
            "values: no dtype holds negative numbers and those of uint64; choose one with dtype="
        )
    return joined


def _values(items: list[Any], depth: int) -> tuple[Array, Marks]:
    """Return the rows of the innermost items, and their marks: those of times or decimals.

    Raises:
        InvalidDataError: they are no values, or no dtype holds all of them.
    """
    rows = as_array(items)
    if not rows.dtype.hasobject:
        return _timed(rows)
    if found := integers(items):
        return found[0], Marks(unit=found[1])
    wrong = [place for place, item in enumerate(items) if np.asarray(item).dtype.hasobject]
    item = items[wrong[0]]
    shown = f"{item}" if isinstance(item, int) else type(item).__name__
    raise InvalidDataError(
        "values: expected numbers of at most 64 bits, text, times, decimals or None, "
        f"found {shown} at position {wrong[0]} of depth {depth}{_if_missing(type(item))}"
    )


def _converted(items: list[Any], dtype: np.dtype[Any]) -> Array:
    try:
        with np.errstate(over="ignore"):  # _require_fit reports it
            rows = np.asarray(items, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidDataError(f"values: cannot be rows of {dtype}: {error}") from None
    # NumPy refuses whole numbers of Python that an integer dtype does not hold.
    if dtype.kind not in "iu" or set(map(type, items)) != {int}:
        _require_fit(array_of(items, rounded=True), dtype)
    return rows


def _require_fit(values: Array, dtype: np.dtype[Any]) -> None:
    """Raise InvalidDataError if a number is out of the range of a dtype other than bool.

    NumPy refuses such numbers of Python, but wraps those of arrays.
    """
    if values.dtype.kind in "mMSU":
        raise InvalidDataError(f"values: cannot be rows of {dtype}: found {values.dtype}")
    if values.dtype == dtype or values.dtype.hasobject or dtype.kind == "b":
        return
    fits = cast(values, dtype, rounded=True)[1]
    if not fits.all():
        place = np.unravel_index(int(np.argmin(fits)), fits.shape)
        raise InvalidDataError(
            f"values: cannot be rows of {dtype}: found {values[place]} in row {place[0]}"
        )


def one_of(what: str, **given: object) -> None:
    """Raise OptionError unless exactly one of these arguments was given."""
    found = [name for name, value in given.items() if value is not None]
    if len(found) != 1:
        raise OptionError(f"{what} takes one of {' and '.join(given)}, found {len(found)}")
