"""Splits a batch in two by a mask, and merges the parts.

Where PaddlePaddle loses rows beside an empty sequence, these keep them: the two are
exact inverses for every tensor and mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import (
    Offsets,
    check_chain,
    lengths_to_offsets,
    offsets_to_lengths,
)
from lodcli.kernels.index.items import FoundItems, find_items, found_below, segment_pick
from lodcli.kernels.index.lod import LoD, require_same_depth
from lodcli.kernels.ops.arguments import require_shape
from lodcli.kernels.ops.joining.concat import levels_in_turn, rows_in_turn, rows_out_of_turn
from lodcli.kernels.ops.upstream import Upstream, upstream_of, upstreams_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.gather import gather_items, take_known
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Mask = npt.NDArray[np.bool_]


@types_explained
def sequence_split_by_mask(
    tensor: LoDTensor, mask: npt.ArrayLike, level: int | str = 0
) -> tuple[LoDTensor, LoDTensor]:
    """Return the sequences where `mask` is true and those where it is false, in order.

    Args:
        tensor: data (N, ...), any dtype. Without levels its rows are split.
        mask: (S,) or (S, 1) booleans, one for each of the S sequences of `level`.
        level: the level whose sequences are split; by default the outermost.

    Returns:
        Two tensors with the levels from `level` on; either may be a batch of none.

    Raises:
        SelectionError: no such level.
        InvalidDataError, ShapeMismatchError: no booleans, or not one a sequence.

    >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]]))
    >>> kept, rest = sequence_split_by_mask(words, [False, True, True])
    >>> kept, rest.data.tolist()
    (LoDTensor(3 int64, [[3], [4, 5]]), [0, 1, 2])
    """
    lod, places = tensor.lod, _splitting_mask(tensor, mask, level)
    if not lod.levels or tensor.nulls.masks:
        number = lod.level(level) if lod.levels else 0
        items = places.nonzero()[0], (~places).nonzero()[0]
        return take_known(tensor, items[0], number), take_known(tensor, items[1], number)
    true, false = _found(lod, places, level)
    data, nulls = tensor.data, tensor.nulls
    return (
        tensor._part(gather_items(data, true), true.lod, nulls),
        tensor._part(gather_items(data, false), false.lod, nulls),
    )


@types_explained
def sequence_split_by_mask_grad(
    upstream: tuple[Upstream, Upstream],
    tensor: LoDTensor,
    mask: npt.ArrayLike,
    level: int | str = 0,
) -> LoDTensor:
    """Return the gradient of `sequence_split_by_mask` for `tensor`.

    Args:
        upstream: the gradients of the two parts.
        tensor, mask, level: as they went in; of the tensor only its index and shape are read.

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_split_by_mask`; or a
            gradient has another shape or index than its part.
    """
    places = _splitting_mask(tensor, mask, level)
    found = _found(tensor.lod, places, level)
    flows = upstreams_of(upstream, tensor.row_shape, "sequence_split_by_mask_grad", found)
    _, bounds = _merged(places, found[0].bounds, found[1].bounds)
    return tensor._with_rows(rows_in_turn(flows, bounds))


@types_explained
def sequence_merge_by_mask(
    true: LoDTensor, false: LoDTensor, mask: npt.ArrayLike, above: LoD | None = None
) -> LoDTensor:
    """Return two parts as one batch: the inverse of `sequence_split_by_mask`.

    Args:
        true: the sequences (rows, without levels) for the places where `mask` is true.
        false: those for the others; the same row shape, dtype and number of levels.
        mask: (S,) or (S, 1) booleans.
        above: the levels above those of the parts, which `sequence_split_by_mask` left out; its
            finest level counts S sequences.

    Raises:
        ShapeMismatchError: the parts differ, or have not as many sequences as `mask` asks
            for.
        InvalidLoDError: `above` counts another number of sequences.

    >>> sequence_merge_by_mask(
    ...     LoDTensor(np.array([7, 8]), LoD.from_lengths([[2]])),
    ...     LoDTensor(np.array([5]), LoD.from_lengths([[1]])),
    ...     mask=[False, True],
    ... )
    LoDTensor(3 int64, [[5], [7, 8]])
    """
    parts = LoDTensor._agreeing([true, false])
    places = _merging_mask(true, false, mask)
    levels, bounds = _merged_levels(places, *parts)
    rows = rows_in_turn([one.data for one in parts], bounds)
    return LoDTensor._made(rows, _under(above, levels, true))


@types_explained
def sequence_merge_by_mask_grad(
    upstream: Upstream,
    true: LoDTensor,
    false: LoDTensor,
    mask: npt.ArrayLike,
    above: LoD | None = None,
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_merge_by_mask` for its two parts.

    Args:
        upstream: (N, ...), the gradient of the result.
        true, false, mask, above: as they went in; of the parts only their indexes and shapes
            are read.

    Returns:
        Two tensors under the indexes of the parts, the dtype of `upstream`.

    Raises:
        InvalidDataError, ShapeMismatchError: as `sequence_merge_by_mask`; or `upstream` has
            another shape or index than the result.
    """
    op, count = "sequence_merge_by_mask_grad", true.rows + false.rows
    require_shape(false.row_shape, true.row_shape, f"{op}: rows of the false part")
    require_same_depth((true.lod, false.lod))
    levels, bounds = _merged_levels(_merging_mask(true, false, mask), true, false)
    shape = (count, *true.row_shape)
    flow = upstream_of(upstream, shape, op, lambda: _under(above, levels, true))
    of_true, of_false = rows_out_of_turn(flow, bounds)
    return true._with_rows(of_true), false._with_rows(of_false)


def _under(above: LoD | None, below: Sequence[Offsets], like: LoDTensor) -> LoD:
    """Return an index of the levels above, if there are any, and those of the parts."""
    if above is None or not above.n_levels:
        return LoD._trusted(below, like.lod.names)
    levels = (*above.levels, *below)
    check_chain(levels)
    return LoD._trusted(levels, (*above.names, *like.lod.names))


def _merged_levels(
    places: Mask, true: LoDTensor, false: LoDTensor
) -> tuple[list[Offsets], Sequence[Offsets]]:
    """Return the levels of two parts merged, and where the rows of each take turns."""
    if not true.lod.levels:
        return [], _merged(places, np.arange(len(true) + 1), np.arange(len(false) + 1))[1]
    indexes = (true.lod, false.lod)
    offsets, bounds = _merged(places, indexes[0].levels[0], indexes[1].levels[0])
    lower, rows = levels_in_turn(indexes, bounds, 1)
    return [offsets, *lower], rows


def _merged(places: Mask, true: Offsets, false: Offsets) -> tuple[Offsets, Sequence[Offsets]]:
    return on("auto", segment_merged, size_bytes=16 * places.size)(places, true, false)


def _found(lod: LoD, places: Mask, level: int | str) -> list[FoundItems]:
    """Return the items of a level where the mask is true, and the others."""
    if not lod.levels:
        return [find_items(lod, places.nonzero()[0]), find_items(lod, (~places).nonzero()[0])]
    number = lod.level(level)
    split = on("auto", segment_split, size_bytes=16 * places.size)
    true, false = split(places, lod.levels[number])
    return [found_below(lod, number, *true), found_below(lod, number, *false)]


def _splitting_mask(tensor: LoDTensor, mask: npt.ArrayLike, level: int | str) -> Mask:
    """Return a mask of as many places as a level has sequences, or as there are rows."""
    lod = tensor.lod
    return _checked_mask(mask, lod.count(level) if lod.n_levels or level != 0 else tensor.rows)


def _merging_mask(true: LoDTensor, false: LoDTensor, mask: npt.ArrayLike) -> Mask:
    """Return a mask that is true as often as the true part has sequences."""
    places = _checked_mask(mask, len(true) + len(false))
    wanted = np.count_nonzero(places)
    if wanted != len(true):
        raise ShapeMismatchError(
            f"the mask is true for {wanted} sequences, the true part has {len(true)}"
        )
    return places


def _checked_mask(mask: npt.ArrayLike, count: int) -> Mask:
    array = on_host(mask, "mask")
    if array.dtype.kind != "b" and array.size:
        raise InvalidDataError(f"a mask holds booleans, found {array.dtype}")
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        raise InvalidDataError(f"a mask is (S,) or (S, 1), found {array.shape}")
    if array.shape[0] != count:
        raise ShapeMismatchError(f"mask: expected {count} booleans, found {array.shape[0]}")
    if array.ndim == 1 and array.dtype.kind == "b":
        return array
    return array.reshape(-1).astype(np.bool_, copy=False)


# -- arrays ----------------------------------------------------------------------------


def segment_merged(
    mask: Mask, true: Offsets, false: Offsets
) -> tuple[Offsets, tuple[Offsets, Offsets]]:
    """Return the offsets of two parts merged by a mask, and what each has before every place.

    Args:
        mask: (S,), as often true as the one part has sequences, and false as the other has.
        true, false: the offsets of the parts.

    Returns:
        (S+1,), and twice (S+1,).

    >>> offsets, (one, two) = segment_merged(
    ...     np.array([False, True, True]), np.array([0, 2, 3]), np.array([0, 4])
    ... )
    >>> offsets.tolist(), one.tolist(), two.tolist()
    ([0, 4, 6, 7], [0, 0, 2, 3], [0, 4, 4, 4])
    """
    trues = lengths_to_offsets(mask.view(np.int8).astype(np.int64), level=0)
    before = true[trues], false[np.arange(trues.size) - trues]
    lengths = offsets_to_lengths(before[0]) + offsets_to_lengths(before[1])
    return lengths_to_offsets(lengths, level=0), before


def segment_split(
    mask: Mask, offsets: Offsets
) -> tuple[tuple[Offsets, Offsets], tuple[Offsets, Offsets]]:
    """Return what `segment_pick` does of the items where a mask is true, and of the others.

    >>> (begins, bounds), _ = segment_split(np.array([False, True, True]), np.array([0, 2, 5, 6]))
    >>> begins.tolist(), bounds.tolist()
    ([2, 5], [0, 3, 4])
    """
    return (
        segment_pick(offsets, mask.nonzero()[0]),
        segment_pick(offsets, (~mask).nonzero()[0]),
    )
