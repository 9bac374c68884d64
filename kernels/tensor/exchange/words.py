"""Categories as text, and the dtype of their codes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.tensor.exchange.lists import flat_texts
from lodcli.kernels.tensor.exchange.units import OBJECTS, in_unit
from lodcli.kernels.tensor.marks import (
    Categories,
    Decimals,
    Marks,
    Times,
    check_codes,
    codes_of,
)
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls


def words_of(
    data: Array, lod: LoD, categories: Categories, nulls: Nulls = NO_NULLS
) -> tuple[Array, LoD, Nulls]:
    """Return the words of codes as UTF-8 bytes, with their index and nulls.

    Each axis of a row becomes a level, and so do the bytes of a word.

    Raises:
        InvalidDataError: a code that no word has.

    >>> found = words_of(np.array([1, 0]), LoD(), Categories(("no", "yes")))
    >>> found[0].tobytes(), found[1]
    (b'yesno', LoD.from_lengths([[3, 2]]))
    """
    check_codes(data, lod, categories, nulls.rows)
    levels, shape, valid = list(lod.levels), data.shape[1:], nulls.rows
    for axis, extent in enumerate(shape):
        count = int(levels[-1][-1]) if axis else len(data)
        lengths = np.full(count, extent, np.int64)
        if valid is not None and not axis:
            lengths[~valid] = 0
            data = data[valid]
        levels.append(lengths_to_offsets(lengths, level=len(levels)))
    codes = data.reshape(-1).astype(np.int64, copy=False)
    encoded = [word.encode() for word in categories.words]
    # If there are no words, all rows are null and have code 0: that of an empty word.
    sizes = np.array([*map(len, encoded), 0], np.int64)
    lengths = sizes[codes]
    if valid is not None and not shape:
        lengths[~valid] = 0
    letters = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = lengths_to_offsets(lengths, level=len(levels))
    index = LoD._trusted([*levels, offsets], [*lod.names, *[None] * (len(shape) + 1)])
    masks = [*nulls.masks, *[None] * (len(shape) + 1)] if nulls else []
    starts = (np.cumsum(sizes) - sizes)[codes]
    return letters[ranges(starts, offsets)], index, Nulls.of(masks)


def _as_list(value: Any) -> Any:
    """Return a sequence, or an array of any library, as nested lists; other values as they are."""
    if value is None or isinstance(value, int | float | str | bytes | type):
        return value
    method = getattr(value, "tolist", None) or getattr(value, "to_list", None)
    if method is not None:
        values = method()
        if not isinstance(values, list):  # a single value
            return value
    elif isinstance(value, Sequence) or np.ndim(value):
        values = list(value)
    else:
        return value
    return [_as_list(one) for one in values]


def _has_list(given: list[Any], tensor: Any) -> bool:
    """Return whether an outermost item of a LoDTensor equals a list that `_as_list` returned."""
    items = (tensor[int(place)] for place in _places_of(given, tensor))
    return any(item is not None and _are_equal(given, item.to_list()) for item in items)


def _places_of(given: list[Any], tensor: Any) -> Array:
    """Return the numbers of the outermost items that may equal a list."""
    if tensor.lod.n_levels:
        return np.flatnonzero(tensor.lod.lengths(0) == len(given))
    data = tensor.values
    if data.ndim == 1 or data.shape[1] != len(given):
        return np.empty(0, np.int64)
    if type(data) is np.ndarray and tensor.marks.unit is None:
        with suppress(ValueError):  # a ragged list
            values = np.array(given)
            if values.dtype.kind in "biufc":
                equal = data == values if values.shape == data.shape[1:] else np.zeros(0, np.bool_)
                return np.flatnonzero(equal.all(axis=tuple(range(1, equal.ndim))))
    return np.arange(len(data))


def _are_equal(given: Any, expected: Any) -> bool:
    """Return whether two values, or nested lists of them, are equal."""
    if isinstance(given, list) and isinstance(expected, list):
        return len(given) == len(expected) and all(map(_are_equal, given, expected))
    # Compared with a list, a number of NumPy returns an array.
    if isinstance(given, list) or isinstance(expected, list):
        return False
    try:
        return bool(given == expected)
    except (TypeError, ValueError, ArithmeticError):  # no truth value, as NA of pandas
        return False


def has_value(value: Any, tensor: Any) -> bool:
    """Return whether a LoDTensor has a value.

    A number, time, decimal or category is compared with each row, a text with each sequence, and a
    list or an array with each outermost item. None is in a tensor with nulls.
    """
    value = _as_list(value)
    if isinstance(value, list):
        return _has_list(value, tensor)
    data, lod, marks, nulls = tensor.values, tensor.lod, tensor.marks, tensor.nulls
    if value is None:
        return bool(nulls)
    if isinstance(value, (*OBJECTS, str)) and isinstance(marks.unit, Times | Decimals):
        try:
            value = in_unit(value, marks.unit)
        except InvalidDataError:  # of another kind, or between two numbers of the unit
            return False
    if isinstance(value, str) and marks.categories is not None:
        if value not in marks.categories.words:
            return False
        value = marks.categories.words.index(value)
    if not isinstance(value, str | bytes):
        try:
            found = data == value
            return bool(found.any() if nulls.rows is None else found[nulls.rows].any())
        # Without a truth value, as NA of pandas, or an int that no float holds.
        except (TypeError, ValueError, ArithmeticError):
            return False
    if not marks.values or marks.is_text != isinstance(value, str):
        return False
    # Half of a surrogate pair is in no text.
    raw = value.encode(errors="surrogatepass") if isinstance(value, str) else value
    offsets = lod.levels[-1]
    equal = offsets_to_lengths(offsets) == len(raw)
    if nulls.masks and (valid := nulls.masks[-2]) is not None:
        equal &= valid
    places = offsets[:-1][equal][:, None] + np.arange(len(raw))
    return bool((on_host(data, "text")[places] == np.frombuffer(raw, np.uint8)).all(axis=1).any())


def as_codes(
    data: Array,
    lod: LoD,
    marks: Marks,
    nulls: Nulls,
    words: Sequence[str] | None,
    *,
    ordered: bool,
) -> tuple[Array, LoD, Marks, Nulls]:
    """Return texts, or whole numbers, as codes of words: the parts of a tensor.

    Args:
        data, lod, marks, nulls: of a tensor. Texts become int64 under one level fewer.
        words: the categories; None: those of the texts, sorted.
        ordered: whether categories compare by their order.

    Raises:
        InvalidDataError: a text that is no category, or a row that is not the code of one.
    """
    texts = flat_texts(on_host(data, "categories"), lod, marks) if marks.is_text else None
    if texts is not None:
        whole, lod, nulls = lod, lod.without_finest(), Nulls.of(nulls.masks[:-1])
        valid = np.ones(len(texts), np.bool_) if nulls.rows is None else nulls.rows
        if words is None:
            words = sorted({text for text, there in zip(texts, valid, strict=True) if there})
    if words is None or isinstance(words, str):
        found = "none" if words is None else "one text"
        raise InvalidDataError(f"categories: expected a list of words, found {found}")
    known = Categories(tuple(str(w) if isinstance(w, str) else w for w in words), ordered)
    marks = replace(marks, values=None, unit=known)
    if texts is not None:
        data = np.where(valid, codes_of(tuple(texts), known.words), 0)
        if data.min(initial=0) < 0:
            place = int(np.argmin(data))
            branch = ",".join(map(str, branch_of(whole, whole.n_levels - 1, place)))
            try:
                known.code_of(texts[place])
            except InvalidDataError as error:
                raise InvalidDataError(f"text <{branch}>: {error}") from None
    elif data.dtype.kind in "iu":  # others are refused with their marks
        check_codes(on_host(data, "categories"), lod, known, nulls.rows)
    return data, lod, marks, nulls


def recoded(data: Array, own: Categories, other: Categories) -> Array:
    """Return codes as those of other categories that have all words; the dtype may be wider."""
    dtype = dtype_of_codes(data.dtype, other)
    if own.words == other.words[: len(own.words)]:
        return data.astype(dtype, copy=False)
    codes = own.codes_in(other).astype(dtype)
    return codes[data] if codes.size else np.zeros_like(data, dtype)


def dtype_of_codes(dtype: np.dtype[Any], categories: Categories) -> np.dtype[Any]:
    """Return a dtype, or the next wider one of its kind that fits the codes of all words."""
    wide = dtype
    while len(categories.words) - 1 > np.iinfo(wide).max:
        wide = np.dtype(f"{wide.kind}{2 * wide.itemsize}")
    return wide
