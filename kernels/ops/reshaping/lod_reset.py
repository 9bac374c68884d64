"""Replaces or appends levels over the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import check_chain
from lodcli.kernels.index.forms import (
    Order,
    lod_from_absolute_lengths,
    lod_from_absolute_offsets,
    outermost_first,
)
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import id_column
from lodcli.kernels.ops.upstream import Upstream, rows_of, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_lod_reset(
    tensor: LoDTensor,
    *,
    lod: LoD | None = None,
    offsets: npt.ArrayLike | None = None,
    lengths: Sequence[Sequence[int]] | None = None,
    like: LoDTensor | None = None,
    absolute: Sequence[Sequence[int]] | None = None,
    row_lengths: Sequence[Sequence[int]] | None = None,
    drop_ones: bool = False,
    order: Order = "coarse-to-fine",
) -> LoDTensor:
    """Return the same rows under another index.

    Exactly one argument from `lod` to `drop_ones` describes the new index.

    Args:
        tensor: data (N, ...), any dtype; not copied. Its own index is dropped.
        lod: the new index.
        offsets: the offsets of the only level of the new index, first 0, last N.
        lengths: the item counts of every level of the new index, outermost first.
        like: a tensor that has the new index; if it has no levels, its rows, whole numbers,
            are the offsets of the only level.
        absolute: the offsets of every level counted in rows, with or without their totals.
        row_lengths: the number of rows of every sequence of each level.
        drop_ones: leave out the levels whose sequences all have one item.
        order: order of the levels in `lengths`, `absolute` and `row_lengths`.

    Raises:
        InvalidDataError: none of these arguments is given, or several are.
        InvalidLoDError: the index is invalid, or does not cover N rows.

    References:
        PaddlePaddle 2.6.2, lod_reset.

    >>> sequence_lod_reset(LoDTensor([0.5] * 6, [[2, 3, 1]]), offsets=[0, 4, 6])
    LoDTensor(6 float64, [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5]])
    """
    given = {"lod": lod, "offsets": offsets, "lengths": lengths, "like": like}
    given |= {"absolute": absolute, "row_lengths": row_lengths, "drop_ones": drop_ones or None}
    tensor.refuse_nulls("another index")
    marks = tensor.marks.moved(whole=False)
    return LoDTensor(tensor.data, _wanted("lod_reset", given, tensor, order), marks)


@types_explained
def sequence_lod_reset_grad(upstream: Upstream, tensor: LoDTensor) -> LoDTensor:
    """Return the gradient of `sequence_lod_reset` and `sequence_lod_append` for `tensor`.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor: as passed to the op; only its index and shape are read.

    Returns:
        A copy of `upstream` under the index of `tensor`.

    Raises:
        ShapeMismatchError: `upstream` has another shape than the tensor.

    >>> sequence_lod_reset_grad([1.0, 2.0, 3.0], LoDTensor([0.0] * 3, [[1, 2]]))
    LoDTensor(3 float64, [[1], [2, 3]])
    """
    # The index of the upstream gradient is not checked: the op may return any index.
    flow = upstream_of(rows_of(upstream), tensor.data.shape, "sequence_lod_reset_grad")
    return tensor._with_rows(flow.copy())


@types_explained
def sequence_lod_append(
    tensor: LoDTensor,
    *,
    lod: LoD | None = None,
    offsets: npt.ArrayLike | None = None,
    lengths: Sequence[Sequence[int]] | None = None,
    like: LoDTensor | None = None,
) -> LoDTensor:
    """Return the same rows with more levels below those the tensor has.

    The rows of its finest level become the items of the first new level: their numbers
    must be equal. Exactly one argument from `lod` to `like` describes the new levels.

    Args:
        tensor: as in `sequence_lod_reset`.
        lod: the new levels.
        offsets: the offsets of a single new level.
        lengths: the item counts of every new level, outermost first.
        like: a tensor that has the new levels; all of them are appended, whereas
            PaddlePaddle replaces levels.

    Raises:
        InvalidDataError: none of these arguments is given, or several are.
        InvalidLoDError: the new levels do not match the finest level, or the rows.

    >>> rows = LoDTensor([0.5] * 6, [[6]])
    >>> sequence_lod_append(rows, lengths=[[1] * 6]).recursive_sequence_lengths()
    [[6], [1, 1, 1, 1, 1, 1]]
    """
    given = {"lod": lod, "offsets": offsets, "lengths": lengths, "like": like}
    below = _wanted("lod_append", given, tensor)
    above = tensor.lod
    levels, names = (*above.levels, *below.levels), (*above.names, *below.names)
    check_chain(levels)
    marks = tensor.marks.moved(whole=False)
    return LoDTensor(tensor.data, LoD._trusted(levels, names), marks)


def _wanted(
    op: str, given: Mapping[str, Any], tensor: LoDTensor, order: Order = "coarse-to-fine"
) -> LoD:
    """Return the index that the only argument that is not None describes."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        *others, last = given
        raise OptionError(f"{op} needs one of {', '.join(others)} and {last}, found {len(names)}")
    (name,) = names
    value = given[name]
    if name == "lengths":
        return LoD.from_lengths(outermost_first(value, order))
    if name == "absolute":
        return lod_from_absolute_offsets(value, rows=tensor.rows, order=order)
    if name == "row_lengths":
        return lod_from_absolute_lengths(value, order=order)
    if name == "drop_ones":
        return tensor.lod.without_ones()
    if name == "offsets":
        return LoD([value])
    if name == "like":
        return value.lod if value.lod.n_levels else LoD([id_column(value, op)])
    found: LoD = value
    return found
