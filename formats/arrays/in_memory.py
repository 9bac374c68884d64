"""Sources with their whole content in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lodcli.formats.arrays.batch_parts import BatchSplitter
from lodcli.formats.core.batching import regrouped, together
from lodcli.formats.core.format import BATCH_BYTES, LeftOut, Source, joined
from lodcli.formats.core.indexed import IndexedSource
from lodcli.formats.core.marks import marked
from lodcli.formats.core.schema import Batch, Item, Schema, StoredArray, find, rekeyed, schema_of
from lodcli.formats.core.schema import tensor_of as tensor_in
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask


class MemorySource(Source):
    """Tensors by name, for formats that can only be read whole.

    Those with the same index object share its levels in the schema.
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

    Args:
        schema: of the batches; without TensorArrays.
        batches: see Source.

    Raises:
        InvalidDataError: the batches do not match the schema.
    """

    def __init__(self, schema: Schema, batches: Sequence[Batch]) -> None:
        schema = rekeyed(schema)
        seen = {name for batch in batches for name in batch}
        rest = {spec.name: spec.empty() for spec in schema if spec.name not in seen}
        parts = list(marked(schema, together(schema, [*batches, rest])))
        splitter = BatchSplitter(schema, nulls=True)
        for part in parts:
            splitter.split(part)
        items = joined(schema, parts)
        self._tensors = {name: tensor_in(item) for name, item in items.items()}
        self.schema = tuple(
            replace(spec, dtype=tensor.dtype, nullable=bool(tensor.nulls))
            for spec, tensor in zip(splitter.counted(), self._tensors.values(), strict=True)
        )
        offsets: dict[str, Offsets] = {}
        lods: dict[tuple[str, ...], LoD] = {}
        found: dict[str, LoD] = {}
        for spec in self.schema:
            keys = tuple(level.key for level in spec.levels)
            if keys not in lods:
                own = zip(keys, self._tensors[spec.name].lod.levels, strict=True)
                levels = [offsets.setdefault(key, level) for key, level in own]
                lods[keys] = LoD._trusted(levels, spec.level_names)
            found[spec.name] = lods[keys]
        self.lods = found

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._tensors[name].values[start:stop].copy()

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        nulls = self._tensors[name].nulls
        mask = nulls.masks[level] if nulls else None
        return None if mask is None else mask[start:stop].copy()
