"""Errors for arrays and lists that do not fit the rows of a tensor beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError, UnsupportedError
from lodcli.kernels.tensor.exchange.rows import rows_of

# Ops that take one row for each sequence as well, by the name of the function of rows:
_WITH_POOLED = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"}
_PRODUCTS = ("dot", "matmul")
# Of a ufunc: functions of Python that call it for items of a tensor, and the ops for sequences.
_OF_ITEMS = {
    "add": "sum(), lodcli.ops.sum(tensor) adds the rows",
    "less": "min() or sorted(), lodcli.ops.min(tensor) or sort(tensor) compares the rows",
    "greater": "max(), lodcli.ops.max(tensor) returns the greatest value",
}

# How to find words in a tensor, by the kind of its marks.
_FINDING = {
    "text": "`word in tensor` finds a text, and to_list() returns all",
    "bytes": "`word in tensor` finds bytes, and to_list() returns all",
    "category": "compare as_numbers() with categories.index(word)",
}


def misfit(
    error: ValueError,
    name: str,
    owner: Any,
    values: Iterable[Any],
    *,
    broadcasts: bool = True,
    given: Sequence[Any] = (),
) -> InvalidDataError:
    """Return the error for values that NumPy cannot combine with the rows of a tensor.

    Args:
        error: that of NumPy.
        name: its function.
        owner: the tensor.
        values: the arguments; of tensors, their rows.
        broadcasts: whether the function broadcasts its arguments against each other.
        given: the arguments, tensors as they are.
    """
    lists = (list, tuple, range)
    try:
        arrays = [rows_of(one) if isinstance(one, lists) else one for one in values]
    except InvalidDataError as no_array:  # of lists that differ in length
        return InvalidDataError(f"{name}: {no_array}")
    shapes = [one.shape for one in arrays if isinstance(one, np.ndarray)]
    if name in _PRODUCTS and len(shapes) == 2 and all(shapes):
        left, right = shapes
        count = right[-2:][0]
        if count != left[-1]:
            turned = right[1:] == left[-1:] and not isinstance(given[1], type(owner))
            hint = "; its transpose fits" if turned else ""
            return ShapeMismatchError(
                f"{name}: expected a second factor of {left[-1]} rows, the length of the last "
                f"axis of the first, found {count}: their shapes are {left} and {right}{hint}",
                expected=left[-1],
                found=count,
            )
    for shape in shapes if broadcasts else ():
        if not _broadcasts(shape, owner.data.shape):
            return _unlike(shape, name, owner, leads=bool(given) and given[0] is owner)
    said = str(error).removeprefix(f"{name}: ")
    if name == "matmul" and "not have enough dimensions" in said:
        number = next((one for one in values if not np.ndim(one)), "y")
        said = f"expected two arrays, found a single number; write x * {number}"
    if "negative integer powers" in said:
        said = "whole numbers have no negative powers; convert them with astype('float64')"
    return InvalidDataError(f"{name}: {said}")


def hint_on_pooled(left: Any, right: Any, name: str) -> str:
    """Return a hint on combining rows with a row per sequence, as "; .."; "" for other tensors."""
    rows, pooled = (left, right) if left.lod.n_levels > right.lod.n_levels else (right, left)
    levels = rows.lod.levels
    above = levels[:-1]
    fits = len(above) == pooled.lod.n_levels and levels[-1].size - 1 == pooled.data.shape[0]
    if not fits or not all(map(np.array_equal, above, pooled.lod.levels)):
        return ""
    op = _WITH_POOLED.get(name) if rows is left else None
    if op is not None:
        return f"; lodcli.ops.{op}(x, y) takes one row for each sequence"
    order = "y, x" if rows is left else "x, y"
    return (
        f"; lodcli.ops.expand_as({order}, level=-1) repeats the row of each sequence for its rows"
    )


def hint_on_items(tensors: Sequence[Any], name: str) -> str:
    """Return a hint on functions of Python that take the items of a tensor, as "; .."; or ""."""
    if name not in _OF_ITEMS or any(one.lod.n_levels for one in tensors):
        return ""
    # The rows of an item are a part of those of its tensor.
    arrays = [one.data for one in tensors]
    if not any(type(one.base) is type(one) and one.base.size > one.size for one in arrays):
        return ""
    return f"; if this is Python's {_OF_ITEMS[name]} of each sequence"


def refuse_texts_and_times(name: str, owner: Any, values: Sequence[Any]) -> None:
    """Raise UnsupportedError if one of the values is or has texts or times of NumPy.

    But == of numbers takes them.

    Args:
        name: of a ufunc.
        owner: a tensor.
        values: the arguments.
    """
    others = [one for one in values if not isinstance(one, type(owner)) and _is_no_number(one)]
    if not others:
        return
    marks, found = owner.marks, type(others[0]).__name__
    if name in ("equal", "not_equal"):
        if marks.kind is None:
            return
        raise unlike(marks.kind, others[0])
    if marks.kind in ("text", "category"):
        expected = f"numbers beside {marks.kind}"
        how = (
            "; compute with tensor.to_list(), and make a tensor of the result with "
            "LoDTensor.from_lists"
        )
        if name == "add":
            how += "; lod apply 'NAME + \"b\"' joins texts of a file"
    elif marks.unit is not None:
        expected, how = f"numbers that count the unit of {marks.unit}", "; take as_numbers()"
    else:
        expected, how = f"a number beside {owner.dtype}, or one for each row", ""
    raise UnsupportedError(f"{name}: expected {expected}, found {found}{how}")


def unlike(kind: str, other: Any) -> UnsupportedError:
    """Return the error for comparing a tensor with a value that its marks do not take.

    Args:
        kind: of the marks.
        other: the value.
    """
    remedy = _FINDING.get(kind, "compare as_numbers() with a number")
    return UnsupportedError(f"cannot compare {kind} with {type(other).__name__}: {remedy}")


def _is_no_number(value: Any) -> bool:
    if isinstance(value, str | bytes):
        return True
    array = np.asarray(value)
    objects = array.flat if array.dtype.kind == "O" else ()
    return array.dtype.kind in "SUTM" or any(isinstance(one, str | bytes) for one in objects)


def _broadcasts(shape: Sequence[int], rows: Sequence[int]) -> bool:
    pairs = zip(reversed(shape), reversed(rows), strict=False)
    return all(one == other or 1 in (one, other) for one, other in pairs)


def _unlike(shape: tuple[int, ...], name: str, owner: Any, *, leads: bool) -> ShapeMismatchError:
    """Return the error for an array that cannot be broadcast to the rows of a tensor."""
    rows, levels = owner.data.shape, owner.lod.levels
    if levels and shape[0] == levels[-1].size - 1 != rows[0]:
        pooled = "lodcli.LoDTensor(y)"
        op = _WITH_POOLED.get(name) if leads else None
        call = f"{op}(x, {pooled})" if op else f"expand_as({pooled}, x, level=-1)"
        does = "takes one row for" if op else "repeats the row of"
        said = (
            f"{rows[0]} rows against an array of {shape[0]}; lodcli.ops.{call} {does} each sequence"
        )
    else:
        column = (rows[0], *(1 for _ in rows[1:]))
        remedy = f"give a number, or one for each of the {rows[0]} rows"
        if rows[1:]:
            remedy = f"give a number, or an array of shape {rows[1:]}, {column} or {rows}"
            if shape == rows[:1]:
                remedy = f"reshape it to {column}"
        said = (
            f"expected an array that broadcasts to the rows, of shape {rows}, found shape {shape}; "
            f"{remedy}"
        )
    return ShapeMismatchError(f"{name}: {said}", expected=rows, found=shape)
