"""Validation and comparison of offsets, and their conversion from and to lengths."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.immutable import immutable, is_immutable, unwritten
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run

Array = npt.NDArray[Any]
Offsets = npt.NDArray[np.int64]

_INT64 = np.dtype(np.int64)
# Up to this size, comparing copies as bytes takes less time than the overhead of NumPy.
_FEW = 1 << 8
_PIECE_OFFSETS = 1 << 15
_NAMES = ("totals", "differences", "falls", "appended", "differ")
_totals, _differences, _falls, _appended, _differ = (
    load.kernel("kernels.index.checks_numba", name) for name in _NAMES
)


def is_masked(values: object) -> bool:
    """Return whether an array has masked values; a plain array would lose the mask."""
    # Not `np.ma.is_masked`: importing numpy.ma takes 17 ms.
    return isinstance(values, np.ndarray) and hasattr(values, "mask") and bool(np.any(values.mask))


def as_int64(values: object, *, level: int, what: str, copy: bool = True) -> Offsets:
    """Return `values` as an immutable 1-D int64 array; the same object if they are one already.

    Args:
        values: integers, in any sequence or array. Booleans, fractions, text and numbers
            that do not fit int64 are errors: a wrong guess would assign rows wrongly.
        level: the level the values belong to, for the message.
        what: "offsets" or "lengths", for the message.
        copy: False to share memory where possible; the result may then be writable.

    Raises:
        InvalidLoDError: not a flat list of integers.
    """
    if _is_index(values):
        return values
    if hasattr(values, "__cuda_array_interface__"):
        raise InvalidLoDError(
            f"{what} are on a GPU, but an index is in main memory; move them with cupy.asnumpy",
            level=level,
        )
    if is_masked(values):
        raise InvalidLoDError(
            f"{what} are a masked array, whose mask would be lost; give them filled", level=level
        )
    try:
        array = np.asarray(values)
    except (RuntimeError, TypeError, ValueError) as error:  # of torch, or of ragged lists
        raise InvalidLoDError(
            f"{what} must be a flat list of integers ({error})", level=level
        ) from None
    if array.ndim == 0 and array.dtype.kind not in "biuf":
        raise InvalidLoDError(
            f"{what} must be a flat list of integers, found {type(values).__name__}", level=level
        )
    if array.ndim != 1:
        hint = "" if array.ndim else f"; those of one level are a list in a list, [[{array}, ..]]"
        raise InvalidLoDError(
            f"{what} must be 1-D, found {array.ndim} dimensions{hint}",
            level=level,
            expected=1,
            found=array.ndim,
        )
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InvalidLoDError(
            f"{what} must be integers, found {array.dtype}",
            level=level,
            expected="integers",
            found=str(array.dtype),
        )
    if array.dtype.kind == "u" and array.dtype.itemsize == 8:
        big = np.flatnonzero(array > np.uint64(np.iinfo(np.int64).max))
        if big.size:
            _raise_at(level, int(big[0]), "at most 2**63 - 1", int(array[big[0]]), what)
    return immutable(array.astype(np.int64)) if copy else array.astype(np.int64, copy=False)


def _is_index(values: object) -> TypeGuard[Offsets]:
    return (
        type(values) is np.ndarray
        and values.dtype == _INT64
        and values.ndim == 1
        and values.flags.c_contiguous
        and values.flags.aligned
        and is_immutable(values)
    )


def _raise_at(level: int, position: int, expected: object, found: object, what: str) -> None:
    raise InvalidLoDError(
        f"{what}: expected {expected}, found {found}",
        level=level,
        position=position,
        expected=expected,
        found=found,
    )


def check_offsets(offsets: Offsets, *, level: int) -> None:
    """Raise InvalidLoDError unless `offsets` start with 0 and never decrease."""
    if offsets.size == 0:
        raise InvalidLoDError(
            "no offsets; expected at least the leading 0",
            level=level,
            expected="at least 1 offset",
            found=0,
        )
    if offsets.item(0) != 0:
        _raise_at(level, 0, 0, offsets.item(0), "first offset")
    _check_order(offsets, level=level)


def check_part(part: Offsets, *, level: int, start: int, count: int, below: int) -> None:
    """Raise InvalidLoDError unless a slice of the offsets of a level is valid.

    Args:
        part: one offset or more.
        level: the level, for the message.
        start: the position of the first offset in the level.
        count: the number of items of the level, one less than its offsets.
        below: the number of items, or rows, that the level counts.
    """
    first, last, stop = int(part[0]), int(part[-1]), start + part.size - 1
    if start == 0 and first != 0:
        _raise_at(level, 0, 0, first, "first offset")
    _check_order(part, level=level, start=start)
    if first < 0:
        _raise_at(level, start, "at least 0", first, "offset")
    if stop == count and last != below:
        _raise_at(level, stop, below, last, "last offset")
    if last > below:
        _raise_at(level, stop, f"at most {below}", last, "offset")


def _check_order(offsets: Offsets, *, level: int, start: int = 0) -> None:
    compiled = load.is_shipped() and offsets.flags.c_contiguous
    if compiled and not _falls[""].call(0, 1, offsets, offsets.size):
        return
    falls = offsets[1:] < offsets[:-1]
    if np.count_nonzero(falls):
        place = int(np.argmax(falls))
        before, here = int(offsets[place]), int(offsets[place + 1])
        raise InvalidLoDError(
            f"offsets decrease (expected at least {before}, found {here})",
            level=level,
            position=start + place + 1,
            expected=before,
            found=here,
        )


def check_chain(levels: Sequence[Offsets]) -> None:
    """Raise InvalidLoDError unless every level counts exactly the items of the next one."""
    for level, (upper, lower) in enumerate(itertools.pairwise(levels)):
        items = lower.size - 1
        if upper[-1] != items:
            raise _miscounted(upper, items, f"items of level {level + 1}", level, items - 1)


def check_rows(levels: Sequence[Offsets], rows: int) -> None:
    """Raise InvalidLoDError unless the finest level counts exactly `rows` rows."""
    if levels and levels[-1].item(-1) != rows:
        raise _miscounted(levels[-1], rows, "rows", len(levels) - 1, rows)


def _miscounted(
    offsets: Offsets, expected: int, items: str, level: int, last: int
) -> InvalidLoDError:
    """Return the error about the last offset.

    Args:
        offsets: of the level.
        expected: the expected last offset: the number of `items`.
        items: what the offsets count, in words.
        level: the number of the level.
        last: the last length if offsets were given as lengths.
    """
    found, lengths = int(offsets[-1]), offsets_to_lengths(offsets)
    remedy = "; the lengths seem to be offsets" if seem_offsets(lengths, last) else ""
    return InvalidLoDError(
        f"the last offset, the sum of the lengths, must be the number of {items} "
        f"(expected {expected}, found {found}){remedy}",
        level=level,
        position=offsets.size - 1,
        expected=expected,
        found=found,
    )


def seem_offsets(lengths: Offsets, last: int | None) -> bool:
    """Return whether lengths rise from 0 to the last one of offsets, which someone gave instead."""
    rising = lengths.size > 1 and lengths[0] == 0 and (lengths[1:] >= lengths[:-1]).all()
    return bool(rising and lengths[-1] == last)


def lengths_to_offsets(lengths: Offsets, *, level: int) -> Offsets:
    """Return the prefix sums of `lengths` with a leading 0, read-only.

    Raises:
        InvalidLoDError: a negative length, or a total beyond int64.
    """
    if load.is_shipped():
        ready = np.ascontiguousarray(lengths, _INT64)
        made = unwritten(ready.size + 1)
        if not _totals[""].call(0, 1, ready, made, ready.size):
            return made
    offsets = np.zeros(lengths.size + 1, np.int64)
    # Not cumsum() and any(), which take three times as long for few lengths.
    sums = np.add.accumulate(lengths, out=offsets[1:])
    falls = sums < offsets[:-1]
    if np.count_nonzero(falls):
        position = int(falls.argmax())
        found = int(lengths[position])
        _raise_at(
            level, position, "0 or more" if found < 0 else "a total below 2**63", found, "length"
        )
    return immutable(offsets)


def joined_offsets(parts: Sequence[Offsets]) -> Offsets:
    """Return the offsets of one or more batches concatenated, read-only.

    >>> joined_offsets([np.array([0, 2]), np.array([0, 1, 4])]).tolist()
    [0, 2, 3, 6]
    """
    if load.is_shipped():
        made, items = unwritten(sum([part.size for part in parts]) - len(parts) + 1), 0
        for part in parts:
            count = part.size - 1
            _appended[""].call(0, 1, np.ascontiguousarray(part), count, made, items)
            items += count
        return made
    pieces, total = [np.zeros(1, np.int64)], 0
    for part in parts:
        pieces.append(part[1:] + total)
        total += int(part[-1])
    return immutable(np.concatenate(pieces))


def offsets_to_lengths(offsets: Offsets) -> Offsets:
    """Return the differences of one or more `offsets` as a new array.

    >>> offsets_to_lengths(np.array([0, 2, 2, 3])).tolist()
    [2, 0, 1]
    """
    if load.is_shipped():
        made = np.empty(offsets.size - 1, _INT64)
        _differences[""].call(0, 1, np.ascontiguousarray(offsets, _INT64), made, made.size)
        return made
    lengths: Offsets = offsets[1:] - offsets[:-1]
    return lengths


def same_offsets(one: Offsets, two: Offsets) -> bool:
    """Return whether two levels, or two lists of lengths, are equal; both are int64."""
    if one is two or one.size != two.size:
        return one is two
    if one.size <= _FEW:
        return one.tobytes() == two.tobytes()
    if load.is_shipped() and one.flags.c_contiguous and two.flags.c_contiguous:
        pieces = -(-one.size // _PIECE_OFFSETS)
        return not run(_differ[""], pieces, 2 * one.nbytes, one, two, one.size, _PIECE_OFFSETS)
    return not np.count_nonzero(one != two)


def same_levels(one: Sequence[Offsets], two: Sequence[Offsets]) -> bool:
    """Return whether two indexes have as many levels, with equal offsets."""
    return len(one) == len(two) and all(map(same_offsets, one, two))
