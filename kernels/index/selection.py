"""Slices of a LoD tensor, resolved on the index alone.

As in NumPy, an index drops its level and a range keeps it. No function here reads rows, so
the reader of a file can resolve a slice first and then read only its rows.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple, SupportsIndex

from lodcli.kernels.errors import SelectionError, counted
from lodcli.kernels.index.lod import NO_LEVELS, Index, LoD

Key = int | slice


class Selection(NamedTuple):
    """A resolved slice: its index, its rows, and whether the row axis is dropped.

    Attributes:
        level, start, stop: the level whose items become the outermost ones, and which of them.
        item: the level and the number of a single selected item; None for a range.
    """

    lod: LoD
    rows: slice
    drops_row_axis: bool = False
    level: int = 0
    start: int = 0
    stop: int = 0
    item: tuple[int, int] | None = None


def select(lod: Index, rows: int, branch: tuple[Key, ...], level: int | str = 0) -> Selection:
    """Return what `branch` selects, starting at the items of `level`.

    Args:
        lod: the index.
        rows: the number of rows it indexes.
        branch: one index or range a level, outermost first: `(2, 0)` is item 0 of item 2.
            Negative indices count from the end, ranges are clipped to the existing items,
            and only the last part may be a range. One part more than levels selects rows.
        level: where the branch starts; its items are numbered over the whole tensor.

    Raises:
        SelectionError: an index out of range, a step, a range before the end, or a branch
            longer than the tensor is deep.

    >>> lod = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]])
    >>> select(lod, 15, (2, 0)).rows
    slice(10, 12, None)
    >>> select(lod, 15, (slice(3, 6),), level=1)[:3]
    (LoD.from_lengths([[1, 2, 3]]), slice(9, 15, None), False)
    """
    depth = lod.n_levels
    first = lod.level(level) if depth or level != 0 else 0
    if not branch:
        raise SelectionError("an empty branch selects nothing; give an index or a range")
    if first + len(branch) > depth + 1:
        raise SelectionError(
            f"the branch has {counted(len(branch), 'part')}, expected at most "
            f"{depth - first + 1}: {counted(depth - first, 'level')} from level {first} down, and "
            "the rows"
        )
    start, stop = 0, lod.count(first) if first < depth else rows
    for here, key in enumerate(branch, first):
        if isinstance(key, slice):
            if here != first + len(branch) - 1:
                raise SelectionError(
                    f"part {here - first} of the branch is a range; only the last part may be one"
                )
            return _range(lod, here, key, start, stop)
        item = start + item_number(lod, here, key, stop - start)
        if here == depth:
            rows_kept = slice(item, item + 1)
            return Selection(NO_LEVELS, rows_kept, True, here, item, item + 1, (here, item))
        start, stop = lod.part(here, item, item + 1).tolist()
    below = here + 1
    if below == depth:  # the most frequent case: one sequence of rows
        return Selection(NO_LEVELS, slice(start, stop), False, below, start, stop, (here, item))
    return _items(lod, below, start, stop, (here, item))


def _items(
    lod: Index, level: int, start: int, stop: int, item: tuple[int, int] | None = None
) -> Selection:
    kept, rows = NO_LEVELS, slice(start, stop)
    if level < lod.n_levels:
        kept, rows = lod.items(level, start, stop)
    return Selection(kept, rows, False, level, start, stop, item)


def _range(lod: Index, level: int, key: slice, start: int, stop: int) -> Selection:
    low, high = range_bounds(key, stop - start)
    return _items(lod, level, start + low, start + high)


def range_bounds(key: slice, count: int) -> tuple[int, int]:
    """Return the begin and the end of a range over `count` items.

    Raises:
        SelectionError: the range has a step, or a bound is not a whole number.
    """
    if key.step not in (None, 1):
        raise SelectionError(f"a range has no step here, found {key.step}")
    try:
        low, high, _ = key.indices(count)
    except TypeError:
        raise SelectionError(f"a range goes from one whole number to another, not {key}") from None
    return low, max(low, high)


def item_number(lod: Index, level: int, key: int, count: int) -> int:
    """Return the number of one of `count` items; a negative `key` counts from the end.

    Raises:
        SelectionError: there is no such item (names the level), or `key` is not a whole number.
    """
    if type(key) is not int:
        key = whole_number(key, "an item", booleans=False)
    index = key + count if key < 0 else key
    if not 0 <= index < count:
        raise missing_item(lod.names, level, key, count)
    return index


def missing_item(
    names: Sequence[str | None], level: int, key: int, count: int, where: str = ""
) -> SelectionError:
    """Return the error about an item that a level does not have.

    Args:
        names: of all levels; with L levels, level L is the rows.
        level, key: the item.
        count: the number of existing items.
        where: the parent of the items, such as " in item 2".
    """
    called = "rows" if level == len(names) else level_label(names[level], level)
    valid = f"{-count} to {count - 1}" if count else "none is valid"
    what = f"{called}: no item {key}{where}, there are {count} here ({valid})"
    return SelectionError(what, level=level)


def level_text(lod: Index, level: int) -> str:
    """Return the text for a level in messages; with L levels, level L is the rows."""
    return "rows" if level == lod.n_levels else level_label(lod.names[level], level)


def level_label(name: str | None, level: int) -> str:
    """Return the name of a level for messages; its number if it has none."""
    return name or f"level {level}"


def whole_number(value: SupportsIndex, what: str, *, booleans: bool = True) -> int:
    """Return `value` as an int.

    Args:
        value: a whole number of any type.
        what: its meaning, for the message, such as "an item".
        booleans: whether True and False are accepted as 1 and 0.

    Raises:
        SelectionError: it is not a whole number.
    """
    try:
        if booleans or not isinstance(value, bool):
            return operator.index(value)
    except TypeError:  # also from an array of one float, which has __index__
        pass
    raise SelectionError(f"{what} is a whole number, not {value!r}")
