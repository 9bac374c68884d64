"""Adds level names given by the caller to an open file, for formats without them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from lodcli.formats.core.format import BATCH_BYTES, RowBlocks, Source, StoredRows
from lodcli.formats.core.schema import Batch, Item, TensorSpec, find
from lodcli.kernels.errors import SelectionError, counted
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key
from lodcli.kernels.tensor.lod_tensor import LoDTensor


class NamedLevels(Source):
    """A source with other names of levels.

    Args:
        inner: the open file.
        names: of the levels, outermost first.
        only: the one tensor whose levels are named; None: those of all.

    Raises:
        SelectionError: a tensor has more or fewer levels, or is a TensorArray.
    """

    def __init__(self, inner: Source, names: tuple[str, ...], only: str | None) -> None:
        self._inner = inner
        self._names = names
        self._only = only
        self.schema = tuple(self._spec(spec) for spec in inner.schema)
        self.left_out = inner.left_out
        self.notes = inner.notes

    def _spec(self, spec: TensorSpec) -> TensorSpec:
        if not self._renames(spec.name):
            return spec
        if spec.array:
            raise SelectionError(
                f"{spec.name} is a TensorArray, whose levels take no names; `lod pack` it first"
            )
        given = len(self._names)
        if len(spec.levels) != given:
            raise SelectionError(
                f"{counted(given, 'level name')} {'is' if given == 1 else 'are'} given, "
                f"{spec.name} has {counted(len(spec.levels), 'level')}"
            )
        named = zip(spec.levels, self._names, strict=True)
        levels = tuple(dataclasses.replace(level, name=name) for level, name in named)
        return dataclasses.replace(spec, levels=levels)

    def _renames(self, name: str) -> bool:
        return self._only is None or self._only == name

    def _lod(self, name: str, lod: LoD) -> LoD:
        """Return the index of a tensor, or of a slice of it, which has its finest levels."""
        if not self._renames(name):
            return lod
        return lod.with_names(self._names[len(self._names) - lod.n_levels :])

    def _item(self, name: str, item: Item) -> Item:
        if isinstance(item, LoDTensor):
            return LoDTensor(item.values, self._lod(name, item.lod), item.marks, item.nulls)
        return item

    def _items(self, items: Batch) -> dict[str, Item]:
        return {name: self._item(name, item) for name, item in items.items()}

    @property
    def partial(self) -> bool:
        """See Source."""
        return self._inner.partial

    @property
    def checksums(self) -> str | None:  # type: ignore[override]
        """See Source."""
        return self._inner.checksums

    def batches(self, limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source."""
        yield from map(self._items, self._inner.batches(limit_bytes))

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        """See Source."""
        yield from map(self._items, self._inner.batches_of(names, limit_bytes))

    def read(self, names: Iterable[str] | None = None) -> dict[str, Item]:
        """See Source."""
        return self._items(self._inner.read(names))

    def row_blocks(self, name: str, buffer: Callable[[int], Array], block_bytes: int) -> RowBlocks:
        """See Source."""
        found = self._inner.row_blocks(name, buffer, block_bytes)
        return found._replace(lod=self._lod(name, found.lod))

    def stored_rows(self, name: str) -> StoredRows | None:
        """See Source."""
        found = self._inner.stored_rows(name)
        return None if found is None else found._replace(lod=self._lod(name, found.lod))

    def read_index(self, name: str) -> LoD:
        """See Source."""
        return self._lod(name, self._inner.read_index(name))

    def slice(self, name: str, branch: tuple[Key, ...], level: int | str = 0) -> LoDTensor:
        """See Source."""
        if isinstance(level, str) and self._renames(name):
            level = find(self.schema, name).empty().lod.level(level)
        part = self._inner.slice(name, branch, level)
        return LoDTensor(part.values, self._lod(name, part.lod), part.marks, part.nulls)

    def close(self) -> None:
        """See Source."""
        self._inner.close()
