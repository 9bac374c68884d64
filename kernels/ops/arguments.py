"""Argument checks of the ops, and small index helpers."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, OptionError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.common import in_working_dtype, is_half, is_working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.runtime.arrays import as_array, in_native_order
from lodcli.kernels.tensor.lod_tensor import LoDTensor

# Upper limit for options that count items: no sequence has more, and the sum of two such numbers
# fits int64.
MOST_ITEMS = 1 << 61


def working(data: npt.ArrayLike, op: str) -> Array:
    """Return floating-point data in the dtype of its sums: float16 and bfloat16 become float32.

    Raises:
        InvalidDataError: no floating-point numbers.
    """
    array = as_array(data)
    if is_working_dtype(array.dtype):
        return array
    if is_half(array.dtype):
        return as_dtype(array, np.dtype(np.float32))
    if array.dtype.kind != "f":
        raise InvalidDataError(f"{op} needs floating-point numbers, found {array.dtype}")
    return in_native_order(array)


def id_column(tensor: LoDTensor, op: str) -> Array:
    """Return the ids of a tensor of one whole number per row, (N,) or (N, 1), as (N,).

    Raises:
        InvalidDataError: fractions, booleans, or several numbers a row.
    """
    if tensor.dtype.kind not in "iu":
        raise InvalidDataError(f"{op} needs whole numbers, found {tensor.dtype}")
    if tensor.row_shape not in ((), (1,)):
        raise InvalidDataError(f"{op} needs one id per row, found rows of shape {tensor.row_shape}")
    return tensor.data.reshape(tensor.rows)


def require_shape(found: tuple[int, ...], expected: tuple[int, ...], what: str) -> None:
    """Raise ShapeMismatchError unless two shapes are equal."""
    if found != expected:
        raise ShapeMismatchError(f"{what}: expected shape {expected}, found {found}")


def require_at_least(value: int, least: int, what: str) -> None:
    """Raise OptionError for a number below `least`; TypeError if it is not whole."""
    if operator.index(value) < least:
        raise OptionError(f"{what} must be at least {least}, found {value}")


def chosen_level(lod: LoD, level: int | str | None, op: str) -> int:
    """Return the number of the chosen level; if none is chosen, that of the only level.

    For ops that PaddlePaddle restricts to one level: their default cannot be the finest level.

    Raises:
        SelectionError: no such level, or none is chosen and there are none or several.
    """
    if not lod.n_levels:
        raise SelectionError(f"{op}: the tensor has no levels, so there are no sequences")
    if level is None and lod.n_levels > 1:
        raise SelectionError(
            f"{op}: the tensor has {lod.n_levels} levels; choose one with level (-1 is the finest)"
        )
    return lod.level(0 if level is None else level)


def segment_numbers(offsets: Offsets) -> Offsets:
    """Return the segment of every row, (N,) int64.

    >>> segment_numbers(np.array([0, 2, 2, 3])).tolist()
    [0, 0, 2]
    """
    return np.arange(offsets.size - 1).repeat(offsets_to_lengths(offsets))


def recut(lod: LoD, level: int | str, offsets: Offsets) -> LoD:
    """Return levels 0 to `level` of an index, with the offsets of the last replaced."""
    number = lod.level(level)
    return LoD._trusted((*lod.levels[:number], offsets), lod.names[: number + 1])


def exact_ids(values: Iterable[int], dtype: np.dtype[Any], op: str) -> Array:
    """Return the unique integers in `dtype`, sorted; those out of its range are left out.

    Raises:
        InvalidDataError: a value is not an integer.
    """
    least, most = _limits(dtype)
    kept = set()
    for value in values:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
            raise InvalidDataError(f"{op}: tokens must be whole numbers, found {value!r}")
        if least <= int(value) <= most:
            kept.add(int(value))
    return np.array(sorted(kept), dtype)


@cache
def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return limits.min, limits.max


def comparable(data: Array) -> Array:
    """Return data in a dtype that NumPy can sort, in the same order."""
    # NumPy cannot sort bfloat16, and gives its NaN no fixed place; float32 holds it exactly.
    return in_working_dtype(data)


def differs(rows: Array, of: Offsets) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows (N, D) that differ from the previous row or start a segment.

    Args:
        rows: (N, D), NaN equal to NaN.
        of: (N,), the segment of each row.
    """
    result = np.ones(len(rows), np.bool_)
    here, last = rows[1:], rows[:-1]
    equal = (here == last) | (np.isnan(here) & np.isnan(last))
    result[1:] = ~equal.all(axis=1) | (of[1:] != of[:-1])
    return result
