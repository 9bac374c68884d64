"""What `tensor[key]` means: which rows, under which index.

Each part of a key is for one level, the outermost first, then for the rows, then for the axes of a
row. A number drops its level; a range, an array of numbers and an array of booleans keep it. What a
key names in the rows is found from the offsets alone, level by level; rows are touched once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.errors import SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.groups import segment_cut
from lodcli.kernels.index.items import picked_offsets
from lodcli.kernels.index.lod import LevelNames, LoD
from lodcli.kernels.index.selection import item_number, select
from lodcli.kernels.ops.slicing.row_ranges import RowRanges
from lodcli.kernels.runtime.arrays import beside, is_on_device
from lodcli.kernels.runtime.dispatch import on

_ALL = slice(None)


class Picked(NamedTuple):
    """What a key means.

    Attributes:
        lod: the index of what comes back.
        rows: a range of rows, several ranges, or their numbers.
        drops_row_axis: whether it is one row, without its axis.
        features: the part of the key that is for the axes of a row.
        whole: whether it is whole finest sequences, under one level or more.
    """

    lod: LoD
    rows: slice | Offsets | RowRanges
    drops_row_axis: bool = False
    features: tuple[Any, ...] = ()
    whole: bool = False

    def on(self, data: Array) -> Any:
        """Return the rows as a key of `data`: numbers of rows lie where it lies."""
        rows = self.rows
        if isinstance(rows, slice):
            return rows
        return beside(rows.numbers() if isinstance(rows, RowRanges) else rows, data)

    def of(self, data: Array) -> Array:
        """Return the rows themselves: a view for a range, else a copy."""
        rows = self.rows
        found: Array = rows.of(data) if isinstance(rows, RowRanges) else data[self.on(data)]
        if not self.features:
            return found[0] if self.drops_row_axis else found
        try:
            return found[(0 if self.drops_row_axis else _ALL, *self.features)]
        except IndexError as error:
            raise SelectionError(f"the axes of a row {data.shape[1:]}: {error}") from None


def picked(lod: LoD, shape: tuple[int, ...], key: Any) -> Picked:
    """Return what a key means for rows of this shape, (N, ...), under an index.

    Raises:
        SelectionError: no such item or level, or a part that is no index.
        ShapeMismatchError: a tensor as a key that has other sequences.
    """
    parts = key if isinstance(key, tuple) else (key,)
    first, parts = 0, parts or (_ALL,)
    if isinstance(parts[0], str):
        first, parts = lod.level(parts[0]), parts[1:] or (_ALL,)
    if len(parts) == 1 and hasattr(parts[0], "lod"):
        return _by_tensor(lod, shape[0], parts[0], first)
    parts = tuple(map(_checked, _without_ellipsis(parts, lod.n_levels - first + len(shape))))
    depth = lod.n_levels - first + 1
    features, parts = parts[depth:], parts[:depth]
    if len(features) > len(shape) - 1:
        raise SelectionError(
            f"the key has {depth + len(features)} parts, but there are only {depth - 1} levels, "
            f"the rows and {len(shape) - 1} axes of a row"
        )
    arrays = [part for part in (*parts, *features) if isinstance(part, np.ndarray)]
    if len(arrays) > 1:
        raise SelectionError(
            "a key has at most one array; pick by one, then by the other: tensor[a][:, b]"
        )
    while len(parts) > 1 and _is_all(parts[-1]):
        parts = parts[:-1]
    if all(isinstance(part, int) for part in parts[:-1]) and _is_range(parts[-1]):
        found = select(lod, shape[0], parts, first)
        whole = found.lod.n_levels > 0 and not features
        return Picked(found.lod, found.rows, found.drops_row_axis, features, whole)
    levels, names, rows = _walk(lod, shape[0], parts, first)
    whole = bool(levels) and len(parts) < depth and not features
    return Picked(LoD._trusted(levels, names), rows, False, features, whole)


def _without_ellipsis(parts: tuple[Any, ...], axes: int) -> tuple[Any, ...]:
    places = [place for place, part in enumerate(parts) if part is Ellipsis]
    if not places:
        return parts
    if len(places) > 1:
        raise SelectionError("a key has at most one ...")
    before, after = parts[: places[0]], parts[places[0] + 1 :]
    return (*before, *[_ALL] * max(0, axes - len(before) - len(after)), *after)


def _checked(part: Any) -> int | slice | Array:
    """Return a part of a key as a number, a range, or a flat array of numbers or booleans."""
    if isinstance(part, slice):
        if not all(_is_bound(one) for one in (part.start, part.stop, part.step)):
            raise SelectionError(f"a range goes from one whole number to another, not {part}")
        if part.step == 0:
            raise SelectionError("the step of a range is a whole number other than 0")
        return part
    if isinstance(part, int | np.integer) and not isinstance(part, bool):
        return int(part)
    if isinstance(part, list | np.ndarray) or hasattr(part, "__array__"):
        array = np.asarray(part)
        if array.ndim == 1 and (array.dtype.kind in "iub" or not array.size):
            return array if array.dtype.kind == "b" else array.astype(np.int64, copy=False)
        what = f"{array.ndim} dimensions of {array.dtype}"
        raise SelectionError(f"an array in a key is a flat list of numbers or booleans, not {what}")
    raise SelectionError(
        f"index by whole numbers, ranges, arrays of numbers or booleans, or a tensor; not {part!r}"
    )


def _is_bound(value: Any) -> bool:
    return value is None or (isinstance(value, int | np.integer) and not isinstance(value, bool))


def _is_all(part: Any) -> bool:
    return isinstance(part, slice) and part == _ALL


def _is_range(part: Any) -> bool:
    return isinstance(part, int) or (isinstance(part, slice) and part.step in (None, 1))


def _walk(
    lod: LoD, rows: int, parts: tuple[Any, ...], first: int
) -> tuple[list[Offsets], LevelNames, Offsets | RowRanges]:
    """Return the levels that are left, their names, and the rows.

    At each depth there are some groups of items, those of the items above; a part picks in every
    group. Until a part keeps its level there is one group, the whole batch.
    """
    depth, start, stop = first, 0, lod.count(first) if first < lod.n_levels else rows
    while isinstance(part := parts[depth - first], int):
        item = start + item_number(lod, depth, part, stop - start)
        start, stop = lod.part(depth, item, item + 1).tolist()
        depth += 1
    items: Offsets | RowRanges = _of_one_group(lod, depth, part, start, stop)
    levels: list[Offsets] = []
    names: list[str | None] = []
    above = depth  # the depth that the groups are items of
    while depth < lod.n_levels:
        if isinstance(items, RowRanges):
            items = items.numbers()
        depth += 1
        part = parts[depth - first] if depth - first < len(parts) else _ALL
        if isinstance(part, int):
            items = _numbered(lod, depth, part, items)
        else:
            items, bounds = _several(lod, depth, part, items)
            levels.append(bounds)
            names.append(lod.names[above])
            above = depth
    return levels, tuple(names), items


def _of_one_group(lod: LoD, depth: int, part: slice | Array, start: int, stop: int) -> Offsets:
    """Return the items that a part picks of items start..stop."""
    count = stop - start
    if isinstance(part, slice):
        low, high, step = part.indices(count)
        return np.arange(start + low, start + high, step)
    if part.dtype.kind == "b":
        if part.size != count:
            raise SelectionError(f"{_called(lod, depth)}: {part.size} booleans for {count} items")
        part = part.nonzero()[0]
    # Those below 0 are above all others as numbers without a sign.
    elif np.count_nonzero(part.view(np.uint64) >= count):
        wrapped = np.where(part < 0, part + count, part)
        if np.count_nonzero(wrapped.view(np.uint64) >= count):
            low, high = int(part.min()), int(part.max())
            _refuse(lod, depth, high if high >= count else low, 0, np.array([count]))
        part = wrapped
    return part + start if start else part


def _numbered(lod: LoD, depth: int, number: int, items: Offsets) -> Offsets:
    """Return item `number` of each of the items above a depth."""
    offsets = lod.levels[depth - 1]
    starts, stops = offsets[items], offsets[items + 1]
    counts = stops - starts
    missing = (number >= counts) | (number < -counts)
    if np.count_nonzero(missing):
        _refuse(lod, depth, number, int(np.argmax(missing)), counts)
    return (stops if number < 0 else starts) + number


def _several(
    lod: LoD, depth: int, part: slice | Array, items: Offsets
) -> tuple[Offsets | RowRanges, Offsets]:
    """Return what a part picks of each of the items above a depth, and the offsets of that."""
    offsets = lod.levels[depth - 1]
    if isinstance(part, slice):
        if part == _ALL:
            picked_ranges = RowRanges(*picked_offsets(offsets, items))
            return picked_ranges, picked_ranges.bounds
        return on("auto", segment_cut, size_bytes=2 * items.nbytes)(offsets, items, part)
    starts = offsets[items]
    counts = offsets[items + 1] - starts
    if part.dtype.kind == "b":
        wrong = counts != part.size
        if np.count_nonzero(wrong):
            group = int(np.argmax(wrong))
            where = "" if counts.size == 1 else f" in item {group}"
            raise SelectionError(
                f"{_called(lod, depth)}: {part.size} booleans for {counts[group]} items{where}"
            )
        part = part.nonzero()[0]
    wrapped = part + (part < 0) * counts[:, np.newaxis]
    # Those below 0 are above all others as numbers without a sign.
    missing = wrapped.view(np.uint64) >= counts.view(np.uint64)[:, np.newaxis]
    if np.count_nonzero(missing):
        group = int(np.argmax(missing.any(axis=1)))
        low, high = int(part.min()), int(part.max())
        _refuse(lod, depth, high if high >= counts[group] else low, group, counts)
    bounds = np.arange(counts.size + 1) * part.size
    return (starts[:, np.newaxis] + wrapped).reshape(-1), bounds


def _refuse(lod: LoD, depth: int, number: int, group: int, counts: Offsets) -> None:
    where = "" if counts.size == 1 else f" in item {group}"
    raise SelectionError(
        f"{_called(lod, depth)}: no item {number}{where}, there are {counts[group]} here"
    )


def _called(lod: LoD, depth: int) -> str:
    return "rows" if depth == lod.n_levels else lod.names[depth] or f"level {depth}"


def _by_tensor(lod: LoD, rows: int, key: Any, first: int) -> Picked:
    """Return what a tensor of booleans or of places picks: in every sequence its own."""
    depth, values = key.lod.n_levels, key.data
    if is_on_device(values):  # what they pick is told by an index, which is in main memory
        from lodcli.kernels.runtime.devices import moved

        values = moved(values, "cpu")
    if first or values.ndim != 1 or values.dtype.kind not in "iub":
        raise SelectionError(
            "a tensor in a key holds a boolean or a place for each item, from the outermost level "
            f"on; found {values.ndim} dimensions of {values.dtype}"
        )
    if not depth:
        return picked(lod, (rows,), values)
    if depth > lod.n_levels:
        raise ShapeMismatchError(f"key: {depth} levels, more than the {lod.n_levels} there are")
    mask = values.dtype.kind == "b"
    upper = LoD._trusted(lod.levels[: depth if mask else depth - 1])
    found = upper.difference(LoD._trusted(key.lod.levels[: upper.n_levels]))
    if found is None and key.lod.count(depth - 1) != lod.count(depth - 1):
        found = (
            f"level {depth - 1} has {lod.count(depth - 1)} items against {key.lod.count(depth - 1)}"
        )
    if found is not None:
        raise ShapeMismatchError(f"key: its sequences are not the tensor's: {found}")
    offsets = lod.levels[depth - 1]
    if mask:
        items = np.flatnonzero(values)
        bounds = lengths_to_offsets(values.astype(np.int64), level=depth - 1)[offsets]
    else:
        bounds = key.lod.levels[depth - 1]
        groups = np.repeat(np.arange(bounds.size - 1), offsets_to_lengths(bounds))
        places, counts = values.astype(np.int64), offsets_to_lengths(offsets)[groups]
        missing = (places >= counts) | (places < -counts)
        if missing.any():
            place = int(np.argmax(missing))
            raise SelectionError(
                f"key, position {place}: {_called(lod, depth)}: no item {places[place]} in item "
                f"{groups[place]}, there are {counts[place]} here"
            )
        items = offsets[:-1][groups] + np.where(places < 0, places + counts, places)
    levels = [*lod.levels[: depth - 1], bounds]
    taken: Offsets | RowRanges = items
    for lower in lod.levels[depth:]:
        inner = taken.numbers() if isinstance(taken, RowRanges) else taken
        taken = RowRanges(*picked_offsets(lower, inner))
        levels.append(taken.bounds)
    return Picked(LoD._trusted(levels, lod.names), taken)
