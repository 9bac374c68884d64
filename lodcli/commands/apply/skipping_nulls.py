"""Ops that skip nulls, in expressions, and the others, which refuse them."""

from __future__ import annotations

from collections.abc import Callable

from lodcli.expressions.function_table import properties_of
from lodcli.expressions.functions import both_valid, known_of
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS, Nulls


def pooled(
    name: str,
    function: Callable[[LoDTensor], LoDTensor],
    tensor: LoDTensor,
    *,
    padded: bool = False,
) -> LoDTensor:
    """Return a function of the rows of each sequence, of those that are not null.

    The result is null for a null sequence, and for one of which all rows are null. Without rows it
    is null too, unless the function has a value for no rows.

    Args:
        name: of the op, which reduces.
        function: the op, whose result has a row for each sequence of a level.
        padded: whether the op has a value for a sequence without rows.
    """
    masks, given = tensor.nulls.masks, tensor
    if masks:
        by_place = properties_of(name).picks_by_place
        rows = NO_NULLS if by_place else Nulls.of([*[None] * tensor.lod.n_levels, masks[-1]])
        given = LoDTensor(tensor.values, tensor.lod, tensor.marks, rows).drop_nulls()
    found = function(given)
    depth = found.lod.n_levels
    offsets = tensor.lod.absolute(depth)
    known = known_of(name, offsets, tensor.nulls.rows, of_nothing=padded)
    *above, null = masks[: depth + 1] or [None] * (depth + 1)
    valid = both_valid(both_valid(null, found.nulls.rows), known)
    nulls = Nulls.of([*above, valid])
    if nulls:  # which a GPU has not
        found = found.to_device("cpu")
    return LoDTensor(found.values, found.lod, found.marks, nulls)


def refusal(op: str, tensor: LoDTensor, remedy: str = "") -> str:
    """Return why an op does not compute with a tensor that has nulls, and what to do.

    Args:
        remedy: besides --nulls.
    """
    where, how = tensor.nulls.first(tensor.lod), tensor.nulls.remedy(tensor.dtype)
    others = f"{remedy}, or " if remedy else ""
    return f"{where}, and {op} takes no nulls; {others}use {how.partition(' (')[0]}"
