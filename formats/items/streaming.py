"""The items of a level from a source that is read sequentially."""

from __future__ import annotations

from collections.abc import Iterator

from lodcli.formats.core.format import Source
from lodcli.formats.items.sharing import Shared
from lodcli.formats.items.taking import item_count, part
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def item_batches(source: Source, shared: Shared) -> Iterator[dict[str, LoDTensor]]:
    """Yield the tensors that share a level in batches of its items; at least one.

    Args:
        source: an open file.
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
