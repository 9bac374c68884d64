"""Elementwise functions of tensors and numbers, and the nulls of their results."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.expressions.comparisons import compared, require_exact
from lodcli.expressions.functions import both_valid, valid_of, written
from lodcli.expressions.operations import UnfitError
from lodcli.kernels.dtypes import has_nan, is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.rows import per_row
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, Nulls

Values = LoDTensor | bool | int | float
_MOST = 2**63 - 1


def arithmetic(function: Callable[..., Any], *values: Values) -> Values:
    """Return the result of an elementwise function of tensors and numbers, in NumPy's dtype.

    Args:
        values: the tensors have one index. What is computed from a null is null: see `valid_of`.

    Raises:
        InvalidDataError: the function is not defined for these dtypes.
    """
    if any(isinstance(one, LoDTensor) and one.nulls for one in values):
        made = arithmetic(function, *map(_without_nulls, values))
        assert isinstance(made, LoDTensor)
        data = [one.values if isinstance(one, LoDTensor) else np.asarray(one) for one in values]
        rows = [one.nulls.rows if isinstance(one, LoDTensor) else None for one in values]
        return _with_masks(made, values, valid_of(function, data, rows))
    if all(isinstance(one, int) for one in values) and any(one > _MOST for one in values):
        return _of_wide(function, *values)
    try:
        result = function(*values)
    except TypeError:
        kinds = " and ".join(
            str(one.dtype) if isinstance(one, LoDTensor) else type(one).__name__ for one in values
        )
        raise InvalidDataError(f"{written(function)} is not defined for {kinds}") from None
    except OverflowError:
        dtype = next(one.dtype for one in values if isinstance(one, LoDTensor))
        number = max((one for one in values if isinstance(one, int)), key=abs)
        raise _unfit(number, dtype) from None
    except ValueError as error:
        raise InvalidDataError(f"{written(function)}: {error}") from None
    return result if isinstance(result, LoDTensor) else result.item()


def _of_wide(function: Callable[..., Any], *numbers: Any) -> int | float:
    """Return a function of whole numbers, some beyond int64, as `lod filter` computes it.

    Long doubles hold whole numbers of 64 bits; a result beyond them, or a fraction, is a float.
    """
    found = function(*map(np.longdouble, numbers))
    if isinstance(found, np.bool_):
        return bool(found)
    whole = function is not np.true_divide and -_MOST - 1 <= found < 2**64 and found % 1 == 0
    return int(found) if whole else float(found)


def paired(function: Callable[[Array, Array], Array], left: Values, right: Values) -> LoDTensor:
    """Return a function of the values of two, which are aligned first; at least one is a tensor."""
    tensors = [one for one in (left, right) if isinstance(one, LoDTensor)]
    parts = aligned(*(one.to_device("cpu") for one in tensors))
    given = _in_place_of((left, right), parts)
    data = function(
        *(one.values if isinstance(one, LoDTensor) else np.asarray(one) for one in given)
    )
    valid = functools.reduce(both_valid, (one.nulls.rows for one in parts))
    found = _with_masks(LoDTensor(data, parts[0].lod), parts, valid)
    return found if found.nulls else found.to_device(tensors[0].device)


def coalesced(left: LoDTensor, right: Values) -> LoDTensor:
    """Return a tensor with other values in place of its null rows; null items stay null.

    Raises:
        ShapeMismatchError: sequences of different lengths.
        InvalidDataError: a number that does not fit the dtype, or a whole one that it rounds.
    """
    if isinstance(right, LoDTensor):
        left, right = aligned(left, right)
    dtype = _common_dtype((left, right))
    valid, data = left.nulls.rows, left.values.astype(dtype)
    other, rows = (
        (right.values, right.nulls.rows)
        if isinstance(right, LoDTensor)
        else (np.asarray(right), None)
    )
    known: Any = np.True_ if valid is None else per_row(valid, data.ndim)
    _require_exact((left, right), (known, ~known), dtype)
    if valid is None:
        data = np.broadcast_to(data, np.broadcast_shapes(data.shape, other.shape))
    else:
        data = np.where(known, data, other.astype(dtype))
        valid = valid | rows if rows is not None else None
    return _with_masks(LoDTensor(data, left.lod), (left, right), valid)


def chosen(condition: Values, left: Values | None, right: Values | None) -> Values:
    """Return values of the left where a condition is true, and else of the right.

    Args:
        condition: is not true where it is null or nan.
        left, right: None for nulls; not both. A null list of any of the three stays null.

    Raises:
        ShapeMismatchError: sequences of different lengths.
        InvalidDataError: a number that does not fit the dtype, a whole one that it rounds, or
            nulls without a tensor.
    """
    sides = [one for one in (left, right) if one is not None]
    tensors = [one for one in (condition, *sides) if isinstance(one, LoDTensor)]
    if not tensors:
        one = left if _true(condition) else right
        if one is None:
            raise InvalidDataError("expected a tensor among the condition and the values")
        return one
    if len(sides) == 1:  # a GPU has no nulls
        tensors = [one.to_device("cpu") for one in tensors]
    dtype, parts = _common_dtype(sides), aligned(*tensors)
    test, *both = _in_place_of((condition, left, right), parts)
    assert test is not None
    true = _true(test)
    if not isinstance(test, LoDTensor):
        true = np.full_like(parts[0].values, true, dtype=np.bool_)
    _require_exact(both, (true, ~true), dtype)
    data = np.where(true, *(_data(one, dtype) for one in both))
    masks = [one.nulls.rows if isinstance(one, LoDTensor) else None for one in both]
    rows: Mask | None = None
    if len(sides) == 1 or any(mask is not None for mask in masks):
        valid = [
            np.asarray(one is not None) if mask is None else per_row(mask, data.ndim)
            for one, mask in zip(both, masks, strict=True)
        ]
        known = np.broadcast_to(np.where(true, *valid), true.shape)
        rows = np.asarray(known.all(axis=tuple(range(1, known.ndim))))
    return _with_masks(LoDTensor(data, parts[0].lod), parts, rows)


def _in_place_of(
    values: Sequence[Values | None], tensors: Sequence[LoDTensor]
) -> list[Values | None]:
    """Return values with these tensors in place of theirs, in order."""
    waiting = iter(tensors)
    return [next(waiting) if isinstance(one, LoDTensor) else one for one in values]


def _true(values: Values) -> Any:
    """Return where values are true, which nan and nulls are not."""
    data = values.values if isinstance(values, LoDTensor) else np.asarray(values)
    found = true_of(data)
    rows = values.nulls.rows if isinstance(values, LoDTensor) else None
    return found if rows is None else found & per_row(rows, data.ndim)


def true_of(data: Array) -> Any:
    """Return where numbers are true: neither 0 nor nan."""
    found = data != 0
    return found & ~np.isnan(data) if has_nan(data.dtype) else found


def _data(values: Values | None, dtype: np.dtype[Any]) -> Any:
    """Return the array, or the number, of values; 0 for nulls."""
    if isinstance(values, LoDTensor):
        return values.values.astype(dtype, copy=False)
    return np.asarray(0 if values is None else values, dtype)[()]


def _require_exact(
    values: Sequence[Values | None], chosen: Sequence[Any], dtype: np.dtype[Any]
) -> None:
    """Raise InvalidDataError if a chosen whole number is not exact in the dtype of the result."""
    arrays = [one.values if isinstance(one, LoDTensor) else np.asarray(one) for one in values]
    known = list(chosen)
    for place, one in enumerate(values):
        if isinstance(one, LoDTensor) and one.nulls.rows is not None:
            known[place] = known[place] & per_row(one.nulls.rows, one.values.ndim)
    require_exact(arrays, known, dtype)


def require_exact_extremes(
    function: np.ufunc, left: Values, right: Values, found: LoDTensor
) -> None:
    """Raise InvalidDataError if np.maximum or np.minimum rounds the whole number that it picks.

    A picked number that is infinite in the dtype of the result is an error as well.
    """
    sides = (left, right)
    if not has_nan(found.dtype):
        return
    for side, bound in (sides, sides[::-1]):
        if isinstance(bound, LoDTensor) or not isinstance(side, LoDTensor):
            continue
        if is_float(side.dtype):
            _require_exact_bound(function, side, bound)
            return
    if not any(one.dtype.kind in "iu" for one in sides if isinstance(one, LoDTensor)):
        return
    one, two = (x.values if isinstance(x, LoDTensor) else np.asarray(x) for x in sides)
    # The picked one may be the other, if rounding makes both equal: then both must be exact.
    known = found.values == found.values  # not nan
    if found.nulls.rows is not None:
        known = known & per_row(found.nulls.rows, known.ndim)
    near = [each.astype(found.dtype) == found.values for each in (one, two)]
    _require_exact(sides, [known & each for each in near], found.dtype)


def _require_exact_bound(function: np.ufunc, values: LoDTensor, number: bool | int | float) -> None:
    """Raise InvalidDataError if floats do not hold the number that is their least or greatest."""
    passes = np.less if function is np.maximum else np.greater
    dtype, near = values.dtype, np.asarray(number).astype(values.dtype)
    picked = compared(passes, values.values, np.asarray(number))  # not where values are nan
    if values.nulls.rows is not None:
        picked = picked & per_row(values.nulls.rows, picked.ndim)
    if np.isfinite(number) and not np.isfinite(near) and picked.any():
        raise _unfit(number, dtype)
    require_exact([np.asarray(number)], [picked], dtype)


def aligned(*tensors: LoDTensor) -> tuple[LoDTensor, ...]:
    """Return tensors under one index and on one device, with rows of as many axes.

    A tensor with fewer levels has one row for each sequence of the next level of the others: it is
    broadcast to the rows of that sequence. Single values are broadcast to the columns of a row.
    """
    deep = max(tensors, key=lambda one: one.lod.n_levels)
    given = [
        one if one.lod.n_levels == deep.lod.n_levels else _repeated(one, deep) for one in tensors
    ]
    if len({one.device for one in given}) > 1:  # a tensor with nulls is in main memory
        given = [one.to_device("cpu") for one in given]
    rank = max(one.values.ndim for one in given)
    arrays = [
        one.values.reshape(*one.values.shape, *[1] * (rank - one.values.ndim)) for one in given
    ]
    lod = given[0].lod
    for (one, a), (other, b) in itertools.combinations(zip(given, arrays, strict=True), 2):
        if any(x != y and 1 not in (x, y) for x, y in zip(a.shape[1:], b.shape[1:], strict=True)):
            raise ShapeMismatchError(
                f"the two sides have rows of shape {one.row_shape} and {other.row_shape}"
            )
        differs = lod.difference(other.lod)
        if differs:
            what = "sequences of different lengths"
            raise ShapeMismatchError(f"the two sides have {what}: {differs}")
        if len(a) != len(b):
            raise ShapeMismatchError(f"the two sides have {len(a)} and {len(b)} rows")
    pairs = zip(arrays, given, strict=True)
    return tuple(LoDTensor(array, lod, nulls=one.nulls) for array, one in pairs)


def stacked(values: Sequence[Values]) -> LoDTensor:
    """Return tensors and numbers side by side: rows of one axis, with all values of their rows.

    Args:
        values: at least one tensor. Those with fewer levels are broadcast, and so are numbers.

    Returns:
        A tensor in their common dtype, in main memory; a row is null where one of them is.

    Raises:
        ShapeMismatchError: sequences of different lengths.
        InvalidDataError: a number that does not fit the dtype, or a whole one that it rounds.
    """
    given = [one.to_device("cpu") if isinstance(one, LoDTensor) else one for one in values]
    tensors = [one for one in given if isinstance(one, LoDTensor)]
    deep = max(tensors, key=lambda one: one.lod.n_levels)
    beside, dtype = LoDTensor(np.zeros((deep.rows, 1)), deep.lod), _common_dtype(given)
    filled = [
        one if isinstance(one, LoDTensor) else LoDTensor(np.full(deep.rows, one, dtype), deep.lod)
        for one in given
    ]
    flat = [
        LoDTensor(one.values.reshape(one.rows, math.prod(one.row_shape)), one.lod, nulls=one.nulls)
        for one in filled
    ]
    parts = [aligned(beside, one)[1] for one in flat]
    rows_valid = functools.reduce(both_valid, (one.nulls.rows for one in parts))
    known: Any = np.asarray(deep.rows > 0) if rows_valid is None else per_row(rows_valid, 2)
    sides = [b if isinstance(a, LoDTensor) else a for a, b in zip(given, parts, strict=True)]
    _require_exact(sides, [known] * len(sides), dtype)
    data = np.concatenate([one.values for one in parts], axis=1, dtype=dtype, casting="unsafe")
    return _with_masks(LoDTensor(data, parts[0].lod), parts, rows_valid)


def with_valid(tensor: LoDTensor, valid: Mask | None) -> LoDTensor:
    """Return a tensor with a null for each row that is not valid, besides those that it has."""
    return _with_masks(tensor, (tensor,), both_valid(tensor.nulls.rows, valid))


def _common_dtype(values: Sequence[Values]) -> np.dtype[Any]:
    """Return the dtype of functions of all these values, as NumPy's functions return it.

    Not that of np.result_type, which has none for bfloat16 and whole numbers.
    """
    arrays = [one.values[:0].reshape(-1) for one in values if isinstance(one, LoDTensor)]
    numbers = [one for one in values if not isinstance(one, LoDTensor)]
    if not arrays:
        return np.result_type(*map(np.asarray, numbers))
    found = functools.reduce(np.maximum, arrays)
    for number in sorted(numbers, key=lambda one: isinstance(one, int)):  # floats make all floats
        try:
            found = np.maximum(found, number)
        except OverflowError:
            raise _unfit(number, found.dtype) from None
    for number in numbers:
        with np.errstate(over="ignore"):
            near = np.asarray(number).astype(found.dtype)
        if np.isfinite(number) and not np.isfinite(near):
            raise _unfit(number, found.dtype)
    return found.dtype


def _unfit(number: bool | int | float, dtype: np.dtype[Any]) -> UnfitError:
    """Return an error about a number that does not fit the dtype of a tensor beside it."""
    if dtype.kind == "b":  # in arithmetic, of 0 and 1
        dtype, how = np.dtype(np.int64), "lod cast TENSOR=uint64 converts the tensor"
    elif dtype.kind == "c":
        how = "lod cast TENSOR=complex128 converts the tensor"
    elif dtype.kind in "iu":
        wider = next((one for one in ("int64", "uint64") if _holds(one, number)), "")
        floats = "--dtype float64"
        if not wider:
            how = f"{floats} converts the tensor"
        elif np.can_cast(dtype, wider):
            how = f"lod cast TENSOR={wider} converts the tensor"
        else:
            lost = "negative ones" if wider == "uint64" else "greater ones"
            how = f"lod cast TENSOR={wider} converts a tensor without {lost}, {floats} any"
    else:
        wider = "float32" if abs(number) <= np.finfo(np.float32).max else "float64"
        how = f"--dtype {wider} converts the tensor"
    return UnfitError(f"{number} does not fit {dtype}", how)


def _holds(dtype: str, number: bool | int | float) -> bool:
    return np.iinfo(dtype).min <= number <= np.iinfo(dtype).max


def _without_nulls(value: Values) -> Values:
    return LoDTensor(value.values, value.lod) if isinstance(value, LoDTensor) else value


def _with_masks(made: LoDTensor, values: Sequence[Values], rows: Mask | None) -> LoDTensor:
    """Return a tensor whose items are null where those of a value are, with a mask of its rows."""
    parts = [one.nulls.masks for one in values if isinstance(one, LoDTensor) and one.nulls]
    above = zip(*(masks[:-1] for masks in parts), strict=True)
    levels = [functools.reduce(both_valid, masks) for masks in above]
    nulls = Nulls.of([*(levels or [None] * made.lod.n_levels), rows])
    return LoDTensor(made.values, made.lod, nulls=nulls) if nulls else made


def _repeated(tensor: LoDTensor, deep: LoDTensor) -> LoDTensor:
    depth = tensor.lod.n_levels
    differs = tensor.lod.difference(deep.lod.above(depth))
    if differs is None and tensor.rows != deep.lod.count(depth):
        differs = f"{tensor.rows} rows against {deep.lod.count(depth)} items"
    if differs:
        raise ShapeMismatchError(
            "the side with fewer levels needs one row for each sequence of the other: " + differs
        )
    lengths = np.diff(deep.lod.absolute(depth))
    data = tensor.to_device("cpu").values.repeat(lengths, axis=0)
    masks: list[Mask | None] = []
    if tensor.nulls:
        *levels, rows = tensor.nulls.masks
        inner = [None] * (deep.lod.n_levels - depth)
        masks = [*levels, *inner, None if rows is None else rows.repeat(lengths)]
    return LoDTensor(data, deep.lod, nulls=Nulls.of(masks)).to_device(deep.device)
