"""Arguments of the ops, checked, and results as tensors."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    NotDefinedError,
    NotFloatingError,
    OptionError,
    SelectionError,
    ShapeMismatchError,
)
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import in_working_dtype, is_half, is_working_dtype
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.options import by_reader
from lodcli.kernels.runtime.arrays import as_array, in_native_order, on_host
from lodcli.kernels.tensor.casting import held
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Categories, Times, Unit

_INT64 = np.dtype(np.int64)
# Upper limit for options that count items: no sequence has more, and the sum of two such numbers
# fits int64.
MOST_ITEMS = 1 << 61


def segments(tensor: LoDTensor, level: int | str, op: str) -> Offsets:
    """Return the offsets of the sequences of a level in rows, (S+1,) int64.

    Raises:
        SelectionError: the tensor has no such level, or none at all.
    """
    lod = tensor.lod
    if not lod.levels:
        raise SelectionError(f"{op}: the tensor has no levels, so there are no sequences")
    return lod.absolute(level)


def moved(tensor: LoDTensor, rows: Array, lod: LoD, *, whole: bool = False) -> LoDTensor:
    """Return the result of an op that only moves values of a tensor, with their unit.

    Args:
        tensor: the values are times, for example.
        rows, lod: the result of a kernel, and an index that is known to fit.
        whole: whether the op moves whole finest sequences, which stay text.
    """
    if tensor.marks is NO_MARKS:
        return LoDTensor._made(rows, lod)
    return LoDTensor(rows, lod, tensor.marks.moved(whole=whole))


def working(data: npt.ArrayLike, op: str) -> Array:
    """Return floating-point data in the dtype of its sums: float16 and bfloat16 become float32.

    Raises:
        NotFloatingError, NotDefinedError: no floating-point numbers: see `require_float`.
    """
    array = as_array(data)
    if is_working_dtype(array.dtype):
        return array
    if is_half(array.dtype):
        return as_dtype(array, np.dtype(np.float32))
    require_float(array, op)
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


def require_float(data: Array, op: str) -> None:
    """Raise NotFloatingError for whole numbers, and NotDefinedError for complex ones."""
    if data.dtype.kind != "f" and not is_float(data.dtype):
        # The remedy for whole numbers, another dtype, is none for complex ones.
        kind = NotDefinedError if data.dtype.kind == "c" else NotFloatingError
        remedy = "" if data.dtype.kind == "c" else by_cast("float32")
        raise kind(f"{op}: expected floating numbers, found {data.dtype}{remedy}")


def by_cast(dtype: str, *, shell: str = "") -> str:
    """Return advice on values of the wrong dtype, as "; ..".

    Args:
        dtype: the right one.
        shell: the advice in a command; "" if the command adds its own.
    """
    python = f"; convert them with astype({dtype!r}), or to(torch.{dtype}) in torch"
    return by_reader(shell=shell, python=python)


def require_order(dtype: np.dtype[Any], op: str) -> None:
    """Raise NotDefinedError for complex numbers, which have no order."""
    if dtype.kind == "c":
        raise NotDefinedError(f"{op}: {dtype} has no order")


def per_segment(values: npt.ArrayLike, count: int, what: str, op: str) -> Offsets:
    """Return one integer per sequence, (S,) int64, from (S,) or (S, 1) integers.

    The result may be a view of `values`: do not modify or store it.

    Raises:
        InvalidDataError: not integers, or beyond int64.
        ShapeMismatchError: not one for each of `count` sequences.
    """
    if type(values) is np.ndarray and values.dtype is _INT64 and values.shape == (count,):
        return values  # fast path
    array = on_host(values, f"{op}: {what}")
    if array.size and array.dtype.kind not in "iu":
        if all(type(one) is int for one in array.flat):
            large = max(array.flat, key=abs)
            if abs(large) >= 1 << 63:
                why = ": no array is as long" * (large > 0)
                raise InvalidDataError(f"{op}: {what}: {large} is out of range{why}")
        raise InvalidDataError(f"{op}: {what} must be whole numbers, found {array.dtype}")
    if array.shape not in ((count,), (count, 1)):
        raise ShapeMismatchError(
            f"{op}: {what} must be one number for each of {count} sequences, "
            f"found shape {array.shape}"
        )
    result: Offsets = array.reshape(count).astype(np.int64, copy=False)
    if array.dtype.kind == "u" and (result < 0).any():
        raise InvalidDataError(f"{op}: {what}: {array.max()} is out of range: no array is as long")
    return result


@lru_cache(1 << 6)
def zero(dtype: np.dtype[Any]) -> Array:
    """Return a read-only zero of a dtype, of shape ()."""
    found = np.zeros((), dtype)
    found.flags.writeable = False
    return found


def fill_value(
    value: npt.ArrayLike, shape: tuple[int, ...], dtype: np.dtype[Any], op: str
) -> Array:
    """Return a padding value in `dtype`: of shape () or of a row's shape.

    Raises:
        InvalidDataError: not a number, or `dtype` does not hold it: see `casting.held`.
        ShapeMismatchError: neither one value nor a row.
    """
    if type(value) is int and value == 0:
        return zero(dtype)
    array = on_host(value, f"{op}: pad_value")
    if array.size == 1 and array.shape != shape:
        array = array.reshape(())
    if array.shape not in ((), shape):
        raise ShapeMismatchError(
            f"{op}: pad_value must be one value or a row of shape {shape}, "
            f"found shape {array.shape}"
        )
    result = held(array, dtype)
    if result is None:
        raise InvalidDataError(f"{op}: {dtype} cannot hold the pad_value {array}")
    return result


def pad_number(pad_value: float | str | None, unit: Unit | None) -> float:
    """Return a padding value as a number of a unit; 0 for None.

    Raises:
        OptionError: the unit has no such value, or it is a text and there is no unit.
    """
    if pad_value is None:
        return 0
    try:
        number: float | str = in_unit(pad_value, unit)
    except InvalidDataError as error:
        raise OptionError(f"pad_value: {error}") from None
    if isinstance(number, str):
        raise OptionError(f"pad_value: expected a {unit or 'number'}, found {number!r}")
    return number


def pads_with_null(pad_value: float | str | None, unit: Unit | None) -> bool:
    """Return whether rows without a value are null: times and categories have no zero."""
    return pad_value is None and isinstance(unit, Times | Categories)
