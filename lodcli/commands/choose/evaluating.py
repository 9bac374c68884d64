"""Expressions over the items of a file."""

from __future__ import annotations

import ast

import numpy as np

from lodcli.commands.choose.choosing import named
from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.item_values import as_floats
from lodcli.formats.arrays.budget import require_fits
from lodcli.formats.items.items import Items
from lodcli.formats.items.keys import columns, ranks
from lodcli.formats.items.taking import item_count
from lodcli.kernels.index.checks import Array
from lodcli.shell.references import Reference

# Of a text in a list, without its characters.
_TEXT_BYTES = 100


def item_values(expression: Expression, items: Items, source: Reference) -> Array:
    """Return the value of an expression for every item, (K,).

    Rows are read, in one pass, only if the expression uses values of tensors. The value of a text
    is its rank among all, by bytes.
    """
    of_texts = _ranks_of_texts(expression, items, source)
    if of_texts is not None:
        return of_texts
    expression.check(items.schema, source.name)
    if not expression.tensors:
        none = {spec.name: spec.empty().data for spec in items.schema}
        tensors = {name: (lod, none[name]) for name, lod in items.lods.items()}
        return expression.values(tensors, items.count)
    found, first = list[Array](), 0
    for batch in named(source, items.range(0, items.count)):
        found.append(expression.of_batch(batch, item_count(batch), first))
        first += item_count(batch)
    if len({one.dtype for one in found}) > 1:
        # Some batches have nan.
        found = [as_floats(one) for one in found]
    return np.concatenate(found)


def _ranks_of_texts(expression: Expression, items: Items, source: Reference) -> Array | None:
    """Return the ranks of the texts that an expression names; None if it is anything else."""
    tree = expression.tree
    reverse = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub)
    name = expression.named(tree.operand if isinstance(tree, ast.UnaryOp) and reverse else tree)
    spec = next((one for one in items.schema if one.name == name), None)
    if spec is None or not spec.marks.is_text or len(spec.levels) != 1:
        return None
    size = (spec.rows or 0) + items.count * _TEXT_BYTES
    require_fits(f"{spec.name}: {items.count} texts", size, 1)
    texts: list[bytes] = []
    for batch in named(source, items.range(0, items.count)):
        texts.extend(columns(batch, [spec.name], len(texts))[0])
    ranked = ranks([texts])
    return -ranked if reverse else ranked
