"""Chosen and renamed tensors of a file whose rows can be read in any order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from lodcli.formats.arrays.lazy_lod import LazyLoD
from lodcli.formats.core.format import StoredRows
from lodcli.formats.core.indexed import IndexedSource, Loaded
from lodcli.formats.core.schema import Schema, TensorSpec, find
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.nulls import Mask


class RelabelledInPlace(IndexedSource):
    """Some tensors of a source, with other names and names of levels.

    Args:
        names: of the tensors in the file, by their new ones.
    """

    def __init__(self, inner: IndexedSource, names: Mapping[str, str], schema: Schema) -> None:
        self._inner = inner
        self._names = names
        self.schema = schema
        self.attributes = inner.attributes
        self.left_out = inner.left_out
        # By that of the file and its names of levels: tensors that share an index still do.
        self._indexes: dict[tuple[int, tuple[str | None, ...]], LoD] = {}
        self.lods = Loaded(schema, self._index)

    def _index(self, spec: TensorSpec) -> LoD:
        lod = self._inner.lods[self._names[spec.name]]
        if lod.names == spec.level_names:
            return lod
        key = id(lod), spec.level_names
        if key not in self._indexes:
            self._indexes[key] = lod.with_names(spec.level_names)
        return self._indexes[key]

    def index_of(self, name: str) -> LoD | LazyLoD:
        old = self._names[name]
        if find(self._inner.schema, old).level_names == find(self.schema, name).level_names:
            return self._inner.index_of(old)
        return self.lods[name]

    def reads_in_place(self, names: Iterable[str]) -> bool:
        return self._inner.reads_in_place([self._names[name] for name in names])

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        return self._inner.read_rows(self._names[name], start, stop)

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        return self._inner.read_mask(self._names[name], level, start, stop)

    def read_masked(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        return self._inner.read_masked(self._names[name], start, stop)

    def stored_rows(self, name: str) -> StoredRows | None:
        found = self._inner.stored_rows(self._names[name])
        return None if found is None else found._replace(lod=self.lods[name])

    def check_in_place(self, name: str) -> Iterator[int] | None:
        return self._inner.check_in_place(self._names[name])
