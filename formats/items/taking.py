"""Takes the same whole items from several tensors in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.items import FoundItems, find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.row_ranges import rows_at
from lodcli.kernels.tensor.gather import gather_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

Tensors = Mapping[str, LoDTensor]


def item_count(tensors: Tensors) -> int:
    """Return how many outermost items the tensors have."""
    return len(next(iter(tensors.values())))


def part_indexes(
    lods: Mapping[str, LoD], start: int, stop: int
) -> Iterator[tuple[str, LoD, slice]]:
    """Yield for each tensor its name, the index of outermost items start..stop, and their rows.

    Tensors that share an index share its part.
    """
    cut: dict[int, tuple[LoD, slice]] = {}
    for name, lod in lods.items():
        if not lod.n_levels:
            yield name, lod, slice(start, stop)
            continue
        if id(lod) not in cut:
            cut[id(lod)] = lod.items(0, start, stop)
        yield name, *cut[id(lod)]


def taken_indexes(lods: Mapping[str, LoD], items: Offsets) -> Iterator[tuple[str, FoundItems, LoD]]:
    """Yield for each tensor its name, the places of these outermost items, and their index.

    Tensors that share an index share these.
    """
    located: dict[int, tuple[FoundItems, LoD]] = {}
    for name, lod in lods.items():
        if id(lod) not in located:
            places = find_items(lod, items)
            located[id(lod)] = places, places.lod
        yield name, *located[id(lod)]


def part(tensors: Tensors, start: int, stop: int) -> dict[str, LoDTensor]:
    """Return outermost items start..stop of all tensors, as views."""
    lods = {name: tensor.lod for name, tensor in tensors.items()}
    found = {}
    for name, lod, rows in part_indexes(lods, start, stop):
        tensor = tensors[name]
        nulls = tensor.nulls.part(tensor.lod, 0, start, stop)
        found[name] = LoDTensor(tensor.values[rows], lod, tensor.marks, nulls)
    return found


def taken(tensors: Tensors, items: Offsets) -> dict[str, LoDTensor]:
    """Return these outermost items of all tensors, in this order, copied.

    Args:
        tensors: with equally many outermost items; a tensor without levels has one per row.
        items: (K,) int64, 0 to the number of items minus 1.

    >>> import numpy as np
    >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]]))
    >>> marks = LoDTensor(np.array([7, 8, 9]))
    >>> both = taken({"words": words, "marks": marks}, np.array([2, 0]))
    >>> both["words"].to_list(), both["marks"].data.tolist()
    ([[4, 5], [0, 1, 2]], [9, 7])
    """
    # Without levels the rows are the items, and their places need not be computed.
    lods = {name: tensor.lod for name, tensor in tensors.items() if tensor.lod.n_levels}
    located = {name: (places, index) for name, places, index in taken_indexes(lods, items)}
    found = {}
    for name, tensor in tensors.items():
        rows, index = tensor.values, tensor.lod
        if name in located:
            places, index = located[name]
            data = gather_items(rows, places)
        else:
            data = rows_at(rows, items)
        nulls = tensor.nulls.taken(tensor.lod, items)
        found[name] = LoDTensor(data, index, tensor.marks, nulls)
    return found


def under(tensors: Tensors, offsets: Offsets, name: str | None) -> dict[str, LoDTensor]:
    """Return tensors with one more level, the outermost; those that share an index share it.

    Args:
        tensors: with equally many outermost items.
        offsets: (K + 1,) int64, of the items of the new level.
        name: of the new level.
    """
    flat = LoD._trusted([offsets], [name])
    lods: dict[int, LoD] = {}
    found = {}
    for called, tensor in tensors.items():
        lod, index = tensor.lod, flat
        if lod.n_levels:
            new = LoD._trusted([offsets, *lod.levels], [name, *lod.names])
            index = lods.setdefault(id(lod), new)
        nulls = Nulls.of([None, *tensor.nulls.masks]) if tensor.nulls else tensor.nulls
        found[called] = LoDTensor(tensor.values, index, tensor.marks.below(1), nulls)
    return found


def joined_items(parts: Sequence[Tensors]) -> dict[str, LoDTensor]:
    """Return several batches as one; tensors that share an index in each share it in the result."""
    if len(parts) == 1:
        return dict(parts[0])
    found = {}
    lods: dict[tuple[int, ...], LoD] = {}
    for name, first in parts[0].items():
        tensors = [each[name] for each in parts]
        whole = LoDTensor.concatenate(tensors)
        lod = lods.setdefault(tuple(id(tensor.lod) for tensor in tensors), whole.lod)
        found[name] = LoDTensor(whole.values, lod, first.marks, whole.nulls)
    return found
