"""Columns added to those of an open file, with the same value in each of its items."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from lodcli.formats.choosing.choice import Choice, ValueRange
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, tensor_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask


class Added(Protocol):
    """A column to add.

    Attributes:
        like: the tensor of the file whose items or inner records have the value; None for any, of
            records.
        range: of its values in the file.
        item_bytes: the bytes of an item of the column, with its offset.
    """

    @property
    def like(self) -> str | None: ...
    @property
    def range(self) -> ValueRange: ...
    @property
    def item_bytes(self) -> int: ...

    def column(self, like: LoDTensor) -> LoDTensor:
        """Return the column of a batch, made from its tensor `like`."""
        ...


class WithColumns(Wrapped):
    """A file with further columns.

    Args:
        inner: the open file; all its tensors have equally many items.
        schema: its tensors and the further ones. Those of the file that are not in it are not read.
        columns: the further ones, by name.
    """

    def __init__(self, inner: Source, schema: Schema, columns: Mapping[str, Added]) -> None:
        super().__init__(inner)
        self.records = inner.records or len(inner.schema) == 1
        self.schema = schema
        self._columns = columns
        self._own_specs = {spec.name: spec for spec in schema if spec.name not in columns}
        # To count the items, if only further columns are read.
        self._lead = min(inner.schema, key=lambda spec: len(spec.levels))

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = list(names)
        for batch in self._inner.batches_of(self._own(wanted), self._left(limit_bytes, wanted)):
            yield self._with_columns(batch, wanted)

    def chosen_batches(
        self, names: Iterable[str], choice: Choice, limit_bytes: int = BATCH_BYTES
    ) -> Iterator[tuple[int, Batch]]:
        wanted = list(names)
        if any(self._like(name) for name in choice.deciding):
            yield from super().chosen_batches(wanted, choice, limit_bytes)
            return
        chosen = _Chosen(choice, self._columns, self._with_columns)
        left = self._left(limit_bytes, wanted)
        for first, batch in self._inner.chosen_batches(self._own(wanted), chosen, left):
            yield first, self._with_columns(batch, wanted)

    def _like(self, name: str) -> str | None:
        """Return the tensor of the file that a further column needs."""
        return self._columns[name].like if name in self._columns else None

    def _own(self, names: Sequence[str]) -> list[str]:
        """Return the tensors of the file to read."""
        own = [self._like(name) if name in self._columns else name for name in names]
        return list(dict.fromkeys(filter(None, own))) or [self._lead.name]

    def _left(self, limit_bytes: int, names: Sequence[str]) -> int:
        """Return the bytes of a batch without those of its further columns."""
        own = sum(_item_bytes(self._own_specs.get(one, self._lead)) for one in self._own(names))
        added = sum(one.item_bytes for name, one in self._columns.items() if name in names)
        return max(1, int(limit_bytes * own / (own + added))) if added else limit_bytes

    def _with_columns(self, batch: Batch, names: Sequence[str]) -> Batch:
        """Return a batch of the file with those of the further columns that are among the names."""
        anyone = next(iter(batch))
        columns = {
            name: one.column(tensor_of(batch[one.like or anyone]))
            for name, one in self._columns.items()
            if name in names and (one.like or anyone) in batch
        }
        return {**{k: one for k, one in batch.items() if k in self._own_specs}, **columns}


def _item_bytes(spec: TensorSpec) -> float:
    """Return the mean bytes of an item; of one row if their number is unknown."""
    row = spec.dtype.itemsize * math.prod(spec.row_shape)
    rows = 1.0 if spec.rows is None or not spec.items else spec.rows / spec.items
    return row * rows + 8 * len(spec.levels)


class _Chosen:
    """A choice by the columns of a file and further ones; see Choice."""

    def __init__(
        self,
        choice: Choice,
        columns: Mapping[str, Added],
        with_columns: Callable[[Batch, Sequence[str]], Batch],
    ) -> None:
        self._choice, self._columns, self._with_columns = choice, columns, with_columns

    @property
    def deciding(self) -> list[str]:
        return [name for name in self._choice.deciding if name not in self._columns]

    @property
    def span(self) -> range:
        return self._choice.span

    def of_ranges(self, ranges: Mapping[str, Sequence[ValueRange]], offsets: Offsets) -> Mask:
        count = offsets.size - 1
        known = {name: [one.range] * count for name, one in self._columns.items()}
        return self._choice.of_ranges({**ranges, **known}, offsets)

    def of_batch(self, batch: Batch, first: int) -> bool:
        return self._choice.of_batch(self._with_columns(batch, self._choice.deciding), first)
