"""The items of a level from a source that is read sequentially."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from lodcli.formats.choosing.choice import Choice
from lodcli.formats.core.batching import groups, only
from lodcli.formats.core.format import BATCH_BYTES, Source
from lodcli.formats.core.schema import Batch, find_all, tensor_of
from lodcli.formats.core.wrapped import Wrapped
from lodcli.formats.items.indexed_copy import in_place
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import item_count, part
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def item_batches(source: Source, shared: Shared) -> Iterator[dict[str, LoDTensor]]:
    """Yield the tensors that share a level in batches of its items; at least one.

    Args:
        shared: its tensors, which are in the same batches or form records.
    """
    for batch in source.batches_of(shared.names):
        cut: dict[int, LoD] = {}
        found = {}
        for name in shared.names:
            tensor = batch.get(name)
            if isinstance(tensor, LoDTensor):
                lod = tensor.lod
                below = lod.below(shared.level - 1) if shared.level else lod
                below = cut.setdefault(id(lod), below)
                nulls = tensor.nulls.below(shared.level)
                found[name] = LoDTensor(tensor.values, below, tensor.marks, nulls)
        if found:
            yield found


def chosen_batches(
    source: Source, shared: Shared, choice: Choice
) -> Iterator[tuple[int, dict[str, LoDTensor]]]:
    """Yield `item_batches`, each with the number of its first item.

    Of records, parts of the file without chosen items are left out where that is known.
    """
    if source.records and not shared.level:
        for first, batch in source.chosen_batches(shared.names, choice):
            yield first, {name: tensor_of(batch[name]) for name in shared.names}
    else:
        yield from numbered(item_batches(source, shared))


def numbered(
    batches: Iterable[dict[str, LoDTensor]],
) -> Iterator[tuple[int, dict[str, LoDTensor]]]:
    """Yield batches of all items, each with the number of its first item."""
    first = 0
    for batch in batches:
        yield first, batch
        first += item_count(batch)


def first_items(
    batches: Iterator[dict[str, LoDTensor]], count: int
) -> Iterator[dict[str, LoDTensor]]:
    """Yield the first `count` items of batches, without reading further batches."""
    left = count
    for batch in batches:
        found = item_count(batch)
        if found >= left:
            yield part(batch, 0, left)
            return
        left -= found
        yield batch


def first_of(source: Source, names: Sequence[str], count: int) -> Source:
    """Return the first outermost items of some tensors, or the source if it must be read whole.

    It must if its batches do not hold equally many items of all of these tensors, and it need not
    if its rows can be read in any order.
    """
    specs = find_all(source.schema, names)
    together = source.records or len(groups(specs)) == 1
    if any(spec.array for spec in specs) or not together or in_place(source, names) is not None:
        return source
    return _First(source, count)


class _First(Wrapped):
    """The first outermost items of a source, read no further than they go."""

    def __init__(self, inner: Source, count: int) -> None:
        super().__init__(inner)
        self.schema = tuple(spec.uncounted() for spec in inner.schema)
        self._count = count

    def batches_of(self, names: Iterable[str], limit_bytes: int = BATCH_BYTES) -> Iterator[Batch]:
        wanted = set(names)
        batches = only(self._inner.batches_of(wanted, limit_bytes), wanted)
        tensors = ({name: tensor_of(batch[name]) for name in batch} for batch in batches)
        yield from first_items(tensors, self._count)
