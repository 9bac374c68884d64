"""Writing packed batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from lodcli.commands.choose.choosing import named
from lodcli.commands.plan.planning import Plan
from lodcli.formats.core.format import BATCH_BYTES
from lodcli.formats.core.schema import Batch, Item, LevelSpec, Schema, TensorSpec, find
from lodcli.formats.items.dividing import Divider
from lodcli.formats.items.items import Items
from lodcli.formats.items.reordering import reordered
from lodcli.formats.items.taking import under
from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell.references import Reference
from lodcli.shell.targets import Target

ADDED = ("cu_seqlens", "positions", "documents", "items", "max_seqlen")


def write_packed(
    plan: Plan, items: Items, source: Reference, target: Target, *, drop_long: bool
) -> None:
    """Write packed batches of all tensors that share the items, and the tensors in ADDED.

    Raises:
        InvalidDataError: a sequence is too long; a tensor has a name in ADDED.
    """
    if plan.too_long and not drop_long:
        longest = int(plan.lengths.argmax())
        raise InvalidDataError(
            f"{source.label}: {plan.name}: item {longest} has {plan.lengths[longest]:,} rows, more "
            f"than a batch of {plan.tokens:,}; --drop-long leaves such items out"
        )
    for spec in items.schema:
        if spec.name in ADDED:
            raise InvalidDataError(
                f"{source.label}: a tensor is called {spec.name} already; rename it first"
            )
    order, batches = plan.packed
    divider = Divider(named(source, reordered(items, order)))
    target.write(
        _schema(plan, items, order, batches), _packed(plan, order, batches, items, divider)
    )


def _schema(plan: Plan, items: Items, order: Offsets, batches: Offsets) -> Schema:
    count = batches.size - 1
    batch = LevelSpec("packed batch", "batch", count)
    found = [
        replace(spec, levels=(batch, *spec.levels), marks=spec.marks.below(1))
        for spec in items.counted(order)
    ]
    lead = find(tuple(found), plan.name)
    int32, int64 = np.dtype(np.int32), np.dtype(np.int64)
    boundaries = LevelSpec("packed boundaries", None, count)
    return (
        *found,
        TensorSpec("cu_seqlens", int32, (), (boundaries,), int(order.size) + count),
        TensorSpec("positions", int32, (), lead.levels, lead.rows),
        TensorSpec("documents", int32, (), lead.levels, lead.rows),
        TensorSpec("items", int64, (), (batch,), int(order.size)),
        TensorSpec("max_seqlen", int32, (), (), count),
    )


def _packed(
    plan: Plan, order: Offsets, batches: Offsets, items: Items, divider: Divider
) -> Iterator[Batch]:
    """Yield several packed batches at a time, or one."""
    ends = np.concatenate([[0], np.cumsum(np.diff(items.bytes)[order])])[batches]
    start = 0
    while True:
        stop = int(np.searchsorted(ends, ends[start] + BATCH_BYTES, "right")) - 1
        stop = min(max(stop, start + 1), batches.size - 1)
        offsets = batches[start : stop + 1] - batches[start]
        parts = list(divider.part(int(offsets[-1])))
        whole = {name: LoDTensor.concatenate([one[name] for one in parts]) for name in parts[0]}
        yield _batch(plan, whole, order[batches[start] : batches[stop]], offsets)
        start = stop
        if start >= batches.size - 1:
            return


def _batch(plan: Plan, whole: dict[str, LoDTensor], numbers: Offsets, offsets: Offsets) -> Batch:
    """Return packed batches.

    Args:
        plan: names the tensor whose rows are counted.
        whole: their items in order.
        numbers: of the items in the file.
        offsets: (B + 1,), of the batches, in items.
    """
    below = under(whole, offsets, "batch")
    found: dict[str, Item] = {**below}
    lead = whole[plan.name]
    ends = lead.lod.absolute(0)
    lengths = np.diff(ends)
    batch_of = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    within = np.arange(lengths.size) - offsets[batch_of]
    rows = np.arange(lead.rows)
    lod = below[plan.name].lod
    found["positions"] = LoDTensor((rows - np.repeat(ends[:-1], lengths)).astype(np.int32), lod)
    found["documents"] = LoDTensor(np.repeat(within, lengths).astype(np.int32), lod)
    found["items"] = LoDTensor(numbers, LoD._trusted([offsets], ["batch"]))
    # For each batch the offsets of its sequences.
    boundaries = np.arange(offsets.size) + offsets
    filled = np.zeros(int(boundaries[-1]), np.int32)
    filled[np.arange(lengths.size) + batch_of + 1] = ends[1:] - ends[offsets[batch_of]]
    found["cu_seqlens"] = LoDTensor(filled, LoD([boundaries]))
    longest = np.zeros(offsets.size - 1, np.int32)
    np.maximum.at(longest, batch_of, lengths.astype(np.int32))
    found["max_seqlen"] = LoDTensor(longest)
    return found
