"""Splits a batch in two by a mask, and merges the parts.

Where PaddlePaddle loses rows beside an empty sequence, these keep them: the two are
exact inverses for every tensor and mask.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Offsets, check_chain, lengths_to_offsets
from lodcli.kernels.index.items import find_items
from lodcli.kernels.index.lod import LoD, require_same_depth
from lodcli.kernels.ops.arguments import require_shape
from lodcli.kernels.ops.joining.concat import levels_in_turn, rows_in_turn, rows_out_of_turn
from lodcli.kernels.ops.upstream import Upstream, upstream_of, upstreams_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.gather import take_known
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
    true, false, _ = _places(tensor, mask, level)
    number = tensor.lod.level(level) if tensor.lod.levels else 0
    return take_known(tensor, true, number), take_known(tensor, false, number)


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
    true, false, places = _places(tensor, mask, level)
    found = [find_items(tensor.lod, items, level) for items in (true, false)]
    flows = upstreams_of(upstream, tensor.row_shape, "sequence_split_by_mask_grad", found)
    bounds = [part.bounds[turn] for part, turn in zip(found, _turns(places), strict=True)]
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
    levels, bounds = levels_in_turn([one.lod for one in parts], _turns(places))
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
    indexes = (true.lod, false.lod)
    require_same_depth(indexes)
    levels, bounds = levels_in_turn(indexes, _turns(_merging_mask(true, false, mask)))
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


def _turns(places: Mask) -> tuple[Offsets, Offsets]:
    return on("auto", segment_turns_by_mask, size_bytes=16 * places.size)(places)


def _places(
    tensor: LoDTensor, mask: npt.ArrayLike, level: int | str
) -> tuple[Offsets, Offsets, Mask]:
    """Return the items where the mask is true, the others, and the mask as an array."""
    lod = tensor.lod
    count = lod.count(level) if lod.n_levels or level != 0 else tensor.rows
    true = _checked_mask(mask, count)
    return true.nonzero()[0], (~true).nonzero()[0], true


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
    return array.reshape(-1).astype(np.bool_, copy=False)


# -- arrays ----------------------------------------------------------------------------


def segment_turns_by_mask(mask: Mask) -> tuple[Offsets, Offsets]:
    """Return how many of a mask are true, and how many are false, before each place: (S+1,) each.

    >>> [part.tolist() for part in segment_turns_by_mask(np.array([False, True, True]))]
    [[0, 0, 1, 2], [0, 1, 1, 1]]
    """
    true = lengths_to_offsets(mask.view(np.int8).astype(np.int64), level=0)
    return true, np.arange(true.size) - true
