"""Makes an item of each value of the lists of items, the inverse of grouping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema, TensorSpec, find_all
from lodcli.formats.items.taking import item_count, part, taken
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Tensors = dict[str, LoDTensor]


def lists_of(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the tensors whose lists are exploded.

    Args:
        schema: of tensors that share their outermost items.
        names: those that the user named; without any, all with lists.

    Raises:
        SelectionError: there is no such tensor, or it has no lists.
    """
    chosen = find_all(schema, names) if names else [spec for spec in schema if spec.depth]
    without = [spec.name for spec in chosen if not spec.depth]
    if without or not chosen:
        what = listing(without or [spec.name for spec in schema])
        raise SelectionError(f"{what}: expected lists, found one value for each item")
    return [spec.name for spec in chosen]


def exploded_schema(schema: Schema, names: Sequence[str]) -> Schema:
    """Return the description of the result of `exploded`."""
    return tuple(_without_level(spec) if spec.name in names else spec for spec in schema)


def _without_level(spec: TensorSpec) -> TensorSpec:
    levels = spec.levels[1:]
    marks = spec.marks.kept(len(levels), len(spec.levels))
    return replace(spec, levels=levels, marks=marks).uncounted()


def exploded(batches: Iterable[Tensors], names: Sequence[str]) -> Iterator[Tensors]:
    """Yield batches with an item for each value of lists; other tensors are repeated.

    An item whose lists are empty or null is left out.

    Args:
        batches: tensors with equally many outermost items.
        names: of the tensors with the lists, which have equal lengths in each item.

    Raises:
        InvalidDataError: two lists of an item have different lengths.
    """
    first = 0
    for batch in batches:
        count = item_count(batch)
        lengths = _lengths(batch, names, first)
        first += count
        values = {name: _values(batch[name]) for name in names}
        others = {name: tensor for name, tensor in batch.items() if name not in names}
        places = np.arange(count).repeat(lengths)
        # Long texts beside long lists may take much more memory than the batch.
        most = max((_widest(tensor) for tensor in others.values()), default=1)
        step = max(1, BATCH_BYTES // max(most, 1)) if others else places.size
        for start in range(0, max(places.size, 1), max(step, 1)):
            stop = min(start + step, places.size)
            found = part(values, start, stop) | taken(others, places[start:stop])
            yield {name: found[name] for name in batch}


def _lengths(
    batch: Tensors, names: Sequence[str], first: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the length of the list of each item."""
    lead, *others = names
    lengths = batch[lead].lod.lengths(0)
    for name in others:
        own = batch[name].lod.lengths(0)
        if not np.array_equal(lengths, own):
            item = int(np.argmax(lengths != own))
            raise InvalidDataError(
                f"item {first + item}: {lead} and {name} have lists of {lengths[item]} and "
                f"{own[item]} values; name the tensors to explode, others are repeated"
            )
    return lengths


def _values(tensor: LoDTensor) -> LoDTensor:
    """Return the values of all lists, one after another."""
    levels = tensor.lod.n_levels
    marks = tensor.marks.kept(levels - 1, levels)
    return LoDTensor(tensor.values, tensor.lod.below(0), marks, tensor.nulls.below(1))


def _widest(tensor: LoDTensor) -> int:
    """Return the bytes of the largest item."""
    rows = np.diff(tensor.lod.absolute(0)) if tensor.lod.n_levels else np.ones(1, np.int64)
    return int(rows.max(initial=0)) * max(1, tensor.values[:1].nbytes)
