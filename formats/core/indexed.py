"""A file with its index in memory, and random access to rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping

from lodcli.formats.core.batching import cuts, groups
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.schema import Batch, TensorSpec, find
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls, item_ranges, null_item

_NONE = LoD()


class IndexedSource(Source):
    """Base class of such files; their counts are known.

    Attributes:
        lods: the index of each tensor; one object where it is shared.
    """

    lods: Mapping[str, LoD]

    @abstractmethod
    def read_rows(self, name: str, start: int, stop: int) -> Array:
        """Return rows of a tensor, a copy; zeros where one is null."""

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        """Return which items of a level are valid, or rows; None if all are.

        Args:
            name: which tensor.
            level: as many as it has levels, for rows.
            start, stop: of the items.
        """
        return None

    def read_nulls(self, name: str, level: int, start: int, stop: int) -> Nulls:
        """Return the nulls of some items of a level, and of what is below; see `read_mask`."""
        if not find(self.schema, name).nullable:
            return NO_NULLS
        found = item_ranges(self.lods[name], level, start, stop)
        masks = [self.read_mask(name, n, low, high) for n, (low, high) in enumerate(found, level)]
        return Nulls.of(masks)

    def read_index(self, name: str) -> LoD:
        return self.lods[find(self.schema, name).name]

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        spec = find(self.schema, name)
        assert spec.rows is not None
        selection = select(self.lods[spec.name], spec.rows, branch, level)
        nulls = self.read_nulls(spec.name, selection.level, selection.start, selection.stop)
        if selection.item is not None:
            above, item = selection.item
            mask = self.read_mask(spec.name, above, item, item + 1)
            if mask is not None and not mask[0]:
                raise null_item()
        rows = self.read_rows(spec.name, selection.rows.start, selection.rows.stop)
        if selection.drops_row_axis:
            return tensor_of(spec, rows, _NONE).select(0)
        return tensor_of(spec, rows, selection.lod, nulls)

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        return ahead(self._batches(limit_bytes))

    def _batches(self, limit_bytes: int) -> Iterator[Batch]:
        for group in groups(self.schema):
            yield from self._group(group, limit_bytes)

    def _group(self, group: list[TensorSpec], limit_bytes: int) -> Iterator[Batch]:
        """Yield the batches of tensors that share their outermost level, or of one of rows."""
        if group[0].levels:
            yield from self._items(group, limit_bytes)
            return
        spec = group[0]
        assert spec.rows is not None
        step = max(1, limit_bytes // spec.row_bytes if spec.row_bytes else spec.rows)
        for start in range(0, max(1, spec.rows), step):
            stop = min(start + step, spec.rows)
            nulls = self.read_nulls(spec.name, 0, start, stop)
            yield {spec.name: tensor_of(spec, self.read_rows(spec.name, start, stop), _NONE, nulls)}

    def _items(self, group: list[TensorSpec], limit_bytes: int) -> Iterator[Batch]:
        lods = [self.lods[spec.name] for spec in group]
        ends = [lod.absolute(0) for lod in lods]
        for start, stop in cuts(ends, [spec.row_bytes for spec in group], limit_bytes):
            shared: dict[int, LoD] = {}
            batch = {}
            for spec, lod in zip(group, lods, strict=True):
                part, rows = lod.items(0, start, stop)
                part = shared.setdefault(id(lod), part)
                data = self.read_rows(spec.name, rows.start, rows.stop)
                nulls = self.read_nulls(spec.name, 0, start, stop)
                batch[spec.name] = tensor_of(spec, data, part, nulls)
            yield batch
