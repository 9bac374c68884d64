"""Base class of sources with random access to rows; the index is in memory or in the file."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping

from lodcli.formats.arrays.budget import ITEM_COPIES, batch_bytes, require_fits, require_items_fit
from lodcli.formats.arrays.lazy_lod import LazyLoD
from lodcli.formats.core.batching import cuts, gathered, groups, interleaved
from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, SelectiveSource
from lodcli.formats.core.marks import tensor_of
from lodcli.formats.core.names import listing
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, find
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, Selection, select
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask, Nulls, item_ranges, null_item

_NONE = LoD()
Places = range | slice
OFFSET_BYTES = 8


class IndexedSource(SelectiveSource):
    """Base class of sources with random access to rows; all counts are known.

    Attributes:
        lods: the index of each tensor; one object where it is shared.
    """

    lods: Mapping[str, LoD]

    @abstractmethod
    def read_rows(self, name: str, start: int, stop: int) -> Array:
        """Return a copy of rows of a tensor; null rows are zeros."""

    def held_rows(self, name: str) -> Array | None:
        """Return all rows of a tensor, read-only, if they are in memory; else None."""
        return None

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        """Return the mask of the valid items of a level; None if all are valid.

        Args:
            level: the level; with L levels, level L is the rows.
            start, stop: the range of items.
        """
        return None

    def read_masked(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        """Return rows and the mask of those that are valid, see `read_rows` and `read_mask`."""
        depth = len(find(self.schema, name).levels)
        return self.read_rows(name, start, stop), self.read_mask(name, depth, start, stop)

    def reads_in_place(self, names: Iterable[str]) -> bool:
        """Return whether `read_rows` and `read_mask` can read these; else only `batches` can."""
        return True

    def read_nulls(self, name: str, level: int, start: int, stop: int) -> Nulls:
        """Return the nulls of items of a level and of all levels below; see `read_mask`."""
        if not find(self.schema, name).nullable:
            return NO_NULLS
        found = item_ranges(self.index_of(name), level, start, stop)
        masks = [self.read_mask(name, n, low, high) for n, (low, high) in enumerate(found, level)]
        return Nulls.of(masks)

    def read_items(
        self, name: str, level: int, start: int, stop: int, rows: Places
    ) -> tuple[Array, Nulls]:
        """Return the rows of items of a level, and the nulls of these and of all levels below."""
        if not find(self.schema, name).nullable:
            return self.read_rows(name, rows.start, rows.stop), NO_NULLS
        *above, _ = item_ranges(self.index_of(name), level, start, stop)
        masks = [self.read_mask(name, n, low, high) for n, (low, high) in enumerate(above, level)]
        data, valid = self.read_masked(name, rows.start, rows.stop)
        return data, Nulls.of([*masks, valid])

    def index_of(self, name: str) -> LoD | LazyLoD:
        """Return the index of a tensor, in memory or in the file; one object if it is shared."""
        return self.lods[name]

    def read_index(self, name: str) -> LoD:
        return self.lods[find(self.schema, name).name]

    def index_parts(self, name: str) -> Iterator[LoD]:
        lod = self.index_of(find(self.schema, name).name)
        if isinstance(lod, LoD):
            yield lod
            return
        finest = lod.ends(lod.n_levels - 1)
        for start, stop in cuts([finest], [OFFSET_BYTES], BATCH_BYTES):
            yield lod.items(0, start, stop)[0]

    def check_in_place(self, name: str) -> Iterator[int] | None:
        """Check a tensor as `batches` does, and yield the numbers of rows that were checked.

        Rows are not kept. Return None if only `batches` can check the tensor.
        """
        return None

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        spec = find(self.schema, name)
        assert spec.rows is not None
        selection = select(self.index_of(spec.name), spec.rows, branch, level)
        if branch and not isinstance(branch[-1], slice):
            size_bytes = (selection.rows.stop - selection.rows.start) * spec.row_bytes
            require_fits(f"the slice of {spec.name}", size_bytes, ITEM_COPIES)
        if spec.nullable:
            self._refuse_null(spec.name, selection)
        rows, nulls = self.read_items(
            spec.name, selection.level, selection.start, selection.stop, selection.rows
        )
        if selection.drops_row_axis:
            return tensor_of(spec, rows, _NONE).select(0)
        return tensor_of(spec, rows, selection.lod, nulls)

    def _refuse_null(self, name: str, selection: Selection) -> None:
        """Raise SelectionError if the selection is a single item, which is null."""
        if selection.item is not None:
            level, item = selection.item
            mask = self.read_mask(name, level, item, item + 1)
            if mask is not None and not mask[0]:
                raise null_item()

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = set(names)
        schema = tuple(spec for spec in self.schema if spec.name in wanted)
        rows = sum((spec.rows or 0) * spec.row_bytes for spec in schema)
        items = sum(level.items or 0 for spec in schema for level in spec.levels)
        return ahead(self._batches(schema, limit_bytes), rows + OFFSET_BYTES * items)

    def _batches(self, schema: Schema, limit_bytes: int) -> Iterator[Batch]:
        parts = (self._group(group, limit_bytes) for group in groups(schema))
        return gathered(interleaved(parts), limit_bytes)

    def _group(self, group: list[TensorSpec], limit_bytes: int) -> Iterator[Batch]:
        """Yield the batches of tensors that share their outermost level, or of one without."""
        if group[0].levels:
            yield from self._items(group, limit_bytes)
            return
        spec = group[0]
        assert spec.rows is not None
        limit_bytes = batch_bytes(limit_bytes)
        step = max(1, limit_bytes // spec.row_bytes if spec.row_bytes else spec.rows)
        for start in range(0, max(1, spec.rows), step):
            stop = min(start + step, spec.rows)
            places = range(start, stop)
            yield {spec.name: self._part(spec, _NONE, places, places)}

    def _part(self, spec: TensorSpec, lod: LoD, items: Places, rows: Places) -> LoDTensor:
        """Return outermost items of a tensor, which have this index and these rows."""
        data, nulls = self.read_items(spec.name, 0, items.start, items.stop, rows)
        return tensor_of(spec, data, lod, nulls, items.start)

    def _items(self, group: list[TensorSpec], limit_bytes: int) -> Iterator[Batch]:
        lods = [self.index_of(spec.name) for spec in group]
        ends = [lod.absolute(0) if isinstance(lod, LoD) else lod.ends() for lod in lods]
        row_bytes = [spec.row_bytes for spec in group]
        names = listing(spec.name for spec in group)
        in_memory = all(isinstance(lod, LoD) for lod in lods)
        if in_memory:
            with naming(names):
                require_items_fit(ends, row_bytes)
        for start, stop in cuts(ends, row_bytes, limit_bytes):
            if stop - start == 1 and not in_memory:
                with naming(names):
                    require_items_fit([one[start : stop + 1] for one in ends], row_bytes, start)
            # Without a name: the batch would be in memory until the next one of this group.
            yield self._batch(group, lods, range(start, stop))

    def _batch(self, group: list[TensorSpec], lods: list[LoD | LazyLoD], items: range) -> Batch:
        shared: dict[int, LoD] = {}
        batch = {}
        for spec, lod in zip(group, lods, strict=True):
            part, rows = lod.items(0, items.start, items.stop)
            part = shared.setdefault(id(lod), part)
            batch[spec.name] = self._part(spec, part, items, rows)
        return batch


class Loaded(Mapping[str, LoD]):
    """Mapping from tensor names to their indexes, which are loaded on access.

    Args:
        load: returns the index of a tensor, and caches it.
    """

    def __init__(self, schema: Schema, load: Callable[[TensorSpec], LoD]) -> None:
        self._specs = {spec.name: spec for spec in schema}
        self._load = load

    def __getitem__(self, name: str) -> LoD:
        return self._load(self._specs[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)
