"""Expressions over the items of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized

import numpy as np

from lodcli.commands.choose.choosing import named
from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.item_values import Values, as_floats
from lodcli.formats.arrays.budget import require_fits
from lodcli.formats.core.errors import naming_source
from lodcli.formats.items.items import Items
from lodcli.formats.items.taking import item_count
from lodcli.kernels.order.ranks import text_ranks
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask
from lodcli.shell.references import Reference

# Of a text, without its characters: its place, its rank, and scratch memory of the sort.
_TEXT_BYTES = 64


def item_values(expression: Expression, items: Items, source: Reference) -> Values:
    """Return the value of an expression for every item, data (K,).

    Rows are read, in one pass, only if the expression uses values of tensors. The value of a text
    is its rank among all, by bytes.
    """
    of_tensor = _ranks_of_tensor(expression, items, source)
    if of_tensor is not None:
        return of_tensor
    expression.prepare(items.schema, source.name)
    if expression.texts_of(expression.tree):
        return _ranks_of_texts(expression, items, source)
    expression.check(items.schema, source.name)
    if not expression.tensors:
        return expression.of_index(items)
    found = [
        expression.of_batch(batch, first, count)
        for batch, first, count in _batches(expression, items, source)
    ]
    data = [one.data for one in found]
    if len({one.dtype for one in data}) > 1:
        # Some batches have whole numbers beyond 64 bits.
        data = [as_floats(one) for one in data]
    return Values(np.concatenate(data), None, _joined([one.valid for one in found], data))


def _batches(
    expression: Expression, items: Items, source: Reference
) -> Iterator[tuple[dict[str, LoDTensor], int, int]]:
    """Yield batches, the number of the first item of each, and how many items it has."""
    # Texts of none, such as "a" if index() > 1 else "b", take the number of items from one.
    names = expression.read_names(items.schema) or [items.shared.specs[0].name]
    items = Items(items.source, items.shared.only(*names))
    first = 0
    for batch in named(source, items.range(0, items.count)):
        count = item_count(batch)
        yield batch, first, count
        first += count


def _joined(masks: Sequence[Mask | None], parts: Sequence[Sized]) -> Mask | None:
    """Return the mask of all parts; None if none has one."""
    if all(mask is None for mask in masks):
        return None
    whole = [
        np.ones(len(part), np.bool_) if mask is None else mask
        for mask, part in zip(masks, parts, strict=True)
    ]
    return np.concatenate(whole)


def _ranks_of_texts(expression: Expression, items: Items, source: Reference) -> Values:
    """Return the ranks of the texts that an expression picks or makes."""
    found: list[tuple[Texts, Mask | None]] = []
    size_bytes = items.count * _TEXT_BYTES
    for batch, first, count in _batches(expression, items, source):
        found.append(expression.texts_of_batch(batch, first, count))
        size_bytes += found[-1][0].data.nbytes
        require_fits(f"{expression.text}: {items.count} texts", size_bytes, 1)
    texts = [one for one, _ in found]
    masks = _joined([mask for _, mask in found], [one.lengths for one in texts])
    return Values(text_ranks(Texts.joined(texts)), None, masks)


def _ranks_of_tensor(expression: Expression, items: Items, source: Reference) -> Values | None:
    """Return the ranks of the texts that an expression names; None if it is anything else."""
    name = expression.named(expression.tree)
    spec = next((one for one in items.schema if one.name == name), None)
    if spec is None or not spec.marks.is_text or len(spec.levels) != 1:
        return None
    size = (spec.rows or 0) + items.count * _TEXT_BYTES
    require_fits(f"{spec.name}: {items.count} texts", size, 1)
    with naming_source(source.label):
        texts = Texts.of(items.rows(spec.name), items.lods[spec.name].levels[0])
        nulls = items.nulls(spec.name)
    return Values(text_ranks(texts), None, nulls.masks[0] if nulls else None)
