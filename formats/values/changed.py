"""Tensors of a file as values of another kind: texts as times or categories, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lodcli.formats.core.errors import naming
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch, Item, TensorSpec, find
from lodcli.formats.core.wrapped import Wrapped
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.places import branch_of, named_branch
from lodcli.kernels.tensor.lod_tensor import LoDTensor


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

    Args:
        inner: the open file.
        changes: by tensor.

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
