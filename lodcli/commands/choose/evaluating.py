"""Expressions over the items of a file."""

from __future__ import annotations

import numpy as np

from lodcli.commands.choose.choosing import named
from lodcli.commands.choose.expression import Expression
from lodcli.commands.choose.item_values import as_floats
from lodcli.formats.items.items import Items
from lodcli.formats.items.taking import item_count
from lodcli.kernels.index.checks import Array
from lodcli.shell.references import Reference


def item_values(expression: Expression, items: Items, source: Reference) -> Array:
    """Return the value of an expression for every item, (K,).

    Rows are read, in one pass, only if the expression uses values of tensors.
    """
    expression.check(items.schema, source.name)
    if not expression.tensors:
        none = {spec.name: spec.empty().data for spec in items.schema}
        tensors = {name: (lod, none[name]) for name, lod in items.lods.items()}
        return expression.values(tensors, items.count)
    found = [
        expression.of_batch(batch, item_count(batch))
        for batch in named(source, items.range(0, items.count))
    ]
    if len({one.dtype for one in found}) > 1:
        # Some batches have nan.
        found = [as_floats(one) for one in found]
    return np.concatenate(found)
