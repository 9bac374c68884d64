"""Other levels over the same rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import id_column
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def sequence_lod_reset(
    tensor: LoDTensor,
    *,
    lod: LoD | None = None,
    offsets: npt.ArrayLike | None = None,
    lengths: Sequence[Sequence[int]] | None = None,
    like: LoDTensor | None = None,
) -> LoDTensor:
    """Return the same rows under another index. Its gradient is the gradient that comes in.

    Args:
        tensor: data (N, ...), any dtype; not copied. Its own index is dropped.
        lod: the new index.
        offsets: or the offsets of its only level, first 0, last N.
        lengths: or the item counts of every level, outermost first.
        like: or a tensor whose index is taken; where it has none, its rows, whole numbers,
            are the offsets of the only level.

    Raises:
        InvalidDataError: not exactly one of these.
        InvalidLoDError: no index, or not one of N rows.

    References:
        PaddlePaddle 2.6.2, lod_reset.

    >>> sequence_lod_reset(LoDTensor([0.5] * 6, [[2, 3, 1]]), offsets=[0, 4, 6])
    LoDTensor(6 float64, [[0.5, 0.5, 0.5, 0.5], [0.5, 0.5]])
    """
    return LoDTensor(tensor.data, _wanted("lod_reset", lod, offsets, lengths, like))


def sequence_lod_append(
    tensor: LoDTensor,
    *,
    lod: LoD | None = None,
    offsets: npt.ArrayLike | None = None,
    lengths: Sequence[Sequence[int]] | None = None,
    like: LoDTensor | None = None,
) -> LoDTensor:
    """Return the same rows with more levels below those the tensor has.

    What its finest level counted as rows are then the items of the first new level: there
    must be exactly as many of them.

    Args:
        tensor: as in `sequence_lod_reset`.
        lod: the new levels.
        offsets: or those of a single one.
        lengths: or item counts, outermost first.
        like: or a tensor whose levels they are; all of them are appended, where
            PaddlePaddle replaces.

    Raises:
        InvalidDataError: not exactly one of these.
        InvalidLoDError: levels that do not fit those above, or the rows.

    >>> rows = LoDTensor([0.5] * 6, [[6]])
    >>> sequence_lod_append(rows, lengths=[[1] * 6]).recursive_sequence_lengths()
    [[6], [1, 1, 1, 1, 1, 1]]
    """
    below = _wanted("lod_append", lod, offsets, lengths, like)
    above = tensor.lod
    levels, names = (*above.levels, *below.levels), (*above.names, *below.names)
    return LoDTensor(tensor.data, LoD(levels, names))


def _wanted(
    op: str,
    lod: LoD | None,
    offsets: npt.ArrayLike | None,
    lengths: Sequence[Sequence[int]] | None,
    like: LoDTensor | None,
) -> LoD:
    given = sum(one is not None for one in (lod, offsets, lengths, like))
    if given != 1:
        raise OptionError(f"{op} needs one of lod, offsets, lengths and like, found {given}")
    if lod is not None:
        return lod
    if lengths is not None:
        return LoD.from_lengths(lengths)
    if like is None:
        return LoD([offsets])
    return like.lod if like.lod.n_levels else LoD([id_column(like, op)])
