"""Batches for the first op of a chain, if it takes several tensors or reorders items."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from lodcli.commands.choose.choosing import named
from lodcli.formats.arrays.budget import require_items_fit
from lodcli.formats.core.batching import cuts
from lodcli.formats.core.errors import naming
from lodcli.formats.core.marks import marked
from lodcli.formats.core.table import HDF5_MAGIC
from lodcli.formats.dataset.manifest import is_dataset
from lodcli.formats.items.indexed_copy import in_place
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.sharing import sharing
from lodcli.formats.storage.prefetch import ahead
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.ranking.rank_table import rank_order
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.time_steps import longest_first
from lodcli.shell.opened import COMPUTED_BYTES, opened
from lodcli.shell.references import Reference

# The name of the first tensor, and batches of the tensors.
Parts = tuple[str, Iterator[list[LoDTensor]]]


def in_step(stack: ExitStack, references: Sequence[Reference], *, fewer: bool) -> Parts | None:
    """Return batches of the same outermost items of tensors of several files.

    Args:
        stack: closes the files.
        references: each names a tensor.
        fewer: whether tensors after the first may have one row for each of its finest sequences,
            and all its levels above.

    Returns:
        None if a file can only be read from front to back, or levels other than the finest
        differ: then the op is called with whole tensors, and raises its own error.
    """
    items = [_items(stack, one, 0) for one in references]
    found = [one for one in items if one is not None]
    if len(found) < len(items) or len({one.count for one in found}) > 1:
        return None
    lods = [lod for one in found for lod in one.lods.values()]
    depth = lods[0].n_levels
    for lod in lods[1:]:
        if not (lod.n_levels == depth or (fewer and lod.n_levels == depth - 1)):
            return None
        if depth > 1 and not lods[0].upto(depth - 2).same_levels(lod.upto(depth - 2)):
            return None
        if fewer and lod.n_levels == depth and not lods[0].same_levels(lod):
            return None
    return found[0].schema[0].name, ahead(_read(references, found))


def longest_items(stack: ExitStack, reference: Reference, level: int | str) -> Parts | None:
    """Return the items of a level of a tensor in batches, those with the most items first.

    Returns:
        None if the file can only be read from front to back, or the tensor has no such level.
    """

    def order(items: Items) -> Offsets | None:
        (lod,) = items.lods.values()
        return longest_first(lod.lengths(0)) if lod.n_levels else None

    return _in_order(_items(stack, reference, level), reference, order)


def items_by_rank(stack: ExitStack, reference: Reference, table: Array) -> Parts | None:
    """Return the outermost items of a tensor in batches, in the order of a rank table.

    Returns:
        None if the file can only be read from front to back.

    Raises:
        LodError: as `sequence_reorder_by_rank`.
    """

    def order(items: Items) -> Offsets:
        return rank_order(items.count, table)

    return _in_order(_items(stack, reference, 0), reference, order)


def _in_order(
    items: Items | None, reference: Reference, order: Callable[[Items], Offsets | None]
) -> Parts | None:
    """Return items of one tensor in an order, in batches; None without items or an order."""
    numbers = None if items is None else order(items)
    if items is None or numbers is None:
        return None
    (name,) = items.lods
    batches = marked(items.schema, reordered(items, numbers))
    return name, ([_only(batch)] for batch in named(reference, batches))


def _items(stack: ExitStack, reference: Reference, level: int | str) -> Items | None:
    """Open a file and return the items of a level of one tensor.

    None without random access, without such a level, or if there may be nulls.
    """
    if not _is_container(reference.path):
        return None
    file = stack.enter_context(opened(reference))
    spec = file.tensor()
    source = in_place(file.source, [spec.name])
    if source is None or spec.nullable:
        return None
    try:
        return Items(source, sharing(source.schema, spec.name, level).only(spec.name))
    except SelectionError:
        return None


def _is_container(path: str) -> bool:
    """Return whether a path is a container or a dataset: a pipe must not be opened twice."""
    if is_dataset(path):
        return True
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(HDF5_MAGIC)) == HDF5_MAGIC


def _read(references: Sequence[Reference], items: Sequence[Items]) -> Iterator[list[LoDTensor]]:
    ends: list[Offsets] = []
    row_bytes: list[int] = []
    for one in items:
        ends += [one.ends(spec.name) for spec in one.schema]
        row_bytes += [spec.row_bytes for spec in one.schema]
    with naming(", ".join(one.schema[0].name for one in items)):
        require_items_fit(ends, row_bytes)
    ranges = list(cuts(ends, row_bytes, COMPUTED_BYTES))

    def batches(reference: Reference, one: Items) -> Iterator[LoDTensor]:
        found = marked(one.schema, (one.read(start, stop) for start, stop in ranges))
        return map(_only, named(reference, found))

    readers = [batches(*pair) for pair in zip(references, items, strict=True)]
    yield from map(list, zip(*readers, strict=True))


def _only(batch: Mapping[str, object]) -> LoDTensor:
    (tensor,) = batch.values()
    assert isinstance(tensor, LoDTensor)
    return tensor
