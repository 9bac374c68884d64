"""The values of every sequence in rows of another width."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.lod import LoD
from lodcli.kernels.ops.common import segments
from lodcli.kernels.tensor import LoDTensor


def sequence_reshape(tensor: LoDTensor, new_dim: int) -> LoDTensor:
    """Return every finest sequence in rows of `new_dim` values.

    Its gradient is the same with the old width. A view where the data is contiguous.

    Args:
        tensor: data (N, D), any dtype, at least one level; levels above are kept.
        new_dim: the new width; every sequence's length * D must be a multiple of it.

    Raises:
        SelectionError: no level.
        InvalidDataError: a width below 1.
        ShapeMismatchError: rows of another rank, or a sequence that does not divide.

    >>> words = LoDTensor(np.arange(6).reshape(6, 1), [[4, 2]])
    >>> sequence_reshape(words, 2).data.tolist()
    [[0, 1], [2, 3], [4, 5]]
    """
    op = "sequence_reshape"
    offsets = segments(tensor, -1, op)
    if len(tensor.row_shape) != 1:
        raise ShapeMismatchError(f"{op}: expected data (N, D), found {tensor.data.shape}")
    if new_dim < 1:
        raise InvalidDataError(f"{op}: new_dim must be at least 1, found {new_dim}")
    values = offsets * tensor.row_shape[0]
    left = np.diff(values) % new_dim
    if left.any():
        s = int(np.flatnonzero(left)[0])
        raise ShapeMismatchError(
            f"{op}: sequence {s} has {values[s + 1] - values[s]} values, "
            f"no whole number of rows of {new_dim}"
        )
    lod = LoD((*tensor.lod.levels[:-1], values // new_dim), tensor.lod.names)
    return LoDTensor(tensor.data.reshape(int(values[-1]) // new_dim, new_dim), lod)
