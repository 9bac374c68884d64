"""Takes the same whole items from several tensors in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.slice import segment_slice
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.lod_tensor import LoDTensor

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

    >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]]))
    >>> marks = LoDTensor(np.array([7, 8, 9]))
    >>> both = taken({"words": words, "marks": marks}, np.array([2, 0]))
    >>> both["words"].to_list(), both["marks"].data.tolist()
    ([[4, 5], [0, 1, 2]], [9, 7])
    """
    lods: dict[int, LoD] = {}
    found = {}
    for name, tensor in tensors.items():
        lod = tensor.lod
        if lod.n_levels:
            ends = lod.absolute(0)
            starts = ends[items]
            bounds = lengths_to_offsets(ends[items + 1] - starts, level=0)
        else:
            starts, bounds = items, np.arange(items.size + 1)
        # The rows of an item are one range, however many levels are below it.
        kernel = on("auto", segment_slice, size_bytes=tensor.nbytes)
        data = kernel(np.ascontiguousarray(tensor.values), starts, bounds)
        index = lods.setdefault(id(lod), taken_index(lod, items))
        found[name] = LoDTensor(data, index, tensor.marks, tensor.nulls.taken(lod, items))
    return found


def taken_index(lod: LoD, items: Offsets) -> LoD:
    """Return the index of these outermost items, in this order; see `taken`."""
    levels, rows = [], items
    for depth, offsets in enumerate(lod.levels):
        starts = offsets[rows]
        bounds = lengths_to_offsets(offsets[rows + 1] - starts, level=depth)
        levels.append(bounds)
        if depth < lod.n_levels - 1:
            rows = ranges(starts, bounds)
    return LoD._trusted(levels, lod.names)
