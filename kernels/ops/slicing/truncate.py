"""The first or the last items of every sequence."""

from __future__ import annotations

from typing import Literal

import numpy as np

from lodcli.kernels.errors import OptionError
from lodcli.kernels.index.checks import Offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import MOST_ITEMS, require_at_least
from lodcli.kernels.ops.slicing.slice import sequence_slice, sequence_slice_grad
from lodcli.kernels.ops.upstream import Upstream
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Side = Literal["first", "last"]


@types_explained
def sequence_truncate(
    tensor: LoDTensor,
    length: int,
    *,
    keep: Side = "first",
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every sequence cut to at most `length` items.

    Args:
        tensor: data (N, ...), any dtype, at least one level. Nulls are kept.
        length: maximum number of items of a sequence, 0 or more.
        keep: which items of a longer sequence are kept, the "first" or the "last".
        level: the level whose sequences are cut, by default the finest; its items are rows, or
            sequences of the next level.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The remaining rows, same dtype, under as many levels.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: `length` is negative, or `keep` is invalid.

    >>> words = LoDTensor(np.array([1, 2, 3, 4]), [[3, 1]])
    >>> sequence_truncate(words, 2, keep="last").data.tolist()
    [2, 3, 4]
    """
    offset, count = _cut(tensor.lod, length, keep, level)
    return sequence_slice(tensor, offset, count, level=level, backend=backend)


@types_explained
def sequence_truncate_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    length: int,
    *,
    keep: Side = "first",
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_truncate` for `tensor`: zeros for the rows cut off.

    Args:
        upstream: (rows left, ...), the gradient of the result.
        tensor, length, keep, level: as passed to the op; of the tensor only its index and shape
            are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.
    """
    offset, count = _cut(tensor.lod, length, keep, level)
    return sequence_slice_grad(upstream, tensor, offset, count, level=level, backend=backend)


def _cut(lod: LoD, length: int, keep: Side, level: int | str) -> tuple[Offsets, Offsets]:
    require_at_least(length, 0, "length")
    if keep not in ("first", "last"):
        raise OptionError(f"keep must be 'first' or 'last', found {keep!r}")
    offsets = lod.levels[lod.level(level)]
    cut = on("auto", segment_cut, size_bytes=offsets.nbytes)
    return cut(offsets, min(length, MOST_ITEMS), keep == "last")


def segment_cut(offsets: Offsets, length: int, last: bool) -> tuple[Offsets, Offsets]:
    """Return the slice of the first (or last) items of each segment: its start and length.

    Args:
        offsets: (S+1,).
        length: maximum number of items.
        last: keep the last items instead of the first.

    Returns:
        (S,) starts, counted inside the segment, and (S,) lengths.

    >>> [part.tolist() for part in segment_cut(np.array([0, 3, 4]), 2, True)]
    [[1, 0], [2, 1]]
    """
    lengths = offsets_to_lengths(offsets)
    count = np.minimum(lengths, length)
    return (lengths - count if last else np.zeros(count.size, np.int64)), count
