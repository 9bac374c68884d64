"""Reshapes the values of every sequence to rows of another width."""

from __future__ import annotations

import operator

import numpy as np

from lodcli.kernels.errors import OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.lod import LevelNames, LoD
from lodcli.kernels.ops.arguments import MOST_ITEMS, chosen_level, moved, segments
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_reshape(
    tensor: LoDTensor, new_dim: int, *, level: int | str | None = None
) -> LoDTensor:
    """Return every sequence as rows of `new_dim` values; a view if the data is contiguous.

    Args:
        tensor: data (N, D), any dtype, at least one level.
        new_dim: the new width; every sequence's length * D must be a multiple of it.
        level: the level whose sequences are reshaped; by default the only one.

    Returns:
        Data (N * D / new_dim, new_dim), same dtype, under levels 0 to `level`.

    Raises:
        SelectionError: there is no such level, or there are several and none is chosen.
        InvalidDataError: `new_dim` is below 1.
        ShapeMismatchError: rows are not 1-D, or the values of a sequence do not fill whole rows.

    >>> words = LoDTensor(np.arange(6).reshape(6, 1), [[4, 2]])
    >>> sequence_reshape(words, 2).data.tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    levels, names = _reshaped(tensor, new_dim, level)
    rows = tensor.data.reshape(levels[-1].item(-1), new_dim)
    return moved(tensor, rows, LoD._trusted(levels, names))


def _reshaped(
    tensor: LoDTensor, new_dim: int, level: int | str | None
) -> tuple[tuple[Offsets, ...], LevelNames]:
    """Return the levels of the result, and their names."""
    op, lod = "sequence_reshape", tensor.lod
    number = chosen_level(lod, level, op)
    offsets = segments(tensor, number, op)
    if len(tensor.row_shape) != 1:
        raise ShapeMismatchError(f"{op}: expected data (N, D), found {tensor.data.shape}")
    if operator.index(new_dim) < 1:
        raise OptionError(f"{op}: new_dim must be at least 1, found {new_dim}")
    if new_dim >= MOST_ITEMS:
        raise OptionError(f"{op}: new_dim must be below 2**61, found {new_dim}")
    values = offsets * tensor.row_shape[0]
    # All lengths are multiples if and only if all offsets are.
    left = values % new_dim
    if np.count_nonzero(left):
        s = int((left != 0).argmax()) - 1
        raise ShapeMismatchError(
            f"{op}: sequence {s} has {values[s + 1] - values[s]} values, "
            f"no whole number of rows of {new_dim}"
        )
    return (*lod.levels[:number], values // new_dim), lod.names[: number + 1]


@types_explained
def sequence_reshape_grad(
    upstream: Upstream, tensor: LoDTensor, new_dim: int, *, level: int | str | None = None
) -> LoDTensor:
    """Return the gradient of `sequence_reshape` for `tensor`: the same values in its shape.

    Args:
        upstream: (N * D / new_dim, new_dim), the gradient of the result.
        tensor, new_dim, level: as passed to the op; of the tensor only its index and shape are
            read, of the level only that of a LoDTensor's index is checked.

    Returns:
        (N, D) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> words = LoDTensor(np.zeros((4, 1)), [[4]])
    >>> sequence_reshape_grad([[1.0, 2.0], [3.0, 4.0]], words, 2).data.tolist()
    [[1.0], [2.0], [3.0], [4.0]]
    """
    op, size = "sequence_reshape_grad", tensor.data.size
    if new_dim < 1 or size % new_dim:
        raise ShapeMismatchError(f"{op}: {size} values, not a multiple of {new_dim}")
    flow = upstream_of(
        *(upstream, (size // new_dim, new_dim), op), lambda: _reshaped(tensor, new_dim, level)[0]
    )
    # A copy: the caller may modify it, and read the upstream gradient again.
    return tensor._with_rows(flow.reshape(tensor.data.shape).copy())
