"""The result of `tensor[key]`: rows and their index.

Each part of a key is for one level, the outermost first, then for the rows, then for the axes of a
row. A number drops its level; a range, an array of numbers and an array of booleans keep it. The
numbers of the rows are computed from the offsets alone, level by level; then one gather reads them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from lodcli.kernels.errors import SelectionError, ShapeMismatchError, counted
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.groups import near_step, segment_cut, segment_number, segment_places
from lodcli.kernels.index.items import inner_offsets, picked_offsets
from lodcli.kernels.index.lod import LevelNames, LoD
from lodcli.kernels.index.selection import Selection, item_number, level_text, missing_item, select
from lodcli.kernels.ops.slicing.row_ranges import RowRanges, rows_of_ranges
from lodcli.kernels.runtime.arrays import beside, is_on_device, on_host
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.nulls import Nulls

_ALL = slice(None)
_UINT64 = np.dtype(np.uint64)


class Picked(NamedTuple):
    """A resolved key.

    Attributes:
        lod: the index of the result.
        rows: a range of rows, several ranges, or their numbers.
        drops_row_axis: whether the result is one row, without the row axis.
        features: the part of the key that is for the axes of a row.
        whole: whether the result is whole finest sequences, under one level or more.
    """

    lod: LoD
    rows: slice | Offsets | RowRanges
    drops_row_axis: bool = False
    features: tuple[Any, ...] = ()
    whole: bool = False

    def on(self, data: Array) -> Any:
        """Return the rows as a key for `data`; numbers of rows are moved to its device."""
        rows = self.rows
        if isinstance(rows, slice):
            return rows
        return beside(rows.numbers() if isinstance(rows, RowRanges) else rows, data)

    def of(self, data: Array) -> Array:
        """Return the rows themselves: a view for a range, else a copy."""
        rows = self.rows
        found: Array
        if type(rows) is RowRanges:
            found = rows_of_ranges(data, rows.starts, rows.bounds)
        elif type(rows) is np.ndarray and type(data) is np.ndarray and data.flags.c_contiguous:
            found = data.take(rows, axis=0)  # several times faster than data[rows]
        else:
            found = data[self.on(data)]
        if not self.features:
            return found[0] if self.drops_row_axis else found
        try:
            return found[(0 if self.drops_row_axis else _ALL, *self.features)]
        except IndexError as error:
            raise SelectionError(f"the axes of a row {data.shape[1:]}: {error}") from None


def picked(lod: LoD, shape: tuple[int, ...], key: Any, *, setting: bool = False) -> Picked:
    """Resolve a key for rows of this shape, (N, ...), under an index.

    Args:
        lod, shape: of a tensor.
        key: see there.
        setting: whether a tensor of booleans may select single values of rows, to set them.

    Raises:
        SelectionError: no such item or level, or a part of the wrong type.
        ShapeMismatchError: the key is a tensor with other sequences.
    """
    first, parts, features = _split_key(lod, shape, key)
    if not features and len(parts) == 1 and hasattr(parts[0], "lod"):
        return _by_tensor(lod, shape, parts[0], first, setting)
    depth = len(lod.levels) - first + 1
    if _is_branch(parts):
        found = select(lod, shape[0], parts, first)
        whole = len(found.lod.levels) > 0 and not features
        return Picked(found.lod, found.rows, found.drops_row_axis, features, whole)
    levels, names, rows = _walk(lod, shape[0], parts, first)
    whole = bool(levels) and len(parts) < depth and not features
    return Picked(LoD._trusted(levels, names), rows, False, features, whole)


def values_to_set(found: Picked, key: Any, tensor: Any, value: Any) -> Array:
    """Return a copy of the rows of a tensor, for the rows that a key selects.

    A tensor of booleans selects from a value with all sequences too, as in `x[x > 3] = x * 10`.

    Args:
        found: the resolved key.
        key: as it was given.
        tensor: whose rows are set.
        value: a tensor without nulls.

    Raises:
        ShapeMismatchError: its sequences are not those selected.
    """
    data: Array = value.data
    by_mask = hasattr(key, "lod") and key.data.dtype.kind == "b"
    other = found.lod.difference(value.lod)
    if by_mask and len(data) == tensor.rows and tensor.lod.difference(value.lod) is None:
        rows = found.on(data)
        if np.ndim(rows) < 2 or rows.shape == data.shape:  # or a boolean for each single value
            data, other = data[rows], None
    if other is not None:
        raise ShapeMismatchError(f"value: its sequences are not those selected: {other}")
    return data.copy()  # it may share the memory that is set


def whole_items(
    lod: LoD, shape: tuple[int, ...], key: Any, nulls: Nulls
) -> Selection | Offsets | None:
    """Return the branch, or the numbers of the outermost items, that a key for rows selects.

    None if the key selects below the outermost level by anything but numbers and one range.

    Raises:
        SelectionError: as `picked`; or the key selects within an item that is null.
    """
    first, parts, features = _split_key(lod, shape, key)
    if features or hasattr(parts[0], "lod"):
        return None
    if _is_branch(parts):
        for count in range(1, len(parts)):
            above = select(lod, shape[0], parts[:count], first)
            if above.item and nulls.is_null(*above.item):
                raise SelectionError(f"part {count} of the key selects within an item that is null")
        return select(lod, shape[0], parts, first)
    if first or len(parts) > 1:
        return None
    return _of_one_group(lod, 0, parts[0], 0, lod.count(0) if lod.levels else shape[0])


def item_numbers(lod: LoD, count: int, part: Any) -> Offsets:
    """Return the numbers of the outermost items, `count` of them, that a part of a key selects.

    Raises:
        SelectionError: no such item, or no range and no array of numbers or booleans.
    """
    (checked,) = _all_parts((part,), 1)
    return _of_one_group(lod, 0, checked, 0, count)


def _split_key(
    lod: LoD, shape: tuple[int, ...], key: Any
) -> tuple[int, tuple[Any, ...], tuple[Any, ...]]:
    """Return the level of the first part of a key, its parts, checked, and those for axes of a row.

    Full ranges at the end are left out. A tensor alone is returned as the only part.
    """
    parts = key if isinstance(key, tuple) else (key,)
    first, parts = 0, parts or (_ALL,)
    if isinstance(parts[0], str):
        first, parts = lod.level(parts[0]), parts[1:] or (_ALL,)
    if len(parts) == 1 and hasattr(parts[0], "lod"):
        return first, parts, ()
    depth = len(lod.levels) - first + 1
    parts = _all_parts(parts, depth - 1 + len(shape))
    features, parts = parts[depth:], parts[:depth]
    if len(features) > len(shape) - 1:
        raise SelectionError(
            f"the key has {depth + len(features)} parts, but there are only {depth - 1} levels, "
            f"the rows and {len(shape) - 1} axes of a row"
        )
    while len(parts) > 1 and _is_all(parts[-1]):
        parts = parts[:-1]
    return first, parts, features


def _all_parts(parts: tuple[Any, ...], axes: int) -> tuple[Any, ...]:
    """Return the parts of a key, checked, with `...` expanded to full slices."""
    found: list[Any] = []
    ellipses = arrays = 0
    for part in parts:
        if part is Ellipsis:
            ellipses += 1
            found.extend([_ALL] * (axes - len(parts) + 1))
            continue
        # Fast path for the most frequent parts: an int, and the full slice.
        checked = part if type(part) is int or part is _ALL else _checked(part)
        arrays += type(checked) is np.ndarray
        found.append(checked)
    if ellipses > 1:
        raise SelectionError("a key has at most one ...")
    if arrays > 1:
        raise SelectionError(
            "a key has at most one array; select with one, then with the other: tensor[a][:, b]"
        )
    return tuple(found)


def _checked(part: Any) -> int | slice | Array:
    """Return a part of a key as a number, a range, or a flat array of numbers or booleans."""
    if isinstance(part, slice):
        for one in (part.start, part.stop, part.step):
            if one is not None and type(one) is not int and not _is_whole(one):
                raise SelectionError(f"a range goes from one whole number to another, not {part}")
        if part.step == 0:
            raise SelectionError("the step of a range is a whole number other than 0")
        return part
    if _is_whole(part):
        return int(part)
    if isinstance(part, list | range | np.ndarray) or hasattr(part, "__array__"):
        plain = type(part) in (list, np.ndarray)
        try:  # not always on_host, which takes longer
            if isinstance(part, range):  # NumPy would read it item by item
                array = np.arange(part.start, part.stop, part.step)
            else:
                array = np.asarray(part) if plain else on_host(part, "key")
        except ValueError:
            array = on_host(part, "key")  # explains the error
        if not array.ndim and array.dtype.kind in "iu":  # such as an item of a tensor of torch
            return int(array)
        if array.ndim == 1 and (array.dtype.kind in "iub" or not array.size):
            return array if array.dtype.kind == "b" else _signed(array)
        what = f"{array.ndim} dimensions of {array.dtype}"
        raise SelectionError(f"an array in a key is a flat list of numbers or booleans, not {what}")
    raise SelectionError(
        f"index by whole numbers, ranges, arrays of numbers or booleans, or a tensor; not {part!r}"
    )


def _signed(numbers: Array) -> Offsets:
    """Return whole numbers as int64. Raises SelectionError: one that an int64 cannot hold."""
    if numbers.dtype.kind == "u" and numbers.itemsize == 8:  # in any byte order
        far = numbers > np.iinfo(np.int64).max
        if far.any():
            place = int(np.argmax(far))
            raise SelectionError(f"key, position {place}: no item {numbers[place]}")
    return numbers.astype(np.int64, copy=False)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_all(part: Any) -> bool:
    return part is _ALL or (type(part) is slice and part == _ALL)


def _is_branch(parts: tuple[Any, ...]) -> bool:
    """Return whether these are numbers, or numbers and a range without a step."""
    for part in parts[:-1]:
        if type(part) is not int:
            return False
    last = parts[-1]
    return type(last) is int or (type(last) is slice and last.step in (None, 1))


def _walk(
    lod: LoD, rows: int, parts: tuple[Any, ...], first: int
) -> tuple[list[Offsets], LevelNames, Offsets | RowRanges]:
    """Return the remaining levels, their names, and the rows.

    At each depth there is a group of items for each item selected above, and a part selects in
    every group. The numbers before the first part that keeps its level leave one group.
    """
    finest = len(lod.levels)
    depth, start, stop = first, 0, lod.levels[first].size - 1 if first < finest else rows
    while type(part := parts[depth - first]) is int:
        item = start + item_number(lod, depth, part, stop - start)
        start, stop = lod.part(depth, item, item + 1).tolist()
        depth += 1
    items: Offsets | RowRanges = _of_one_group(lod, depth, part, start, stop)
    levels: list[Offsets] = []
    names: list[str | None] = []
    above = depth  # the groups are the items of this depth
    while depth < finest:
        depth += 1
        part = parts[depth - first] if depth - first < len(parts) else _ALL
        if type(part) is int:
            items = _numbered(lod, depth, part, _numbers(items))
        else:
            items, bounds = _several(lod, depth, part, items)
            levels.append(bounds)
            names.append(lod.names[above])
            above = depth
    return levels, tuple(names), items


def _numbers(items: Offsets | RowRanges) -> Offsets:
    return items.numbers() if isinstance(items, RowRanges) else items


def _of_one_group(lod: LoD, depth: int, part: slice | Array, start: int, stop: int) -> Offsets:
    """Return the items that a part selects among items start..stop."""
    count = stop - start
    if isinstance(part, slice):
        low, high, _ = part.indices(count)
        return np.arange(start + low, start + high, near_step(part))
    if part.dtype.kind == "b":
        if part.size != count:
            raise SelectionError(
                f"{level_text(lod, depth)}: {counted(part.size, 'boolean')} for "
                f"{counted(count, 'item')}",
                level=depth,
            )
        part = part.nonzero()[0]
    # As unsigned numbers, negative ones are greater than all others.
    elif np.count_nonzero(part.view(_UINT64) >= count):
        wrapped = np.where(part < 0, part + count, part)
        if np.count_nonzero(wrapped.view(_UINT64) >= count):
            low, high = int(part.min()), int(part.max())
            _refuse(lod, depth, high if high >= count else low, 0, np.array([count]))
        part = wrapped
    return part + start if start else part


def _numbered(lod: LoD, depth: int, number: int, items: Offsets) -> Offsets:
    """Return child `number`, at `depth`, of each item one level above."""
    offsets = lod.levels[depth - 1]
    found = on("auto", segment_number, size_bytes=2 * items.nbytes)(offsets, items, number)
    if found is None:
        counts = offsets_to_lengths(offsets)[items]
        missing = (number >= counts) | (number < -counts)
        _refuse(lod, depth, number, int(np.argmax(missing)), counts)
    return found


def _several(
    lod: LoD, depth: int, part: slice | Array, items: Offsets | RowRanges
) -> tuple[Offsets | RowRanges, Offsets]:
    """Return the children, at `depth`, that a part selects in each item, and their offsets."""
    offsets = lod.levels[depth - 1]
    if _is_all(part):
        if isinstance(items, RowRanges):
            bounds, *inner = inner_offsets(offsets, *items)
            return RowRanges(*inner), bounds
        found = RowRanges(*picked_offsets(offsets, items))
        return found, found.bounds
    items = _numbers(items)
    if isinstance(part, slice):
        found = RowRanges(
            *on("auto", segment_cut, size_bytes=2 * items.nbytes)(offsets, items, part)
        )
        step = near_step(part)
        return found if step == 1 else ranges(*found, step), found.bounds
    length = -1
    if part.dtype.kind == "b":
        part, length = part.nonzero()[0], part.size
    places = on("auto", segment_places, size_bytes=2 * items.nbytes)
    picked_places = places(offsets, items, part, length)
    if picked_places is None:
        _refuse_places(lod, depth, part, length, offsets_to_lengths(offsets)[items])
    return picked_places


def _refuse_places(lod: LoD, depth: int, places: Offsets, length: int, counts: Offsets) -> NoReturn:
    """Raise SelectionError for the first group that is too short or not as long as the mask."""
    if length >= 0:
        group = int(np.argmax(counts != length))
        where = "" if counts.size == 1 else f" in item {group}"
        raise SelectionError(
            f"{level_text(lod, depth)}: {counted(length, 'boolean')} for "
            f"{counted(int(counts[group]), 'item')}{where}",
            level=depth,
        )
    low, high = int(places.min()), int(places.max())
    group = int(np.argmax((high >= counts) | (low < -counts)))
    _refuse(lod, depth, high if high >= counts[group] else low, group, counts)


def _refuse(lod: LoD, depth: int, number: int, group: int, counts: Offsets) -> NoReturn:
    where = "" if counts.size == 1 else f" in item {group}"
    raise missing_item(lod.names, depth, number, int(counts[group]), where)


def _by_tensor(lod: LoD, shape: tuple[int, ...], key: Any, first: int, setting: bool) -> Picked:
    """Resolve a tensor as key: its booleans or positions select separately in each sequence."""
    depth, values = key.lod.n_levels, key.data
    if is_on_device(values):  # the index that they select is computed in main memory
        from lodcli.kernels.runtime.devices import moved

        values = moved(values, "cpu")
    if not first and values.dtype.kind == "b" and values.ndim > 1 and setting:
        if values.shape != shape:
            raise ShapeMismatchError(f"key: {values.shape} booleans for values of shape {shape}")
        if depth:
            _require_alike(lod, key.lod, depth)
        return Picked(lod, values)
    if first or values.ndim != 1 or values.dtype.kind not in "iub":
        raise SelectionError(
            "a tensor in a key holds booleans or positions, one-dimensional, from the outermost "
            f"level on; found {values.ndim} dimensions of {values.dtype}; np.where chooses among "
            "the values of rows"
        )
    if not depth:
        return picked(lod, shape[:1], values)
    if depth > lod.n_levels:
        raise ShapeMismatchError(f"key: {depth} levels, more than the {lod.n_levels} there are")
    mask = values.dtype.kind == "b"
    if key.lod is not lod or not mask:
        _require_alike(lod, key.lod, depth if mask else depth - 1)
    offsets = lod.levels[depth - 1]
    if mask:
        items = values.nonzero()[0]
        bounds = lengths_to_offsets(values.astype(np.int64), level=depth - 1)[offsets]
    else:
        bounds = key.lod.levels[depth - 1]
        groups = np.arange(bounds.size - 1).repeat(offsets_to_lengths(bounds))
        places, counts = _signed(values), offsets_to_lengths(offsets)[groups]
        missing = (places >= counts) | (places < -counts)
        if np.count_nonzero(missing):
            place = int(missing.argmax())
            raise SelectionError(
                f"key, position {place}: {level_text(lod, depth)}: no item {places[place]} in item "
                f"{groups[place]}, there are {counts[place]} here",
                level=depth,
            )
        items = offsets[:-1][groups] + np.where(places < 0, places + counts, places)
    levels = [*lod.levels[: depth - 1], bounds]
    taken: Offsets | RowRanges = items
    for lower in range(depth + 1, lod.n_levels + 1):
        taken, bounds = _several(lod, lower, _ALL, taken)
        levels.append(bounds)
    return Picked(LoD._trusted(levels, lod.names), taken)


def _require_alike(lod: LoD, key: LoD, levels: int) -> None:
    """Raise ShapeMismatchError unless the first `levels` levels are equal.

    The finest level of the key must have as many items as that level of the tensor.
    """
    found = lod.upto(levels - 1).difference(key.upto(levels - 1)) if levels else None
    finest = key.n_levels - 1
    if found is None and key.count(finest) != lod.count(finest):
        found = f"level {finest} has {lod.count(finest)} items against {key.count(finest)}"
    if found is not None:
        raise ShapeMismatchError(f"key: its sequences are not the tensor's: {found}")
