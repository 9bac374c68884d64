"""Ops on sequences of ids: erase, enumerate."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.ops.arguments import (
    exact_ids,
    id_column,
    moved,
    recut,
    require_at_least,
    segment_numbers,
    segments,
)
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.exchange.units import in_unit
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_erase(
    tensor: LoDTensor, tokens: Iterable[int | str], *, backend: Backend = "auto"
) -> LoDTensor:
    """Return the sequences without the rows that hold one of `tokens`.

    Args:
        tensor: whole numbers, (N,) or (N, 1).
        tokens: ids to drop, also words of categories; ids beyond the dtype's range are ignored.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The remaining rows. The finest level shrinks, which may leave empty sequences;
        those above stay as they are.

    Raises:
        SelectionError: the tensor has no levels.
        InvalidDataError: the rows or the tokens are not single integers.

    >>> ids = LoDTensor(np.array([2, 7, 2, 5]), [[2, 1, 1]])
    >>> sequence_erase(ids, [2, 5])
    LoDTensor(1 int64, [[7], [], []])
    """
    offsets = segments(tensor, -1, "sequence_erase")
    ids = id_column(tensor, "sequence_erase")
    values = (in_unit(one, tensor.marks.unit) for one in tokens)
    unwanted = exact_ids(values, tensor.dtype, "sequence_erase")
    kept, bounds = on(backend, segment_erase, size_bytes=ids.nbytes)(ids, offsets, unwanted)
    return moved(tensor, kept.reshape(-1, *tensor.row_shape), recut(tensor.lod, -1, bounds))


@types_explained
def sequence_enumerate(
    tensor: LoDTensor,
    win_size: int,
    *,
    pad_value: int = 0,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return, for every id, the window that begins with it and has the next ids of its sequence.

    Args:
        tensor: whole numbers, (N,) or (N, 1).
        win_size: number of ids in a window, 1 or more.
        pad_value: the value of positions after the end of the sequence.
        level: the level of the sequences; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, win_size), same dtype, under the same index.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are not single integers, the window is below 1, or the dtype
            cannot hold `pad_value`.

    >>> ids = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_enumerate(ids, 2, pad_value=-1).data.tolist()
    [[1, 2], [2, -1], [3, -1]]
    """
    offsets = segments(tensor, level, "sequence_enumerate")
    ids = id_column(tensor, "sequence_enumerate")
    require_at_least(win_size, 1, "win_size")
    if not exact_ids([pad_value], tensor.dtype, "sequence_enumerate").size:
        raise InvalidDataError(f"pad_value {pad_value} does not fit {tensor.dtype}")
    run = on(backend, segment_enumerate, size_bytes=ids.nbytes * win_size)
    return tensor._with_rows(run(ids, offsets, win_size, pad_value))


# -- arrays ----------------------------------------------------------------------------


def segment_erase(ids: Array, offsets: Offsets, tokens: Array) -> tuple[Array, Offsets]:
    """Return the ids that are not in `tokens`, and the new offsets.

    Args:
        ids: (N,) integers.
        tokens: (K,) of the same dtype, sorted and unique.
    """
    return segment_compress(ids, offsets, np.isin(ids, tokens, invert=True))


def segment_compress(data: Array, offsets: Offsets, mask: Array) -> tuple[Array, Offsets]:
    """Return the rows where a mask is true, and the new offsets.

    Args:
        data: (N, ...).
        mask: (N,) booleans.
    """
    return data[mask], lengths_to_offsets(mask.astype(np.int64), level=0)[offsets]


def segment_enumerate(ids: Array, offsets: Offsets, win_size: int, pad_value: int) -> Array:
    """Return each id and those that follow in its segment: (N,) to (N, win_size)."""
    ends = offsets[1:][segment_numbers(offsets)]
    out = np.full((ids.size, win_size), pad_value, ids.dtype)
    for k in range(win_size):
        rows = np.flatnonzero(np.arange(ids.size) + k < ends)
        out[rows, k] = ids[rows + k]
    return out
