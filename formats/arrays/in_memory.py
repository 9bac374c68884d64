"""A source with its whole content in memory, for formats that can only be read whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lodcli.formats.core.batching import regrouped
from lodcli.formats.core.format import BATCH_BYTES, LeftOut, Source
from lodcli.formats.core.schema import Batch, Item, StoredArray, find, schema_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor


class MemorySource(Source):
    """Tensors by name; those with the same index object share its levels in the schema."""

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
