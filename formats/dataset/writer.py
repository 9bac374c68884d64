"""Writes a dataset: shards of whole outermost items, batch by batch, then the manifest."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from lodcli.formats.container.format import Container
from lodcli.formats.container.reader import ContainerSource
from lodcli.formats.container.writing.writer import write_container
from lodcli.formats.core.batching import groups, only
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.options import WriteOptions
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, find, find_all, tensor_of
from lodcli.formats.dataset import manifest as manifests
from lodcli.formats.dataset.manifest import Manifest, counts_of, refuse_columns, shard_name
from lodcli.formats.items.indexed_copy import copied
from lodcli.formats.items.items import Items
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import item_count, part
from lodcli.formats.storage.folder_output import FolderOutput
from lodcli.formats.storage.outputs import Output
from lodcli.formats.values.file_attributes import alike
from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import attributes_text

SHARD_BYTES = 256 << 20
# Size per item for its offset, so that many empty items are divided as well.
_ITEM_BYTES = 8

Tensors = dict[str, LoDTensor]


def write_dataset(
    output: Output, schema: Schema, batches: Iterable[Batch], options: WriteOptions
) -> None:
    """Write shards and the manifest to a folder, without committing it.

    Memory holds a few batches. If tensors to be divided together are not in the same batches, or a
    stream has to be divided into a given number of shards, they are first copied to a temporary
    container.

    Args:
        output: the folder.
        options: `shards` or `shard_bytes`; SHARD_BYTES if neither is given.
    """
    if options.shards is not None and options.shard_bytes is not None:
        raise OptionError("shards and shard_bytes exclude each other")
    assert isinstance(output, FolderOutput)
    refuse_columns(schema)
    batches = iter(batches)
    first = next(batches, {})
    batches = chain([first], batches)
    counted = all(spec.rows is not None for spec in schema)
    if (counted or options.shards is None) and first.keys() >= set(together(schema)):
        _write(output, schema, batches, options)
        return
    with copied(schema, batches) as source:
        names = [spec.name for spec in schema]
        _write(output, source.schema, items_together(source, names), options)


def together(schema: Schema) -> list[str]:
    """Return the tensors to divide together: those with as many outermost items as the largest.

    If counts are unknown, the tensors that share its outermost level.
    """
    found = groups(schema)
    if all(spec.items is not None for spec in schema):
        alike = defaultdict[int | None, list[TensorSpec]](list)
        for spec in schema:
            alike[spec.items].append(spec)
        found = list(alike.values())
    largest = max(found, key=lambda specs: sum((s.rows or 0) * s.row_bytes for s in specs))
    return [spec.name for spec in largest]


def items_together(source: IndexedSource, names: Sequence[str]) -> Iterator[Batch]:
    """Yield the tensors of a file; first those to divide together, in common batches."""
    schema = find_all(source.schema, names)
    lead = set(together(schema))
    specs = tuple(spec for spec in schema if spec.name in lead)
    items = Items(source, Shared(0, None, specs, ()))
    yield from items.range(0, items.count)
    others = [name for name in names if name not in lead]
    yield from only(source.batches_of(others), others) if others else ()


def _write(
    output: FolderOutput, schema: Schema, batches: Iterable[Batch], options: WriteOptions
) -> None:
    row_bytes = {name: find(schema, name).row_bytes for name in together(schema)}
    if options.shards is None:
        divided = _Divided(batches, row_bytes, options.shard_bytes or SHARD_BYTES)
    else:
        lead = [find(schema, name) for name in row_bytes]
        total = sum((spec.rows or 0) * spec.row_bytes for spec in lead)
        divided = _Equally(
            batches, row_bytes, options.shards, total + _ITEM_BYTES * (lead[0].items or 0)
        )
    shards = Shards(schema)
    while not divided.done(shards.count):
        with output.part(_written_name(shards.count, options.shards)) as shard:
            shards.write(shard, divided.shard(shards.count), options)
    for number in range(shards.count if options.shards is None else 0):
        output.rename(_written_name(number, None), shard_name(number, shards.count))
    with output.part(manifests.NAME) as file:
        write_manifest(file, shards.manifest(), shards.attributes)


def _written_name(number: int, count: int | None) -> str:
    """Return the name of a shard being written: the number of shards may still be unknown."""
    return shard_name(number, count) if count is not None else f"data-{number:05}.lod.h5"


class _Divided:
    """Divides batches into shards of at most `limit_bytes`, or of one item.

    Args:
        batches: see `write_dataset`.
        row_bytes: of the tensors that are divided together, by name.
        limit_bytes: maximum size of a shard.
    """

    def __init__(
        self, batches: Iterable[Batch], row_bytes: Mapping[str, int], limit_bytes: int
    ) -> None:
        self._batches = iter(batches)
        self._row_bytes = row_bytes
        self._limit_bytes = limit_bytes
        self._rest: Tensors = {}
        self._position = self._start = 0
        self._read = False

    def done(self, number: int) -> bool:
        """Return whether there are at most `number` shards."""
        return self._read

    def shard(self, number: int) -> Iterator[Batch]:
        """Yield the batches of the next shard."""
        self._start = self._position
        while True:
            lead, self._rest = self._rest, {}
            if not lead:
                batch = next(self._batches, None)
                if batch is None:
                    self._read = True
                    return
                lead = {k: tensor_of(batch[k]) for k in batch if k in self._row_bytes}
                others = {name: item for name, item in batch.items() if name not in lead}
                if others:
                    yield others
                if not lead:
                    continue
            ends = self._position + self._ends(lead)
            count, stop = item_count(lead), self._items(number, ends)
            if stop or not count:
                yield part(lead, 0, stop)
            self._position = int(ends[stop])
            if stop < count:
                self._rest = part(lead, stop, count)
                return

    def _ends(self, lead: Tensors) -> Offsets:
        """Return the offsets of the items, in bytes."""
        found = np.arange(item_count(lead) + 1, dtype=np.int64) * _ITEM_BYTES
        for name, tensor in lead.items():
            rows = tensor.lod.absolute(0) if tensor.lod.n_levels else np.arange(tensor.rows + 1)
            found += rows * self._row_bytes[name]
        return found

    def _items(self, number: int, ends: Offsets) -> int:
        """Return how many of the items with these offsets belong to this shard."""
        stop = int(np.searchsorted(ends, self._start + self._limit_bytes, "right")) - 1
        return stop if stop or self._position > self._start else min(1, ends.size - 1)


class _Equally(_Divided):
    """Divides batches into `count` shards of about equal size; some may be empty.

    Args:
        batches, row_bytes: see `_Divided`.
        total_bytes: of all shards.
    """

    def __init__(
        self, batches: Iterable[Batch], row_bytes: Mapping[str, int], count: int, total_bytes: int
    ) -> None:
        super().__init__(batches, row_bytes, total_bytes)
        self._count = count

    def done(self, number: int) -> bool:
        return number == self._count

    def _items(self, number: int, ends: Offsets) -> int:
        if number == self._count - 1:
            return ends.size - 1
        border = -(-self._limit_bytes * (number + 1) // self._count)
        stop = int(np.searchsorted(ends, border))
        if stop == ends.size:
            return stop - 1
        # The nearer end: after a large item, the next shard would be empty.
        return stop - 1 if stop and border - ends[stop - 1] < ends[stop] - border else stop


def write_manifest(output: Output, manifest: Manifest, attributes: str | None = None) -> None:
    """Write a manifest as a container, with the attributes of the dataset."""
    schema, batch = manifest.tensors()
    Container().write(output, schema, [batch], WriteOptions(attributes=attributes))


class Shards:
    """Collects the manifest of shards, which are written one after another."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._nullable: set[str] = set()
        self._counts: list[list[int]] = []
        self._sizes: list[int] = []
        self._sums: list[int] = []
        self._attributes: list[Mapping[str, Any]] = []

    @property
    def count(self) -> int:
        """The number of shards written so far."""
        return len(self._sizes)

    def write(self, output: Output, batches: Iterable[Batch], options: WriteOptions) -> None:
        """Write a shard, without committing it."""
        schema = tuple(spec.uncounted() for spec in self.schema)
        empty = {spec.name: spec.empty() for spec in schema}
        batches = chain([empty], batches)
        write_container(output, schema, batches, options.compression, options.attributes)
        self.add(output.fd, output.label)

    def add(self, fd: int, label: str) -> None:
        """Add a shard that was written; opens it to read its header."""
        source = ContainerSource(fd, label)
        self._counts.append(counts_of(source.schema))
        self._nullable |= {spec.name for spec in source.schema if spec.nullable}
        self._sizes.append(os.fstat(fd).st_size)
        self._sums.append(source.header_crc32c)
        self._attributes = [alike([*self._attributes, source.attributes])]

    @property
    def attributes(self) -> str:
        """The attributes that are equal in all shards, as text."""
        return attributes_text(alike(self._attributes))

    def manifest(self) -> Manifest:
        """Return the manifest."""
        schema = tuple(replace(spec, nullable=spec.name in self._nullable) for spec in self.schema)
        return Manifest.of(schema, self._counts, self._sizes, np.array(self._sums, np.uint32))
