"""Conversion to arrays, and distinction of arrays in main memory from those on a GPU."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from operator import itemgetter
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.index.checks import Array, is_masked

MOST_AXES = 64  # of NumPy
_NUMBERS = (int, float, complex, np.generic)
_LISTS = {list, tuple}
# What takes tensors with marks: a single one, a list of them, and nested lists.
_KEEPS = (
    "as_numbers() returns a tensor of the numbers",
    "LoDTensor.from_lists([one.to_list() for one in data]) keeps it",
    "LoDTensor.from_lists takes nested lists of what to_list() of each tensor returns",
)


def is_on_device(data: object) -> TypeGuard[Array]:
    """Return whether `data` is an array on a GPU with NumPy's interface, such as cupy's."""
    if type(data) is np.ndarray:  # the lookup of missing attributes takes longer
        return False
    return hasattr(data, "__cuda_array_interface__") and hasattr(data, "__array_ufunc__")


def as_array(values: npt.ArrayLike) -> Array:
    """Return values as an array; those on a GPU stay there.

    Raises:
        InvalidDataError: they cannot be converted to an array, or are masked or null.
    """
    if type(values) is np.ndarray or is_on_device(values):
        return values
    _refuse_marked(values)
    if _has_nulls(values):
        raise InvalidDataError(
            f"data is a {type(values).__name__} with nulls, which an array does not have; "
            "LoDTensor.from_arrow(pyarrow.array(data)) keeps them, or fill them first"
        )
    if is_masked(values):
        raise InvalidDataError(
            "data is a masked array, whose mask would be lost; give values and mask apart, "
            "LoDTensor(data.filled(0), lengths, nulls=Nulls.of([None, ~data.mask]))"
        )
    try:
        return array_of(values)
    except (LodError, MemoryError):
        raise
    except Exception as error:  # what other libraries raise when NumPy asks for an array
        raise InvalidDataError(_why_no_array(values, str(error).partition("\n")[0])) from None


def _refuse_marked(values: Any) -> None:
    """Raise InvalidDataError for tensors of times, texts or others, whose marks would be lost."""
    items = [values]
    for depth in range(MOST_AXES):
        if set(map(type, items)) <= _LISTS:
            lists = list(filter(None, items))
        else:
            _refuse_marks(items, depth)
            lists = [one for one in items if isinstance(one, list | tuple) and one]
        # Lists that begin with a number are not looked through.
        begins = set(map(type, map(itemgetter(0), lists)))
        if all(issubclass(kind, _NUMBERS) for kind in begins):
            return
        lists = [one for one in lists if not isinstance(one[0], _NUMBERS)]
        once = dict(zip(map(id, lists), lists, strict=True))  # a list may contain itself
        items = list(chain.from_iterable(once.values()))


def _refuse_marks(items: Iterable[Any], depth: int) -> None:
    """Raise InvalidDataError if an item of a list at a depth is a tensor with marks."""
    for one in items:
        kind = getattr(getattr(one, "marks", None), "kind", None)
        if isinstance(kind, str):
            raise InvalidDataError(
                f"data: expected numbers, found a {type(one).__name__} of {kind}, which would be "
                f"lost; {_KEEPS[min(depth, 2)]}"
            )


def array_of(values: Any, *, rounded: bool = False) -> Array:
    """Return `np.asarray(values)`, but in uint64 for whole numbers that only uint64 holds.

    NumPy rounds them to float64 if there are smaller ones beside them.

    Args:
        values: numbers, in lists or otherwise.
        rounded: whether numbers that no dtype holds may be rounded; otherwise a ValueError.

    >>> array_of([1, 2**64 - 1]).tolist()
    [1, 18446744073709551615]
    """
    array = np.asarray(values)
    if array.dtype.char != "d" or not isinstance(values, list | tuple) or not array.size:
        return array
    if not array.max() >= 1 << 63:  # nan as well
        return array
    if not all(isinstance(one, int | np.integer) for one in np.asarray(values, object).flat):
        return array
    if array.min() >= 0:
        return np.asarray(values, np.uint64)
    if rounded:
        return array
    raise ValueError("no dtype holds negative numbers and those of uint64; give them as floats")


def _has_nulls(values: Any) -> bool:
    """Return whether values of pyarrow, Polars or pandas have nulls, which NumPy makes nan."""
    count = getattr(values, "null_count", 0)
    if callable(count):
        count = count()
    if isinstance(count, int) and count:
        return True
    dtype = getattr(values, "dtype", None)  # of pandas, other than NumPy's
    nullable = dtype is not None and not isinstance(dtype, np.dtype)
    return nullable and getattr(values, "hasnans", False) is True


def in_native_order(array: Array) -> Array:
    """Return an array in native byte order, the only one that compiled kernels handle."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


_RAGGED = (
    "LoDTensor.from_lists takes nested lists and text, and from_arrays an array for each "
    "sequence; or give flat rows and lengths, LoDTensor([1, 2, 3], [[2, 1]])"
)
# By the kind of a dtype that no tensor holds.
_STORED_AS = {
    "O": _RAGGED,
    "V": "give each field as a separate tensor",
    **dict.fromkeys("SU", "text is stored as its bytes, uint8; LoDTensor.from_lists makes them"),
    **dict.fromkeys(
        "mM",
        "times are stored as int64 with a mark, Marks(unit=Times(..)); LoDTensor.from_arrays and "
        "from_lists set it",
    ),
    "f": 'convert them, data.astype("float64")',
    "c": 'convert them, data.astype("complex128")',
}


def why_not_held(dtype: np.dtype[Any]) -> str:
    """Return the error message for a dtype that no tensor holds, with advice."""
    remedy = _STORED_AS.get("O" if dtype.hasobject else dtype.kind, "convert it with astype()")
    return f"data must be numbers or booleans of at most 64 bits, found {dtype}; {remedy}"


def _why_no_array(values: object, said: str) -> str:
    if getattr(values, "is_nested", False):
        return (
            "data is a nested tensor; give its rows and lengths, LoDTensor("
            "torch.cat(nested.unbind()), [[len(part) for part in nested.unbind()]])"
        )
    hint = f"; {_RAGGED}" if "inhomogeneous" in said or "not regular" in said else ""
    if "ScalarType BFloat16" in said:
        hint = "; LoDTensor.from_lengths(data, lengths) takes bfloat16 of torch"
    return f"no array can be made of this {type(values).__name__}: {said}{hint}"


def on_host(values: npt.ArrayLike, what: str) -> Array:
    """Return an argument that must be in main memory, such as an index, as a NumPy array.

    The array has native byte order.

    Args:
        values: the argument.
        what: its name, for the message.

    Raises:
        UnsupportedError: it is on a GPU.
        InvalidDataError: it cannot be converted to an array, or is masked.
    """
    if type(values) is np.ndarray:
        return in_native_order(values)
    if is_on_device(values):
        raise UnsupportedError(
            f"{what} must be in main memory, but is on a GPU; move it with cupy.asnumpy"
        )
    if is_masked(values):
        raise InvalidDataError(f"{what}: a masked array, whose mask would be lost; give it filled")
    try:
        return in_native_order(array_of(values))
    except (RuntimeError, TypeError, ValueError) as error:  # of torch, or of ragged lists
        raise InvalidDataError(f"{what}: no array can be made of it: {error}") from None


def beside(values: Array, rows: Array) -> Array:
    """Return an array that was computed from an index, copied to the device of `rows`."""
    return np.asarray(values, like=rows) if is_on_device(rows) else values
