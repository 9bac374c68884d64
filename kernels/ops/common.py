"""Shared argument checks of the sequence ops: segments, plain rows, dtypes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import (
    InvalidDataError,
    NotFloatingError,
    SelectionError,
    ShapeMismatchError,
)
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.runtime.buffers import empty
from lodcli.kernels.tensor.casting import held
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Categories, Times, Unit

_INT64, _SINGLE, _DOUBLE = np.dtype(np.int64), np.dtype(np.float32), np.dtype(np.float64)
# Values are copied as words of the same size: one kernel for each size, not for each dtype.
WORDS = {**{size: np.dtype(f"u{size}") for size in (1, 2, 4, 8)}, 16: np.dtype(np.complex128)}
# Sums and products of integers have the same bits in all dtypes of a size: the dtypes, by
# `dtype.char`, that arithmetic is compiled for.
WRAPPING = {
    **{each: each for each in "fdilBFD"},
    **{"I": "i", "L": "l", "q": "l", "Q": "l", "b": "B"},
}
_PIECES = 64
# Segments with fewer values than this in total are processed by one thread anyway.
_PIECE_VALUES = 1 << 12


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


def row_width(shape: Sequence[int]) -> int:
    """Return the number of values in one row of data of this shape."""
    width = 1
    for size in shape[1:]:
        width *= size
    return width


def flat_rows(data: Array) -> Array:
    """Return (N, D) C-contiguous rows of data of any rank; without a copy if possible."""
    if data.ndim == 2 and data.flags.c_contiguous:
        return data
    return np.ascontiguousarray(data).reshape(data.shape[0], row_width(data.shape))


def piece_count(rows: Array) -> int:
    """Return how many pieces segments are split into for threads; results do not depend on it."""
    return min(_PIECES, 1 + rows.size // _PIECE_VALUES)


def real_columns(rows: Array) -> Array:
    """Return C-contiguous rows with each complex number as two columns; others as they are."""
    return rows.view(f"f{rows.itemsize // 2}") if rows.dtype.kind == "c" else rows


def viewed(rows: Array, kind: str) -> Array:
    """Return `rows.view(kind)`; faster, as the array itself, if that is its `dtype.char`."""
    return rows if rows.dtype.char == kind else rows.view(kind)


def is_half(dtype: np.dtype[Any]) -> bool:
    """Return whether this is a floating-point dtype of two bytes: float16 or bfloat16."""
    return dtype.itemsize == 2 and is_float(dtype)


def working_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype for computations: float32 for float16 and bfloat16, else the same."""
    return _SINGLE if is_half(dtype) else dtype


def is_working_dtype(dtype: np.dtype[Any]) -> bool:
    """Return whether this is NumPy's float32 or float64: a fast test for the common case."""
    return dtype is _SINGLE or dtype is _DOUBLE


def in_working_dtype(rows: Array) -> Array:
    """Return rows in their `working_dtype`; the same array if it has that dtype."""
    return rows.astype(_SINGLE) if is_half(rows.dtype) else rows


def summed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum of values of this dtype."""
    if dtype.kind == "u":
        return np.dtype(np.uint64)
    return np.dtype(np.int64) if dtype.kind in "ib" else dtype


def common_dtype(first: np.dtype[Any], *others: np.dtype[Any]) -> np.dtype[Any]:
    """Return NumPy's result dtype; faster than np.result_type if all are the same object."""
    for other in others:
        if other is not first:
            try:
                return np.result_type(first, *others)
            except TypeError:  # result_type cannot promote bfloat16 with some other dtypes
                singles = [_SINGLE if is_half(each) else each for each in (first, *others)]
                return np.result_type(*singles)
    return first if first.isnative else np.result_type(first)


def mean_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a mean of values of this dtype."""
    return dtype if is_float(dtype) or dtype.kind == "c" else np.dtype(np.float64)


def require_float(data: Array, op: str) -> None:
    """Raise NotFloatingError for whole numbers, and InvalidDataError for complex ones."""
    if data.dtype.kind != "f" and not is_float(data.dtype):
        # The remedy for whole numbers, another dtype, is none for complex ones.
        kind = InvalidDataError if data.dtype.kind == "c" else NotFloatingError
        raise kind(f"{op}: expected floating numbers, found {data.dtype}")


def require_order(dtype: np.dtype[Any], op: str) -> None:
    """Raise InvalidDataError for complex numbers, which have no order."""
    if dtype.kind == "c":
        raise InvalidDataError(f"{op}: {dtype} has no order")


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
        InvalidDataError: the unit has no such value, or it is a text and there is no unit.
    """
    if pad_value is None:
        return 0
    try:
        number: float | str = in_unit(pad_value, unit)
    except InvalidDataError as error:
        raise InvalidDataError(f"pad_value: {error}") from None
    if isinstance(number, str):
        raise InvalidDataError(f"pad_value: expected a {unit or 'number'}, found {number!r}")
    return number


def pads_with_null(pad_value: float | str | None, unit: Unit | None) -> bool:
    """Return whether rows without a value are null: times and categories have no zero."""
    return pad_value is None and isinstance(unit, Times | Categories)


def result_array(
    out: Array | None, shape: tuple[int, ...], dtype: np.dtype[Any], *inputs: Array
) -> Array:
    """Return the array that a result is written to: `out`, or a new one if that is None.

    Args:
        out: C-contiguous, of this shape and dtype; shares no memory with the inputs.
        inputs: arrays that are read while the result is written.

    Raises:
        ShapeMismatchError: `out` has another shape.
        InvalidDataError: another dtype or layout, read-only, or it overlaps an input.
    """
    if out is None:
        return empty(shape, dtype)
    if not isinstance(out, np.ndarray):
        raise InvalidDataError(f"out must be an array, found {type(out).__name__}")
    if out.shape != shape:
        raise ShapeMismatchError(f"out must have shape {shape}, found {out.shape}")
    if out.dtype != dtype:
        raise InvalidDataError(f"out must hold {dtype}, found {out.dtype}")
    if not out.flags.c_contiguous or not out.flags.writeable:
        what = "strided" if out.flags.writeable else "read-only"
        raise InvalidDataError(f"out must be C-contiguous and writable, found a {what} array")
    for each in inputs:  # faster than any() for one input
        if np.may_share_memory(out, each):
            raise InvalidDataError("out must not share memory with the rows that are read")
    return out
