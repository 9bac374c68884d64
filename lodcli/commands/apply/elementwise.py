"""Elementwise functions of tensors and numbers, and the nulls of their results."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lodcli.commands.choose.item_values import both_valid, valid_of
from lodcli.expressions.functions import rounded
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask, Nulls

Values = LoDTensor | bool | int | float


def arithmetic(function: np.ufunc, *values: Values) -> Values:
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
    try:
        result = function(*values)
    except TypeError:
        kinds = " and ".join(
            str(one.dtype) if isinstance(one, LoDTensor) else type(one).__name__ for one in values
        )
        raise InvalidDataError(f"{function.__name__} is not defined for {kinds}") from None
    except (ValueError, OverflowError) as error:
        raise InvalidDataError(f"{function.__name__}: {error}") from None
    return result if isinstance(result, LoDTensor) else result.item()


def paired(
    function: Callable[[Array, Array], Array], left: LoDTensor, right: LoDTensor
) -> LoDTensor:
    """Return a function of the values of two tensors in main memory, which are aligned first."""
    one, other = aligned(left, right)
    masks = (one.nulls.rows, other.nulls.rows)
    data = function(*(each.to_device("cpu").values for each in (one, other)))
    found = LoDTensor(data, one.lod).to_device(left.device)
    return _with_masks(found, (one, other), functools.reduce(both_valid, masks))


def coalesced(left: LoDTensor, right: Values) -> LoDTensor:
    """Return a tensor with other values in place of its null rows; null items stay null."""
    if isinstance(right, LoDTensor):
        left, right = aligned(left, right)
    dtype = _common_dtype((left, right))
    valid, data = left.nulls.rows, left.values.astype(dtype)
    other, rows = (
        (right.values, right.nulls.rows)
        if isinstance(right, LoDTensor)
        else (np.asarray(right), None)
    )
    if valid is None:
        data = np.broadcast_to(data, np.broadcast_shapes(data.shape, other.shape))
    else:
        where = valid.reshape(-1, *[1] * (data.ndim - 1))
        data = np.where(where, data, other.astype(dtype))
        valid = valid | rows if rows is not None else None
    return _with_masks(LoDTensor(data, left.lod), (left, right), valid)


def aligned(left: LoDTensor, right: LoDTensor) -> tuple[LoDTensor, LoDTensor]:
    """Return two tensors under one index, with rows of as many axes.

    A tensor with fewer levels has one row for each sequence of the next level of the other: it is
    broadcast to the rows of that sequence. Single values are broadcast to the columns of a row.
    """
    if left.lod.n_levels < right.lod.n_levels:
        left = _repeated(left, right)
    elif right.lod.n_levels < left.lod.n_levels:
        right = _repeated(right, left)
    rank = max(left.values.ndim, right.values.ndim)
    a, b = (
        one.values.reshape(*one.values.shape, *[1] * (rank - one.values.ndim))
        for one in (left, right)
    )
    if any(x != y and 1 not in (x, y) for x, y in zip(a.shape[1:], b.shape[1:], strict=True)):
        raise ShapeMismatchError(
            f"the two sides have rows of shape {left.row_shape} and {right.row_shape}"
        )
    lod = left.lod
    differs = lod.difference(right.lod)
    if differs:
        raise ShapeMismatchError(f"the two sides have sequences of different lengths: {differs}")
    if len(a) != len(b):
        raise ShapeMismatchError(f"the two sides have {len(a)} and {len(b)} rows")
    return LoDTensor(a, lod, nulls=left.nulls), LoDTensor(b, lod, nulls=right.nulls)


def stacked(values: Sequence[Values]) -> LoDTensor:
    """Return tensors and numbers side by side: rows of one axis, with all values of their rows.

    Args:
        values: at least one tensor. Those with fewer levels are broadcast, and so are numbers.

    Returns:
        A tensor in their common dtype, in main memory; a row is null where one of them is.

    Raises:
        ShapeMismatchError: sequences of different lengths.
        InvalidDataError: a number that does not fit the dtype.
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
    data = np.concatenate([one.values for one in parts], axis=1, dtype=dtype, casting="unsafe")
    rows_valid = functools.reduce(both_valid, (one.nulls.rows for one in parts))
    return _with_masks(LoDTensor(data, parts[0].lod), parts, rows_valid)


def compared(value: Values, beside: Values) -> Any:
    """Return a float beside bfloat16 as `rounded`, for NumPy does not round it; others as given."""
    if isinstance(value, float) and isinstance(beside, LoDTensor) and beside.dtype.kind == "V":
        return rounded(np.asarray(value), beside.dtype)[()]
    return value


def with_valid(tensor: LoDTensor, valid: Mask | None) -> LoDTensor:
    """Return a tensor with a null for each row that is not valid, besides those that it has."""
    return _with_masks(tensor, (tensor,), both_valid(tensor.nulls.rows, valid))


def _common_dtype(values: Sequence[Values]) -> np.dtype[Any]:
    """Return the dtype of functions of all these values, as NumPy's functions return it.

    Not that of np.result_type, which has none for bfloat16 and whole numbers.
    """
    found = functools.reduce(
        np.maximum, (one.values[:0].reshape(-1) for one in values if isinstance(one, LoDTensor))
    )
    numbers = [one for one in values if not isinstance(one, LoDTensor)]
    for number in sorted(numbers, key=lambda one: isinstance(one, int)):  # floats make all floats
        try:
            found = np.maximum(found, number)
        except OverflowError:
            raise InvalidDataError(
                f"{number} does not fit {found.dtype}; --dtype float32 converts the tensor"
            ) from None
    return found.dtype


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
