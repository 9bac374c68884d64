"""Values in expressions, one for each item or for each row, and operations on them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lodcli.expressions.comparisons import (
    MIRRORED,
    compared,
    compared_pairs,
    is_rounded,
    require_exact,
)
from lodcli.expressions.function_table import MEDIAN, QUANTILE, properties_of
from lodcli.expressions.functions import (
    TWO,
    both_valid,
    fits,
    known_of,
    overflowed,
    rounded,
    valid_of,
    written,
)
from lodcli.kernels.dtypes import has_nan, is_float
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.pooling.pool import (
    segment_first,
    segment_last,
    segment_max,
    segment_mean,
    segment_min,
    segment_sum,
)
from lodcli.kernels.ops.sorting.quantile import segment_quantile
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.nulls import Mask

# Functions whose result may be the negative of a value.
_SIGNED = (np.absolute, np.negative, np.sign)


@dataclass(frozen=True)
class Values:
    """Values of the items.

    Attributes:
        data: a number for all items (), a row for each item (K, ...), or all rows (N, ...).
        rows: (K + 1,) offsets of the rows of each item; None if each item has one.
        valid: True where a row of the data is not null; None where none is.
        items: (K,), True where an item is not null; None where none is, or each item has one row.
    """

    data: Array
    rows: Offsets | None = None
    valid: Mask | None = None
    items: Mask | None = None

    @property
    def number(self) -> Array:
        """The data in a dtype in which small sums and products do not overflow."""
        dtype = self.data.dtype
        if dtype.kind in "bi" or (dtype.kind == "u" and not _exceeds(self.data, 2**63 - 1)):
            return self.data.astype(np.int64, copy=False)
        if dtype.kind == "u":
            return self.data.astype(np.longdouble)
        if dtype.itemsize == 2:
            return self.data.astype(np.float32)
        return self.data

    @property
    def true(self) -> Mask:
        """Where the data is neither 0, nan nor null, also of single values of a row."""
        found: Mask = np.not_equal(self.data, 0)
        if has_nan(self.data.dtype):
            found = found & ~np.isnan(self.data)
        if self.valid is None:
            return found
        return found & self.valid.reshape(-1, *[1] * (found.ndim - 1))

    @property
    def condition(self) -> Values:
        """The values with nulls in place of nan; a row of several values is null as a whole."""
        return self._without_nan(np.all)

    @property
    def asked(self) -> Values:
        """The values with nulls in place of rows with only nan, for `any` and `all`."""
        return self._without_nan(np.any)

    def _without_nan(self, of_row: Callable[..., Any]) -> Values:
        if not has_nan(self.data.dtype) or not self.data.ndim:
            return self
        known = ~np.isnan(self.data)
        if known.ndim > 1:
            known = np.asarray(of_row(known, axis=tuple(range(1, known.ndim))))
        return self if known.all() else replace(self, valid=both_valid(self.valid, known))

    @property
    def signed(self) -> Array:
        """The number in a dtype that also holds the negative of every value."""
        if is_float(self.data.dtype):
            return self.data
        number = self.number
        if number.dtype == np.int64 and np.any(number == np.iinfo(np.int64).min):
            return number.astype(np.longdouble)
        return number


def as_floats(data: Array) -> Array:
    """Return integers as floats of the same value; other data as it is.

    Integers beyond 2**53 become long doubles, which hold each of 64 bits on Linux.
    """
    if data.dtype.kind not in "iu":
        return data
    return data.astype(np.longdouble if _exceeds(data, 2**53) else np.float64)


def _exceeds(data: Array, most: int) -> bool:
    if np.iinfo(data.dtype).max <= most or not data.size:
        return False
    return bool(data.max() > most or data.min() < -most)


def below(lod: LoD, level: int) -> Offsets | None:
    """Return the offsets that group the items of a level by outermost item.

    None for level 0: its items are the outermost ones.
    """
    if not level:
        return None
    offsets = lod.levels[0]
    for each in lod.levels[1:level]:
        offsets = each[offsets]
    return offsets


def combined(
    function: Callable[[Array, Array], Array], left: Values, right: Values, first: int = 0
) -> Values:
    """Return an elementwise function of two values; values of items are broadcast to their rows.

    Args:
        first: the number of the first item, for messages.

    Raises:
        InvalidDataError: they have different rows, or the function is not defined for them.
    """
    rows = _common_rows((left, right), first)
    if isinstance(function, np.ufunc) and function in MIRRORED:
        if left.data.ndim and not right.data.ndim and right.valid is None:
            return replace(left, data=compared(function, left.data, right.data))
        if right.data.ndim and not left.data.ndim and left.valid is None:
            return replace(right, data=compared(MIRRORED[function], right.data, left.data))
    rounds = isinstance(function, np.ufunc) and function in MIRRORED
    rounds = rounds and is_rounded(left.data.dtype, right.data.dtype)
    picks = function in TWO.values() or not isinstance(function, np.ufunc)
    numbers = _numbers((left, right), picks=picks)
    if rounds:
        numbers = [left.data, right.data]
    a, b = (_repeated(one, data, rows) for one, data in zip((left, right), numbers, strict=True))
    masks = [
        one.valid if one.valid is None else _repeated(one, one.valid, rows) for one in (left, right)
    ]
    valid = valid_of(function, (a, b), masks)
    items = both_valid(left.items, right.items)
    if rounds:
        assert isinstance(function, np.ufunc)
        return Values(compared_pairs(function, *_in_axes(a, b)), rows, valid, items)
    a, b = _of_one_kind(a, b)
    if function is np.power or (
        function in TWO.values() and is_float(np.result_type(a, b))  # it picks a whole number
    ):
        a, b = as_floats(a), as_floats(b)
    divides = function in (np.floor_divide, np.remainder)  # also of constants: 1 % 0 is nan
    if (
        a.dtype == b.dtype == np.int64
        and (a.ndim or b.ndim or divides)
        and not fits(function, a, b)
    ):
        a, b = a.astype(np.longdouble), b.astype(np.longdouble)
    try:
        return Values(function(a, b), rows, valid, items)
    except TypeError:  # a remainder of complex numbers
        what = f"{written(function)} is not defined for {a.dtype} and {b.dtype}"
        raise InvalidDataError(what) from None


def _numbers(values: Sequence[Values], *, picks: bool) -> list[Array]:
    """Return the numbers that are computed with: see `Values.number`.

    If one is picked, floats of two bytes stay as they are, with numbers () of their precision, so
    that a comparison with a number rounds it alike.
    """
    dtypes = {one.data.dtype for one in values if one.data.ndim}
    dtype = next(iter(dtypes), np.dtype(np.float64))
    if picks and len(dtypes) == 1 and is_half(dtype):
        found = [one.data if one.data.ndim else rounded(one.data, dtype) for one in values]
        if all(one.dtype == dtype for one in found):
            return found
    return [one.number for one in values]


def _common_rows(values: Sequence[Values], first: int) -> Offsets | None:
    """Return the offsets of the rows that values have or are broadcast to; None without rows.

    Raises:
        InvalidDataError: they have different rows.
    """
    several = [one.rows for one in values if one.rows is not None]
    for one in several[1:]:
        if one is several[0]:
            continue
        counts, others = np.diff(several[0]), np.diff(one)
        if not np.array_equal(counts, others):
            item = int(np.argmax(counts != others))
            raise InvalidDataError(
                f"the two sides have different numbers of rows in item {first + item}: "
                f"{counts[item]} and {others[item]}"
            )
    return several[0] if several else None


def _of_one_kind(a: Array, b: Array) -> tuple[Array, Array]:
    """Return two arrays with as many axes; a number is rounded to the other's dtype.

    Raises:
        InvalidDataError: rows of different shapes.
    """
    if not a.ndim or not b.ndim:
        if a.ndim:
            b = rounded(b, a.dtype)
        elif b.ndim:
            a = rounded(a, b.dtype)
        return a, b
    one, two = _in_axes(a, b)
    return one, two


def _in_axes(*arrays: Array) -> list[Array]:
    """Return arrays with equally many axes. Raises InvalidDataError: rows of different shapes."""
    shapes = list(dict.fromkeys(one.shape[1:] for one in arrays if one.ndim > 1))
    if len(shapes) > 1:
        raise InvalidDataError(f"the two sides have rows of shape {shapes[0]} and {shapes[1]}")
    rank = max(one.ndim for one in arrays)
    return [one.reshape(one.shape + (1,) * (rank - one.ndim)) for one in arrays]


def chosen(condition: Values, left: Values | None, right: Values | None, first: int) -> Values:
    """Return values of the left where a condition is true, and else of the right.

    Args:
        condition: is not true where it is null or nan.
        left, right: None for nulls; not both.
        first: the number of the first item, for messages.

    Raises:
        InvalidDataError: they have different rows, or their common dtype rounds a chosen one; the
            null of no tensor is chosen.
    """
    given = [one for one in (condition, left, right) if one is not None]
    if not any(one.data.ndim for one in given) and (left if condition.true else right) is None:
        raise InvalidDataError("expected a tensor among the condition and the values")
    rows = _common_rows(given, first)
    true = _repeated(condition, condition.true, rows)
    both = [Values(np.zeros((), np.int64)) if one is None else one for one in (left, right)]
    numbers = zip(both, _numbers(both, picks=True), strict=True)
    sides = [_repeated(one, data, rows) for one, data in numbers]
    valid = [
        np.asarray(one is not None)
        if one is None or one.valid is None
        else _repeated(one, one.valid, rows)
        for one in (left, right)
    ]
    true, a, b = _in_axes(true, *_of_one_kind(sides[0], sides[1]))
    data = np.where(true, a, b)
    valid = [_in_so_many_axes(one, data.ndim) for one in valid]
    _require_exact(sides, (true & valid[0], ~true & valid[1]), data)
    known = np.where(true, *valid)
    if known.ndim > 1:  # a row of several values is null as a whole
        known = np.asarray(known.all(axis=tuple(range(1, known.ndim))))
    items = functools.reduce(both_valid, (one.items for one in given))
    whole = None if known.all() else np.broadcast_to(known, data.shape[:1])
    return Values(data, rows, whole, items)


def coalesced(left: Values, right: Values, first: int) -> Values:
    """Return values with others in place of nulls; those of a null item stay null.

    Args:
        first: the number of the first item, for messages.

    Raises:
        InvalidDataError: they have different rows, or their common dtype rounds a chosen one.
    """
    rows = left.rows if left.rows is not None else right.rows
    masks = [
        _repeated(
            one, np.broadcast_to(True if one.valid is None else one.valid, len(one.data)), rows
        )
        if one.data.ndim
        else np.asarray(True)
        for one in (left, right)
    ]

    def chosen(a: Array, b: Array) -> Array:
        return np.where(masks[0].reshape(-1, *[1] * (max(a.ndim, b.ndim) - 1)), a, b)

    found = combined(chosen, replace(left, valid=None), replace(right, valid=None), first)
    valid = masks[0] | masks[1]
    wheres = [_in_so_many_axes(one, found.data.ndim) for one in (masks[0], ~masks[0] & masks[1])]
    _require_exact([_repeated(x, x.number, rows) for x in (left, right)], wheres, found.data)
    return replace(found, valid=None if valid.all() else valid)


def _require_exact(sides: Sequence[Array], wheres: Sequence[Mask], data: Array) -> None:
    """Raise InvalidDataError if a whole number of a side, where it is chosen, is not in data."""
    require_exact([_in_so_many_axes(one, data.ndim) for one in sides], wheres, data.dtype)


def _in_so_many_axes(array: Array, ndim: int) -> Array:
    """Return an array with further axes of length 1; a number () as it is."""
    return array.reshape(array.shape + (1,) * (ndim - array.ndim)) if array.ndim else array


def elementwise(function: np.ufunc, values: Values) -> Values:
    """Return an elementwise function of values.

    Raises:
        InvalidDataError: it is not defined for them.
    """
    data = values.signed if function in _SIGNED else values.number
    if function in (np.ceil, np.floor, np.rint) and data.dtype.kind == "i":
        return replace(values, data=data)
    try:
        return replace(values, data=function(data))
    except TypeError:
        raise InvalidDataError(f"{written(function)} is not defined for {data.dtype}") from None


def _repeated(values: Values, data: Array, rows: Offsets | None) -> Array:
    """Return the data, or the mask, of values for each row, if they have one for each item."""
    if rows is None or values.rows is not None or not data.ndim:
        return data
    return data.repeat(np.diff(rows), axis=0)


def _flat(values: Values) -> tuple[Array, Offsets]:
    """Return all values of all items, flat, and the offsets of the items in them."""
    data = values.data
    width = int(np.prod(data.shape[1:], dtype=np.int64))
    offsets = np.arange(len(data) + 1) if values.rows is None else values.rows
    return np.ascontiguousarray(data).reshape(-1), offsets * width


def _require_order(data: Array) -> None:
    if data.dtype.kind == "c":
        raise InvalidDataError("complex numbers have no order")


def _pooled(reference: Callable[..., Array], values: Values) -> Array:
    data, offsets = _flat(values)
    if reference in (segment_max, segment_min):
        _require_order(data)
    backend: Backend = "numpy" if data.dtype == np.longdouble else "auto"
    pooled: Array = on(backend, reference, size_bytes=data.nbytes)(data, offsets)
    return pooled


def _one_row(reference: Callable[..., Array]) -> Callable[[Values], Array]:
    def one(values: Values) -> Array:
        if values.data.ndim > 1:
            shape = values.data.shape[1:]
            raise InvalidDataError(f"rows have shape {shape}; name a column, as in data[0]")
        return _pooled(reference, values)

    return one


def _sum(values: Values) -> Array:
    data, offsets = _flat(values)
    if data.dtype.kind in "iu" and data.size:
        most = max(abs(int(data.min())), int(data.max())) * int(np.diff(offsets).max())
        if most > 2**63 - 1:
            wide = _pooled(segment_sum, Values(data.astype(np.longdouble), offsets))
            found = _pooled(segment_sum, values)
            return wide if overflowed(found, wide) else found
    return _pooled(segment_sum, values)


def _quantile(values: Values, fraction: float) -> Array:
    data, offsets = _flat(values)
    _require_order(data)
    return segment_quantile(data, offsets, fraction)


def _any(values: Values) -> Array:
    return np.greater(_pooled(segment_sum, Values(values.true, values.rows)), 0)


def _all(values: Values) -> Array:
    return np.equal(_pooled(segment_sum, Values(values.data == 0, values.rows)), 0)


def reduced(name: str, values: Values, *options: float) -> Values:
    """Return a function of all values of each item, by its name, with its options.

    Nulls are skipped, but `first` and `last` may be null; for `any` and `all`, nan is a null too.
    The result is null for a null item, for one of which all values are null, and, unless the
    function has a value for none, for one without values.
    """
    if properties_of(name).asks:
        values = values.asked
    valid, rows = values.valid, values.rows
    if rows is None:
        rows = np.arange(len(values.data) + 1)
    # Rows of no values have none.
    known = known_of(name, rows * 0 if 0 in values.data.shape[1:] else rows, valid)
    given = values
    if valid is not None and not properties_of(name).picks_by_place:
        counts = np.concatenate([[0], np.cumsum(valid)])[rows]
        given = Values(values.data[valid], counts)
    mask = both_valid(None if known.all() else known, values.items)
    return Values(REDUCTIONS[name](given, *options), valid=mask)


REDUCTIONS: dict[str, Callable[..., Array]] = {
    "sum": _sum,
    "mean": functools.partial(_pooled, segment_mean),
    MEDIAN: _quantile,
    QUANTILE: _quantile,
    "max": functools.partial(_pooled, segment_max),
    "min": functools.partial(_pooled, segment_min),
    "first": _one_row(segment_first),
    "last": _one_row(segment_last),
    "any": _any,
    "all": _all,
}
