"""Tensors of a file as values of another kind: texts as times or categories, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch, Item, TensorSpec, find
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of, named_branch
from lodcli.kernels.tensor.exchange.units import texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Unit
from lodcli.kernels.tensor.nulls import Nulls


class Change(ABC):
    """A change of the values of a tensor, which keeps their number and order."""

    @abstractmethod
    def spec(self, spec: TensorSpec) -> TensorSpec:
        """Return the description of a changed tensor. Raises UnsupportedError: it has no such."""

    @abstractmethod
    def of(self, spec: TensorSpec, tensor: LoDTensor, before: int) -> LoDTensor:
        """Return a changed tensor.

        Args:
            spec: of the tensor before the change.
            tensor: a part of it, which may lack its marks.
            before: number of outermost items before this part.

        Raises:
            InvalidDataError: a value that cannot be changed; names its position.
        """


class Changed(Wrapped):
    """A source with changes of some tensors.

    Raises:
        UnsupportedError: a tensor cannot be changed; names it.
    """

    def __init__(self, inner: Source, changes: Mapping[str, Change]) -> None:
        super().__init__(inner)
        self._changes = changes
        self.schema = tuple(
            changes[spec.name].spec(spec) if spec.name in changes else spec for spec in inner.schema
        )

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        before = dict.fromkeys(self._changes, 0)
        for batch in self._inner.batches_of(list(names), limit_bytes):
            made: dict[str, Item] = dict(batch)
            for name in before.keys() & batch.keys():
                item = batch[name]
                assert isinstance(item, LoDTensor)
                with naming(name):
                    spec = find(self._inner.schema, name)
                    made[name] = self._changes[name].of(spec, item, before[name])
                before[name] += len(item)
            yield made


def place(lod: LoD, row: int, before: int, column: Sequence[int] = ()) -> str:
    """Return where a row is, which follows `before` outermost items, as text."""
    first, *rest = branch_of(lod, lod.n_levels, row)
    return named_branch(lod.names, (first + before, *rest), column)


def value_at(tensor: LoDTensor, unit: Unit | None, flat: int, before: int) -> tuple[str, str]:
    """Return where the value at a flat index is, see `place`, and its text."""
    row, *column = map(int, np.unravel_index(flat, tensor.values.shape))
    value = tensor.values[(row, *column)]
    text = texts(np.array([value]), unit)[0] if unit else str(value)
    return place(tensor.lod, row, before, column), text


def numbered(spec: TensorSpec, dtype: np.dtype[Any], unit: Unit | None) -> TensorSpec:
    """Return the description of a tensor with a number for each text, or for each number."""
    text = spec.marks.is_text
    return replace(
        spec,
        dtype=dtype,
        levels=spec.levels[:-1] if text else spec.levels,
        rows=spec.levels[-1].items if text else spec.rows,
        marks=replace(spec.marks, values=None, unit=unit),
        nullable=spec.nullable or text,
    )


def of_texts(tensor: LoDTensor, numbers: Array, marks: Marks) -> LoDTensor:
    """Return the numbers of a tensor of texts, null where a text is empty."""
    offsets, lod = tensor.lod.levels[-1], tensor.lod.without_finest()
    masks = tensor.nulls.masks[:-2] if tensor.nulls else [None] * lod.n_levels
    return LoDTensor(numbers, lod, marks, Nulls.of([*masks, offsets[1:] > offsets[:-1]]))
