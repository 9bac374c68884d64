"""The outermost items of a file that is read from front to back, chosen by increasing numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lodcli.formats.choosing.choice import ValueRange
from lodcli.formats.core.format import Source
from lodcli.formats.core.schema import Batch, Schema, TensorSpec, tensor_of
from lodcli.formats.items.indexed_copy import in_place
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.streaming import chosen_batches
from lodcli.formats.items.taking import item_count, part, taken
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask


class ItemsInOrder:
    """The records of a file, without a copy of those that are not chosen.

    Args:
        source: the open file; of records.
        shared: all tensors that are read; the level is the outermost.
    """

    def __init__(self, source: Source, shared: Shared, count: int) -> None:
        self.source = source
        self.shared = shared
        self.count = count

    @classmethod
    def of(cls, source: Source, shared: Shared) -> ItemsInOrder | None:
        """Return the items of a level of a file; None if only `Items` can read them."""
        count = shared.specs[0].items
        if count is None or shared.level or not source.records:
            return None
        if in_place(source, shared.names) is not None:
            return None
        return cls(source, shared, count)

    def counted(self, chosen: slice | Offsets) -> Schema:
        """Return the schema of only these items; counts below them are unknown."""
        count = chosen.stop - chosen.start if isinstance(chosen, slice) else chosen.size
        return tuple(_counted(spec, count) for spec in self.shared.schema)

    def range(self, start: int, stop: int) -> Iterator[dict[str, LoDTensor]]:
        """Yield items start..stop in batches; at least one."""
        return self._chosen(_Chosen(range(start, stop)))

    def picked(self, items: Offsets) -> Iterator[dict[str, LoDTensor]]:
        """Yield these items, (K,) int64 and increasing, in batches; at least one."""
        span = range(int(items[0]), int(items[-1]) + 1) if items.size else range(0)
        return self._chosen(_Chosen(span, items))

    def _chosen(self, choice: _Chosen) -> Iterator[dict[str, LoDTensor]]:
        came = False
        for first, batch in chosen_batches(self.source, self.shared, choice):
            found = choice.of(batch, first)
            if item_count(found) or not came:
                came = True
                yield found
        if not came:
            yield {spec.name: spec.empty() for spec in self.shared.schema}


def _counted(spec: TensorSpec, count: int) -> TensorSpec:
    if not spec.levels:
        return replace(spec, rows=count)
    outermost = replace(spec.levels[0], items=count)
    return replace(spec, levels=(outermost, *spec.levels[1:]))


@dataclass(frozen=True, eq=False)
class _Chosen:
    """A choice of items by their numbers; see Choice.

    Attributes:
        span: the items among which all chosen ones are.
        items: their numbers, increasing; None: all of the span.
    """

    span: range
    items: Offsets | None = None
    deciding: Sequence[str] = ()

    def before(self, offsets: Offsets) -> Offsets:
        """Return the number of chosen items before each of these items."""
        if self.items is None:
            return np.clip(offsets, self.span.start, self.span.stop)
        return np.searchsorted(self.items, offsets)

    def of_ranges(self, ranges: Mapping[str, Sequence[ValueRange]], offsets: Offsets) -> Mask:
        """See Choice."""
        return np.diff(self.before(offsets)) > 0

    def of_batch(self, batch: Batch, first: int) -> bool:
        """See Choice."""
        low, high = self.before(
            np.array([first, first + len(tensor_of(next(iter(batch.values()))))])
        )
        return bool(low < high)

    def of(self, batch: dict[str, LoDTensor], first: int) -> dict[str, LoDTensor]:
        """Return the chosen items of a batch, the first of which has the number `first`."""
        count = item_count(batch)
        low, high = self.before(np.array([first, first + count])).tolist()
        if high - low == count:
            return batch
        if self.items is None:
            low, high = (min(max(number - first, 0), count) for number in (low, high))
            return part(batch, low, high)
        return taken(batch, self.items[low:high] - first)
