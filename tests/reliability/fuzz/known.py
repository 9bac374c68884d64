"""The content of a file as plain values, as generated and as read.

Two contents are compared byte by byte. Tensors that were read are converted by plain loops, which
also check them: a reader must not return an index that breaks a rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from lodcli.formats.core.schema import Item, StoredArray
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Lengths = tuple[tuple[int, ...], ...]


class UnsoundError(Exception):
    """What a reader returned breaks a rule of tensors."""


@dataclass(frozen=True)
class Known:
    """One tensor in plain values.

    Attributes:
        dtype: its name.
        shape: of the rows, N first.
        rows: their bytes, native order.
        lengths: of each level, outermost first.
        names: of the levels; None if the format does not keep them: then any will do.
        order: of a TensorArray, the original sequence at each place; else None.
        outer: of a TensorArray, the lengths of the levels that were unpacked.
        nulls: by the number of the level, or as many as there are for rows, which items are null.
    """

    dtype: str
    shape: tuple[int, ...]
    rows: bytes
    lengths: Lengths = ()
    names: tuple[str | None, ...] | None = None
    order: tuple[int, ...] | None = None
    outer: Lengths = ()
    nulls: tuple[tuple[int, tuple[int, ...]], ...] = ()


Content = dict[str, Known]


def known(
    rows: Any,
    lengths: Sequence[Sequence[int]] = (),
    names: Sequence[str | None] | None = None,
    dtype: str | None = None,
) -> Known:
    """Return what rows and lengths stand for."""
    array = np.asarray(rows, dtype)
    told = tuple(tuple(int(one) for one in level) for level in lengths)
    level_names = None if names is None else tuple(names)
    return Known(array.dtype.name, array.shape, array.tobytes(), told, level_names)


def without_names(content: Content) -> Content:
    """Return content whose level names do not matter."""
    return {name: replace(one, names=None) for name, one in content.items()}


def seen(items: Mapping[str, Item]) -> Content:
    """Return what a reader gave, in plain values.

    Raises:
        UnsoundError: it breaks a rule.
    """
    return {name: _seen(item) for name, item in items.items()}


def _seen(item: Item) -> Known:
    if not isinstance(item, StoredArray):
        return _seen_tensor(item)
    steps = _seen_tensor(item.array.steps)
    outer = _lengths(item.index_map.outer)
    order = tuple(item.index_map.order.tolist())
    if not outer or sorted(order) != list(range(len(outer[-1]))):
        raise UnsoundError(f"the order {order} is not one of the sequences {outer}")
    if sum(outer[-1]) != sum(steps.lengths[0]):
        raise UnsoundError(f"steps of {steps.lengths[0]} items, sequences of {outer[-1]}")
    return replace(steps, names=None, order=order, outer=outer)


def _seen_tensor(tensor: LoDTensor) -> Known:
    data = np.ascontiguousarray(tensor.values)
    lengths = _lengths(tensor.lod)
    for number, level in enumerate(lengths):
        below = len(lengths[number + 1]) if number + 1 < len(lengths) else len(data)
        if sum(level) != below:
            raise UnsoundError(f"level {number} has {sum(level)} items, below are {below}")
    if data.dtype == np.bool_ and data.size and data.view(np.uint8).max() > 1:
        raise UnsoundError("booleans that are neither 0 nor 1")
    nulls = _nulls(tensor, data, lengths)
    names = tuple(tensor.lod.names)
    return Known(data.dtype.name, data.shape, data.tobytes(), lengths, names, nulls=nulls)


def _nulls(
    tensor: LoDTensor, data: np.ndarray[Any, Any], lengths: Lengths
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    found = []
    for level, mask in tensor.nulls.present():
        size = len(lengths[level]) if level < len(lengths) else len(data)
        if mask.dtype != np.bool_ or mask.shape != (size,):
            raise UnsoundError(f"a mask of {mask.shape} {mask.dtype} for {size} items")
        places = tuple(place for place, valid in enumerate(mask.tolist()) if not valid)
        for place in places:
            if lengths[level][place] if level < len(lengths) else any(data[place].tobytes()):
                raise UnsoundError(f"level {level}, item {place} is null and holds something")
        found.append((level, places))
    return tuple(found)


def _lengths(lod: LoD) -> Lengths:
    found = []
    for number, offsets in enumerate(lod.levels):
        level = offsets.tolist()
        if not level or level[0] != 0:
            raise UnsoundError(f"level {number} begins with {level[:1]}")
        lengths = tuple(after - before for before, after in pairwise(level))
        if any(length < 0 for length in lengths):
            raise UnsoundError(f"level {number} decreases")
        found.append(lengths)
    return tuple(found)


def difference(found: Content, expected: Content) -> str | None:
    """Return in what two contents differ, in a few words; None if they are equal."""
    if found.keys() != expected.keys():
        return f"tensors {sorted(found)}, expected {sorted(expected)}"
    for name, one in expected.items():
        other = found[name]
        if one.names is None:
            other = replace(other, names=None)
        if one == other:
            continue
        for what in ("dtype", "shape", "lengths", "names", "order", "outer", "nulls"):
            if getattr(one, what) != getattr(other, what):
                return f"{name}: {what} {getattr(other, what)}, expected {getattr(one, what)}"
        return f"{name}: other rows"
    return None


def items_of(content: Content, start: int, stop: int) -> Content:
    """Return the outermost items from `start` to `stop` of the one tensor of a content."""
    ((name, whole),) = content.items()
    first, last, lengths = start, stop, list[tuple[int, ...]]()
    nulls, told = list[tuple[int, tuple[int, ...]]](), dict(whole.nulls)
    for number in range(len(whole.lengths) + 1):
        places = tuple(place - first for place in told.get(number, ()) if first <= place < last)
        nulls += [(number, places)] if places else []
        if number < len(whole.lengths):
            level = whole.lengths[number]
            lengths.append(level[first:last])
            first, last = sum(level[:first]), sum(level[:last])
    size = len(whole.rows) // max(1, whole.shape[0])
    shape = (last - first, *whole.shape[1:])
    rows = whole.rows[first * size : last * size]
    part = replace(whole, shape=shape, rows=rows, lengths=tuple(lengths), nulls=tuple(nulls))
    return {name: part}


def ragged(value: Sequence[object], levels: int, dtype: str) -> Known:
    """Return nested lists, so many levels of them, as a tensor; texts stand for their bytes."""
    lengths, items = [], [list(value)]
    for _ in range(levels):
        inner = [_listed(one) for part in items for one in part]
        lengths.append([len(one) for one in inner])
        items = inner
    rows = [one for part in items for one in part]
    return known(rows, lengths, None, dtype)


def _listed(one: object) -> list[object]:
    if isinstance(one, str):
        return list(one.encode())
    return list(one)  # type: ignore[call-overload,no-any-return]
