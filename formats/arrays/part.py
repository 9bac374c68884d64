"""One of several parts of a file, as a source."""

from __future__ import annotations

from dataclasses import replace

from lodcli.formats.core.indexed import IndexedSource, Loaded
from lodcli.formats.core.schema import LevelSpec, TensorSpec, find
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.nulls import Mask, item_ranges


class Part(IndexedSource):
    """A share of the outermost items of each tensor of a file; its index is in memory.

    Tensors with equally many outermost items are divided in the same way.

    Args:
        number: of the part, from 0.
        count: of parts.

    Raises:
        UnsupportedError: a TensorArray, which has no outermost items.
    """

    def __init__(self, inner: IndexedSource, number: int, count: int) -> None:
        self._inner = inner
        self.attributes = inner.attributes
        self.left_out = inner.left_out
        # For each tensor, the number of its first item at each level, and of its first row.
        self._first: dict[str, list[int]] = {}
        self._indexes: dict[tuple[LevelSpec, ...], LoD] = {}
        self.schema = tuple(self._spec(spec, number, count) for spec in inner.schema)
        self.lods = Loaded(self.schema, self._index)

    def _spec(self, spec: TensorSpec, number: int, count: int) -> TensorSpec:
        if spec.array:
            raise UnsupportedError(
                f"{spec.name} is a TensorArray, which cannot be divided; `lod pack` it first"
            )
        assert spec.items is not None
        start, stop = spec.items * number // count, spec.items * (number + 1) // count
        ranges = list(item_ranges(self._inner.index_of(spec.name), 0, start, stop))
        self._first[spec.name] = [low for low, _ in ranges]
        *counts, rows = (high - low for low, high in ranges)
        levels = (replace(level, items=n) for level, n in zip(spec.levels, counts, strict=True))
        return replace(spec, levels=tuple(levels), rows=rows)

    def _index(self, spec: TensorSpec) -> LoD:
        if not spec.levels:
            return LoD()
        if spec.levels not in self._indexes:
            assert spec.items is not None
            start = self._first[spec.name][0]
            whole = self._inner.index_of(spec.name)
            self._indexes[spec.levels] = whole.items(0, start, start + spec.items)[0]
        return self._indexes[spec.levels]

    def read_rows(self, name: str, start: int, stop: int) -> Array:
        first = self._first[name][-1]
        return self._inner.read_rows(name, first + start, first + stop)

    def read_mask(self, name: str, level: int, start: int, stop: int) -> Mask | None:
        if not find(self.schema, name).nullable:
            return None
        first = self._first[name][level]
        return self._inner.read_mask(name, level, first + start, first + stop)

    def read_masked(self, name: str, start: int, stop: int) -> tuple[Array, Mask | None]:
        first = self._first[name][-1]
        return self._inner.read_masked(name, first + start, first + stop)

    def close(self) -> None:
        self._inner.close()
