"""Sources with their whole content in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from lodcli.formats.arrays.held import HeldBatches
from lodcli.formats.core.batching import regrouped
from lodcli.formats.core.format import BATCH_BYTES, LeftOut, Source
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.schema import Batch, Item, StoredArray, find, schema_of
from lodcli.kernels.index.checks import Array
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask


class MemorySource(Source):
    """A source of tensors in memory, for formats that can only be read completely.

    Tensors with the same index object share its levels in the schema.
    """

    def __init__(self, items: Mapping[str, Item], left_out: LeftOut | None = None) -> None:
        for name, item in items.items():
            if not isinstance(item, LoDTensor | StoredArray):
                raise TypeError(
                    f"{name}: expected a LoDTensor or a StoredArray, found {type(item).__name__}"
                )
        self.schema = schema_of(items)
        self.left_out = left_out or {}
        self._items = items

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        yield from regrouped(self.schema, self._items, limit_bytes)

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        wanted = [spec.name for spec in self.schema] if names is None else names
        return {name: self._items[find(self.schema, name).name] for name in wanted}


class HeldSource(IndexedSource):
    """Batches in memory, whose rows can be read in any order.

    Raises:
        InvalidDataError: their counts differ from those that their schema announced.
    """

    def __init__(self, held: HeldBatches) -> None:
        counted = held.counted()
        self._tensors = held.tensors()
        self.schema = tuple(
            replace(spec, dtype=tensor.dtype, nullable=bool(tensor.nulls))
            for spec, tensor in zip(counted, self._tensors.values(), strict=True)
        )
        self.lods = {name: tensor.lod for name, tensor in self._tensors.items()}

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._tensors[name].values[start:stop].copy()

    def held_rows(self, name: str) -> Array | None:
        rows = self._tensors[name].values.view()
        rows.flags.writeable = False
        return rows

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        nulls = self._tensors[name].nulls
        mask = nulls.mask(level)
        return None if mask is None else mask[start:stop].copy()
