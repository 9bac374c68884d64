"""Split a batch in two by a mask, and merge the parts again.

Where PaddlePaddle loses rows beside an empty sequence, these keep them: the two are
exact inverses for every tensor and mask.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Mask = npt.NDArray[np.bool_]


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
    lod = tensor.lod
    count = lod.count(level) if lod.n_levels or level != 0 else tensor.rows
    true = _checked_mask(mask, count)
    return (
        take_items(tensor, np.flatnonzero(true), level),
        take_items(tensor, np.flatnonzero(~true), level),
    )


def sequence_split_by_mask_grad(
    true: LoDTensor,
    false: LoDTensor,
    mask: npt.ArrayLike,
    lod: LoD,
    level: int | str = 0,
) -> LoDTensor:
    """Return the gradient of `sequence_split_by_mask` with respect to its tensor.

    Args:
        true: gradient of the true part.
        false: gradient of the false part.
        mask: as in `sequence_split_by_mask`.
        lod: the index of the tensor that was split.
        level: as in `sequence_split_by_mask`.
    """
    merged = sequence_merge_by_mask(true, false, mask, lod.above(level) if lod.n_levels else lod)
    return LoDTensor(merged.data, lod)


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
    places = _checked_mask(mask, len(true) + len(false))
    wanted = int(places.sum())
    if wanted != len(true):
        raise ShapeMismatchError(
            f"the mask is true for {wanted} sequences, the true part has {len(true)}"
        )
    order = np.empty(places.size, np.int64)
    order[places] = np.arange(wanted)
    order[~places] = np.arange(wanted, places.size)
    merged = take_items(LoDTensor.concatenate([true, false]), order)
    if above is None or not above.n_levels:
        return merged
    levels, names = (*above.levels, *merged.lod.levels), (*above.names, *merged.lod.names)
    return LoDTensor(merged.data, LoD(levels, names))


def sequence_merge_by_mask_grad(
    upstream: LoDTensor, mask: npt.ArrayLike, level: int | str = 0
) -> tuple[LoDTensor, LoDTensor]:
    """Return the gradients of `sequence_merge_by_mask` with respect to its true and false part.

    Args:
        upstream: of the result.
        mask: as in `sequence_merge_by_mask`.
        level: the level of `upstream` that `mask` is about: the number of levels `above`.
    """
    return sequence_split_by_mask(upstream, mask, level)


def _checked_mask(mask: npt.ArrayLike, count: int) -> Mask:
    array = on_host(mask, "mask")
    if array.dtype != np.bool_ and array.size:
        raise InvalidDataError(f"a mask holds booleans, found {array.dtype}")
    if array.ndim not in (1, 2) or array.shape[1:] not in ((), (1,)):
        raise InvalidDataError(f"a mask is (S,) or (S, 1), found {array.shape}")
    if array.shape[0] != count:
        raise ShapeMismatchError(f"mask: expected {count} booleans, found {array.shape[0]}")
    return array.reshape(-1).astype(np.bool_, copy=False)
