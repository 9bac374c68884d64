"""Makes an item of each value of the lists of items, the inverse of grouping."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from lodcli.formats.arrays.budget import batch_bytes
from lodcli.formats.core.batching import cuts
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Schema, TensorSpec, find_all
from lodcli.formats.items.taking import part, taken
from lodcli.formats.structs.names import named, records_above, within
from lodcli.formats.structs.tree import broken_columns, flattened
from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Tensors = dict[str, LoDTensor]
# Bytes of a repeated item besides its rows, and of each item inside it: a position in an index.
_ITEM_BYTES = 8


def tensors_of(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the tensors of these names, and the fields of the records of these names.

    A tensor that stores which records are null comes with all fields of the records.

    Raises:
        SelectionError: there are neither.
    """
    found = dict.fromkeys(spec.name for name in names for spec in named(schema, name))
    told = [spec for spec in schema if spec.marks.tells_records and spec.depth]
    for spec in sorted(told, key=lambda spec: -len(spec.marks.fields)):  # inner records first
        records = records_above(spec)[-1]
        if all(one.name in found for one in schema if within(one, records) and one is not spec):
            found[spec.name] = None
    return list(found)


def lists_of(schema: Schema, names: Sequence[str]) -> list[str]:
    """Return the tensors whose lists are exploded.

    Args:
        schema: of tensors that share their outermost items.
        names: of chosen tensors; without any, all with lists.

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
    """Return the description of the result of `exploded`.

    Lists of records become records if all their fields are exploded, otherwise separate columns.
    """
    lists = frozenset(names)
    found = tuple(_without_level(spec) if spec.name in lists else spec for spec in schema)
    found = _required(found, _around([spec for spec in schema if spec.name in lists]))
    return flattened(found, broken_columns(found))


def _around(lists: Iterable[TensorSpec]) -> set[str]:
    """Return the names of the records, one for each item, that hold lists."""
    return {
        records
        for spec in lists
        for records, below in zip(records_above(spec), spec.marks.fields[1:], strict=False)
        if below.level == 0
    }


def _required(schema: Schema, records: set[str]) -> Schema:
    """Return the schema of records none of which is null, even if all their fields are.

    Records with a tensor that stores which of them are null stay as they are.
    """
    told = {records_above(spec)[-1] for spec in schema if spec.marks.tells_records}

    def marked(spec: TensorSpec) -> TensorSpec:
        above = [*records_above(spec), ""]
        fields = tuple(
            replace(field, required=True) if name in records - told else field
            for field, name in zip(spec.marks.fields, above, strict=False)
        )
        return replace(spec, marks=replace(spec.marks, fields=fields))

    return tuple(marked(spec) if spec.marks.fields else spec for spec in schema)


def _without_level(spec: TensorSpec) -> TensorSpec:
    return replace(spec, levels=spec.levels[1:], marks=spec.marks.above(1)).uncounted()


def exploded(batches: Iterable[Tensors], names: Sequence[str]) -> Iterator[Tensors]:
    """Yield batches with an item for each value of lists; other tensors are repeated.

    An item whose lists are empty or null is left out.

    Args:
        batches: tensors with equally many outermost items.
        names: of the tensors with the lists, which have equal lengths in each item.

    Raises:
        InvalidDataError: two lists of an item have different lengths.
    """
    first, lists = 0, frozenset(names)
    for batch in batches:
        lengths = _lengths(batch, names, first)
        first += lengths.size
        values = _values({name: batch[name] for name in names})
        others = {name: tensor for name, tensor in batch.items() if name not in lists}
        start = 0
        for items in _repeated(lengths, _sizes(others, lengths.size)):
            stop = start + items.size
            found = part(values, start, stop) | taken(others, items)
            yield {name: found[name] for name in batch}
            start = stop


def _repeated(lengths: Offsets, sizes: Offsets) -> Iterator[Offsets]:
    """Yield the items repeated for each value of their lists, in parts; at least one part.

    Long texts beside long lists may take much more memory than the batch: a part has at most
    BATCH_BYTES, or one item.

    Args:
        lengths: (K,) number of values of each item.
        sizes: (K,) bytes of each item.
    """
    ends = lengths_to_offsets(lengths * sizes, level=0)
    for first, last in cuts([ends], [1], BATCH_BYTES):
        items = np.arange(first, last).repeat(lengths[first:last])
        step = max(1, items.size)
        if last - first == 1:  # which may be larger than a batch
            step = max(1, batch_bytes(BATCH_BYTES) // int(sizes[first]))
        for start in range(0, max(1, items.size), step):
            yield items[start : start + step]


def _lengths(batch: Tensors, names: Sequence[str], first: int) -> Offsets:
    """Return the length of the list of each item."""
    lead, *others = names
    lengths = batch[lead].lod.lengths(0)
    for name in others:
        own = batch[name].lod.lengths(0)
        if not np.array_equal(lengths, own):
            item = int(np.argmax(lengths != own))
            raise InvalidDataError(
                f"item {first + item}: {lead} and {name} have lists of {lengths[item]} and "
                f"{own[item]} values; name only those of equal lengths, others are repeated"
            )
    return lengths


def _values(lists: Tensors) -> Tensors:
    """Return the values of all lists, one after another; tensors that share an index share it."""
    lods: dict[int, LoD] = {}
    found = {}
    for name, tensor in lists.items():
        lod = lods.setdefault(id(tensor.lod), tensor.lod.below(0))
        found[name] = LoDTensor(tensor.values, lod, tensor.marks.above(1), tensor.nulls.below(1))
    return found


def _sizes(tensors: Tensors, count: int) -> Offsets:
    """Return the bytes of each outermost item of all tensors together, (count,)."""
    sizes = np.full(count, _ITEM_BYTES)
    for tensor in tensors.values():
        ends = np.arange(count + 1)
        for number, offsets in enumerate(tensor.lod.levels):
            sizes += np.diff(ends) * (_ITEM_BYTES if number else 0)
            ends = offsets[ends]
        sizes += np.diff(ends) * tensor.values[:1].nbytes
    return sizes
