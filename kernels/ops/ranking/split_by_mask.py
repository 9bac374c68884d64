"""Splits a batch in two by a mask, and merges the parts.

PaddlePaddle loses rows next to an empty sequence; these ops keep them: the two are
exact inverses for every tensor and mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Offsets, check_chain, lengths_to_offsets, offsets_to_lengths
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
from lodcli.kernels.tensor.nulls import NO_NULLS, Mask


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
        Two tensors with the levels from `level` on; either may have no sequences.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError, ShapeMismatchError: the mask is not one boolean per sequence.

    >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[3, 1, 2]]))
    >>> kept, rest = sequence_split_by_mask(words, [False, True, True])
    >>> kept, rest.data.tolist()
    (LoDTensor(3 int64, [[3], [4, 5]]), [0, 1, 2])
    """
    lod = tensor.lod
    number, places = _splitting_mask(tensor, mask, level)
    if not lod.levels or tensor.nulls.masks:
        items = places.nonzero()[0], (~places).nonzero()[0]
        return take_known(tensor, items[0], number), take_known(tensor, items[1], number)
    true, false = _found(lod, places, number)
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
        tensor, mask, level: as passed to the op; of the tensor only its index and shape are read.

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as `sequence_split_by_mask`; or a
            gradient has another shape or index than its part.
    """
    number, places = _splitting_mask(tensor, mask, level)
    found = _found(tensor.lod, places, number)
    flows = upstreams_of(upstream, tensor.row_shape, "sequence_split_by_mask_grad", found)
    _, bounds = _merged(places, found[0].bounds, found[1].bounds)
    return tensor._with_rows(rows_in_turn(flows, bounds))


@types_explained
def sequence_merge_by_mask(
    true: LoDTensor, false: LoDTensor, mask: npt.ArrayLike, above: LoD | None = None
) -> LoDTensor:
    """Return two parts as one batch: the inverse of `sequence_split_by_mask`.

    Args:
        true: the sequences (or rows, without levels) of the positions where `mask` is true.
        false: those of the other positions; the same row shape, dtype and number of levels.
        mask: (S,) or (S, 1) booleans.
        above: the levels above those of the parts, which `sequence_split_by_mask` left out; its
            finest level counts S sequences.

    Raises:
        ShapeMismatchError: the parts do not match, or their numbers of sequences are not those of
            true and false values in `mask`.
        InvalidLoDError: `above` counts another number of sequences.

    >>> sequence_merge_by_mask(
    ...     LoDTensor(np.array([7, 8]), LoD.from_lengths([[2]])),
    ...     LoDTensor(np.array([5]), LoD.from_lengths([[1]])),
    ...     mask=[False, True],
    ... )
    LoDTensor(3 int64, [[5], [7, 8]])
    """
    parts = LoDTensor._agreeing([true, false])
    levels, bounds = _merged_levels(mask, *parts)
    rows = rows_in_turn((parts[0].data, parts[1].data), bounds)
    names = true.lod.names if above is None else (*above.names, *true.lod.names)
    return parts[0]._part(rows, LoD._trusted(_under(above, levels), names), NO_NULLS)


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
        true, false, mask, above: as passed to the op; of the parts only their indexes and shapes
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
    levels, bounds = _merged_levels(mask, true, false)
    flow = upstream_of(upstream, (count, *true.row_shape), op, _under(above, levels))
    of_true, of_false = rows_out_of_turn(flow, bounds)
    return true._with_rows(of_true), false._with_rows(of_false)


def _under(above: LoD | None, below: Sequence[Offsets]) -> Sequence[Offsets]:
    """Return the levels of `above`, if any, and those of the parts; checks that they fit."""
    if above is None or not above.levels:
        return below
    levels = (*above.levels, *below)
    check_chain(levels)
    return levels


def _merged_levels(
    mask: npt.ArrayLike, true: LoDTensor, false: LoDTensor
) -> tuple[list[Offsets], Sequence[Offsets]]:
    """Return the levels of two merged parts, and the ranges of rows that alternate."""
    indexes = true.lod, false.lod
    if not indexes[0].levels:
        rows = np.arange(true.rows + 1), np.arange(false.rows + 1)
        return [], _merged(_checked_mask(mask, true.rows + false.rows), *rows)[1]
    one, two = indexes[0].levels[0], indexes[1].levels[0]
    offsets, bounds = _merged(_checked_mask(mask, one.size + two.size - 2), one, two)
    lower, bounds = levels_in_turn(indexes, bounds, 1)
    return [offsets, *lower], bounds


def _merged(places: Mask, true: Offsets, false: Offsets) -> tuple[Offsets, Sequence[Offsets]]:
    """Dispatch `segment_merged`; raise ShapeMismatchError if it returns None."""
    found = on("auto", segment_merged, size_bytes=16 * places.size)(places, true, false)
    if found is None:
        raise ShapeMismatchError(
            f"the mask is true for {np.count_nonzero(places)} sequences, the true part has "
            f"{true.size - 1}"
        )
    return found


def _found(lod: LoD, places: Mask, number: int) -> list[FoundItems]:
    """Return the items of a level where the mask is true, and those where it is false."""
    if not lod.levels:
        return [find_items(lod, places.nonzero()[0]), find_items(lod, (~places).nonzero()[0])]
    split = on("auto", segment_split, size_bytes=16 * places.size)
    true, false = split(places, lod.levels[number])
    return [found_below(lod, number, *true), found_below(lod, number, *false)]


def _splitting_mask(tensor: LoDTensor, mask: npt.ArrayLike, level: int | str) -> tuple[int, Mask]:
    """Return the number of a level, and a mask of its sequences, or of rows if there is none."""
    levels = tensor.lod.levels
    number = tensor.lod.level(level) if levels or level != 0 else 0
    return number, _checked_mask(mask, levels[number].size - 1 if levels else tensor.rows)


def _checked_mask(mask: npt.ArrayLike, count: int) -> Mask:
    array = on_host(mask, "mask")
    if array.shape == (count,) and array.dtype.kind == "b":  # fast path
        return array
    if array.dtype.kind != "b" and array.size:
        raise InvalidDataError(f"a mask holds booleans, found {array.dtype}")
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        raise InvalidDataError(f"a mask is (S,) or (S, 1), found {array.shape}")
    if array.shape[0] != count:
        raise ShapeMismatchError(f"mask: expected {count} booleans, found {array.shape[0]}")
    return array.reshape(-1).astype(np.bool_, copy=False)


# -- arrays ----------------------------------------------------------------------------


def segment_merged(
    mask: Mask, true: Offsets, false: Offsets
) -> tuple[Offsets, tuple[Offsets, Offsets]] | None:
    """Return the offsets of two parts merged by a mask, and the items of each before each sequence.

    Args:
        mask: (S,), S is the number of sequences of both parts together.
        true, false: the offsets of the parts.

    Returns:
        (S+1,) offsets of the result, and (S+1,) for each part: the number of its items before each
        sequence of the result. None if the number of true values is not that of the sequences of
        `true`.

    >>> mask, true, false = np.array([False, True, True]), np.array([0, 2, 3]), np.array([0, 4])
    >>> offsets, bounds = segment_merged(mask, true, false)
    >>> offsets.tolist(), [each.tolist() for each in bounds]
    ([0, 4, 6, 7], [[0, 0, 2, 3], [0, 4, 4, 4]])
    """
    if np.count_nonzero(mask) != true.size - 1:
        return None
    trues = lengths_to_offsets(mask.view(np.int8).astype(np.int64), level=0)
    before = true[trues], false[np.arange(trues.size) - trues]
    lengths = offsets_to_lengths(before[0]) + offsets_to_lengths(before[1])
    return lengths_to_offsets(lengths, level=0), before


def segment_split(
    mask: Mask, offsets: Offsets
) -> tuple[tuple[Offsets, Offsets], tuple[Offsets, Offsets]]:
    """Return `segment_pick` of the items where a mask is true, and of the others.

    >>> (begins, bounds), _ = segment_split(np.array([False, True, True]), np.array([0, 2, 5, 6]))
    >>> begins.tolist(), bounds.tolist()
    ([2, 5], [0, 3, 4])
    """
    return (
        segment_pick(offsets, mask.nonzero()[0]),
        segment_pick(offsets, (~mask).nonzero()[0]),
    )
