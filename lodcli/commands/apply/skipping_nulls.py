"""Ops that skip nulls, in expressions, and the others, which refuse them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from lodcli.commands.choose.item_values import both_valid
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

# The last two do not skip them, but are null if the row is.
SKIPPING = ("sum", "mean", "max", "min", "any", "all", "first", "last")


def pooled(name: str, function: Callable[[LoDTensor], LoDTensor], tensor: LoDTensor) -> LoDTensor:
    """Return a function of the rows of each sequence, of those that are not null.

    The result is null for a null sequence, and for one of which all rows are null.

    Args:
        name: of the op, in SKIPPING.
        function: the op, whose result has a row for each sequence of a level.
        tensor: may have nulls.
    """
    if not tensor.nulls:
        return function(tensor)
    mask = tensor.nulls.rows
    valid = np.ones(tensor.rows, np.bool_) if mask is None else mask
    picks = name in ("first", "last")
    rows = Nulls.of([*[None] * tensor.lod.n_levels, None if picks else mask])
    found = function(LoDTensor(tensor.values, tensor.lod, tensor.marks, rows).drop_nulls())
    offsets = tensor.lod.absolute(found.lod.n_levels)
    known = offsets[1:] == offsets[:-1]
    if picks:
        places = offsets[:-1] if name == "first" else offsets[1:] - 1
        known[~known] = valid[places[~known]]
    else:
        counts = np.concatenate([[0], np.cumsum(valid)])[offsets]
        known |= counts[1:] > counts[:-1]
    *above, null = tensor.nulls.masks[: found.lod.n_levels + 1]
    known = functools.reduce(both_valid, (null, found.nulls.rows), known)
    return LoDTensor(found.values, found.lod, found.marks, Nulls.of([*above, known]))


def refusal(op: str, tensor: LoDTensor, remedy: str = "") -> str:
    """Return why an op does not compute with a tensor that has nulls, and what to do.

    Args:
        op: its name.
        tensor: the input.
        remedy: besides --nulls.
    """
    where, how = tensor.nulls.first(tensor.lod), tensor.nulls.remedy(tensor.dtype)
    others = f"{remedy}, or " if remedy else ""
    return f"{where}, and {op} takes no nulls; {others}use {how.partition(' (')[0]}"
