"""Other forms of an index, and their conversion to nested offsets.

PaddlePaddle's design documents use five forms of the same index: lengths, nested
offsets, offsets counted in rows with and without the closing total, lengths counted in
rows, and levels listed from fine to coarse. This module converts all of them; only nested
offsets are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, TypeVar

import numpy as np

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.checks import (
    Offsets,
    as_int64,
    check_offsets,
    lengths_to_offsets,
    offsets_to_lengths,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.native import load

_ranges = load.kernel("kernels.index.ranges_numba", "ranges")
_INT64 = np.dtype(np.int64)
T = TypeVar("T")
Order = Literal["coarse-to-fine", "fine-to-coarse"]
# Item counts; their prefix sums; offsets in rows, with and without the total; row counts.
Form = Literal["lengths", "offsets", "absolute", "starts", "row-lengths"]


def lod_from_absolute_offsets(
    levels: Iterable[object],
    *,
    rows: int | None = None,
    order: Order = "coarse-to-fine",
    names: Sequence[str | None] | None = None,
) -> LoD:
    """Return the index given by offsets that are counted in rows on every level.

    Args:
        levels: offsets in rows per level, each with its closing total; or, if `rows` is
            given, each with or without it.
        rows: the number of rows, which closes a level that lacks its total. A level that
            already ends with `rows` is taken as closed.
        order: "coarse-to-fine" (outermost first) or "fine-to-coarse".
        names: level names, outermost first.

    Raises:
        InvalidLoDError: a boundary of a level matches no boundary of the next level, or
            several (empty sequences make counting in rows ambiguous). Without `rows`:
            levels end with different totals.

    References:
        PaddlePaddle's "Design Doc: LoD Tensor", "Performance Improvement with Offset".

    >>> lod_from_absolute_offsets([[0, 9, 10], [0, 3, 5, 9, 10, 12]], rows=15)
    LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]])
    """
    given = outermost_first(levels, order)
    closed = [
        _closed(as_int64(values, level=level, what="offsets"), rows, level)
        for level, values in enumerate(given)
    ]
    for level, offsets in enumerate(closed):
        check_offsets(offsets, level=level)
    nested = [
        _positions(upper, lower, level)
        for level, (upper, lower) in enumerate(itertools.pairwise(closed))
    ]
    return LoD([*nested, *closed[-1:]], names)


def lod_from_absolute_lengths(
    levels: Iterable[object],
    *,
    order: Order = "coarse-to-fine",
    names: Sequence[str | None] | None = None,
) -> LoD:
    """Return the index given by the number of rows of each sequence on every level.

    >>> lod_from_absolute_lengths([[9, 1, 5], [3, 2, 4, 1, 2, 3]])
    LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]])
    """
    given = outermost_first(levels, order)
    offsets = [
        lengths_to_offsets(as_int64(values, level=level, what="lengths"), level=level)
        for level, values in enumerate(given)
    ]
    return lod_from_absolute_offsets(offsets, names=names)


def absolute_offsets(lod: LoD, *, closed: bool = True) -> list[list[int]]:
    """Return every level counted in rows, outermost first, with or without the totals."""
    stop = None if closed else -1
    return [lod.absolute(level)[:stop].tolist() for level in range(lod.n_levels)]


def absolute_lengths(lod: LoD) -> list[list[int]]:
    """Return the number of rows of every sequence of every level, outermost first."""
    return [offsets_to_lengths(lod.absolute(level)).tolist() for level in range(lod.n_levels)]


def nested_offsets(lod: LoD) -> list[list[int]]:
    """Return the stored form as lists, outermost first."""
    return [offsets.tolist() for offsets in lod.levels]


def _closed(offsets: Offsets, rows: int | None, level: int) -> Offsets:
    if rows is None or (offsets.size and offsets[-1] == rows and offsets.size > 1):
        return offsets
    if offsets.size and offsets[-1] > rows:
        raise InvalidLoDError(
            f"offset beyond the rows (expected at most {rows}, found {int(offsets[-1])})",
            level=level,
            position=offsets.size - 1,
            expected=rows,
            found=int(offsets[-1]),
        )
    return np.append(offsets, np.int64(rows))


def _positions(upper: Offsets, lower: Offsets, level: int) -> Offsets:
    """Return the position in `lower` of each boundary of `upper`."""
    if upper[-1] != lower[-1]:
        raise InvalidLoDError(
            f"offsets in rows must end with the same total (level {level + 1} ends with "
            f"{int(lower[-1])}, found {int(upper[-1])})",
            level=level,
            position=upper.size - 1,
            expected=int(lower[-1]),
            found=int(upper[-1]),
        )
    left = np.searchsorted(lower, upper, side="left")
    right = np.searchsorted(lower, upper, side="right")
    # The first and the last boundary are unambiguous, even next to empty sequences.
    left[0], right[0] = 0, 1
    if upper.size > 1:
        left[-1], right[-1] = lower.size - 1, lower.size
    for wrong, what in ((right == left, "no boundary"), (right > left + 1, "several boundaries")):
        if wrong.any():
            position = int(np.argmax(wrong))
            hint = "; give lengths or nested offsets instead" if what[0] == "s" else ""
            raise InvalidLoDError(
                f"row {int(upper[position])} is {what} of level {level + 1}{hint}",
                level=level,
                position=position,
                expected=f"one boundary of level {level + 1}",
                found=int(upper[position]),
            )
    return left


def in_form(lod: LoD, form: Form, order: Order) -> list[list[int]]:
    """Return every level in one of the forms.

    >>> in_form(LoD.from_lengths([[2, 1], [3, 1, 2]]), "starts", "fine-to-coarse")
    [[0, 3, 4], [0, 4]]
    """
    if form == "lengths":
        levels = lod.recursive_sequence_lengths()
    elif form == "offsets":
        levels = nested_offsets(lod)
    elif form == "row-lengths":
        levels = absolute_lengths(lod)
    else:
        levels = absolute_offsets(lod, closed=form == "absolute")
    return levels[::-1] if order == "fine-to-coarse" else levels


def outermost_first(levels: Iterable[T], order: Order) -> list[T]:
    """Return the levels outermost first."""
    if order not in ("coarse-to-fine", "fine-to-coarse"):
        raise InvalidLoDError(f"no order {order!r}; use coarse-to-fine or fine-to-coarse")
    given = list(levels)
    return given[::-1] if order == "fine-to-coarse" else given


def ranges(starts: Offsets, offsets: Offsets, step: int = 1) -> Offsets:
    """Return the numbers of many ranges, concatenated.

    Args:
        starts: (S,) int64, the first number of each range.
        offsets: (S+1,) int64, the position of each range in the result.
        step: difference between consecutive numbers of a range.

    >>> ranges(np.array([7, 20, 3]), np.array([0, 2, 2, 5])).tolist()
    [7, 8, 3, 4, 5]
    """
    if load.is_shipped():
        index = np.ascontiguousarray(offsets, _INT64)
        numbers = np.empty(index.item(-1), _INT64)
        begins = np.ascontiguousarray(starts, _INT64)
        if not _ranges[""].call(0, 1, begins, index, numbers, index.size - 1, step):
            return numbers
    numbers = (starts - step * offsets[:-1]).repeat(offsets_to_lengths(offsets))
    numbers += step * np.arange(numbers.size)
    return numbers
