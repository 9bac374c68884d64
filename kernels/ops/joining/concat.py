"""The i-th sequences of several tensors joined to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.common import result_array, segments, upstream_of
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


def sequence_concat(
    tensors: Sequence[LoDTensor], *, out: Array | None = None, backend: Backend = "auto"
) -> LoDTensor:
    """Return the i-th finest sequences of all tensors joined, in the order given.

    Args:
        tensors: one or more, of equal dtype, row shape and number of finest sequences;
            levels above the finest must be equal, and stay.
        out: where the rows are written, of the result's shape and dtype; by default a new
            array. It may not share memory with what is read.
        backend: "numpy", "numba" or "auto".

    Raises:
        SelectionError: a tensor without levels.
        ShapeMismatchError: they do not fit each other, or there are none; `out` has another
            shape.
        InvalidDataError: `out` does not fit otherwise.

    >>> a, b = LoDTensor(np.array([1, 2, 3]), [[2, 1]]), LoDTensor(np.array([8, 9]), [[1, 1]])
    >>> sequence_concat([a, b])
    LoDTensor(5 int64, [[1, 2, 8], [3, 9]])
    >>> sequence_concat([a, b]).data.tolist()
    [1, 2, 8, 3, 9]
    """
    offsets = _checked(tensors)
    size = sum(tensor.nbytes for tensor in tensors)
    kernel = on(backend, segment_concat, size_bytes=size)
    first = tensors[0].lod
    total = sum(offsets[1:], offsets[0])
    rows = kernel([tensor.data for tensor in tensors], offsets, out=out)
    return LoDTensor(rows, LoD._trusted((*first.levels[:-1], total), first.names))


def sequence_concat_grad(
    upstream: npt.ArrayLike, lods: Sequence[LoD], *, backend: Backend = "auto"
) -> list[Array]:
    """Return the gradient of `sequence_concat` for the rows of each tensor, by their indexes."""
    offsets = [lod.levels[-1] for lod in lods]
    flow = as_array(upstream)
    rows = sum(int(each[-1]) for each in offsets)
    flow = upstream_of(flow, (rows, *flow.shape[1:]), "sequence_concat_grad")
    return on(backend, segment_concat_grad, size_bytes=flow.nbytes)(flow, offsets)


def _checked(tensors: Sequence[LoDTensor]) -> list[Offsets]:
    op = "sequence_concat"
    if not tensors:
        raise ShapeMismatchError(f"{op}: no tensor given")
    first = tensors[0]
    offsets = [segments(tensor, -1, op) for tensor in tensors]
    for position, tensor in enumerate(tensors):
        for what in ("row_shape", "dtype"):
            if getattr(tensor, what) != getattr(first, what):
                raise ShapeMismatchError(
                    f"{op}: {what} of part 0 is {getattr(first, what)}, "
                    f"of part {position} {getattr(tensor, what)}"
                )
        if offsets[position].size != offsets[0].size:
            raise ShapeMismatchError(
                f"{op}: part 0 has {offsets[0].size - 1} sequences, "
                f"part {position} {offsets[position].size - 1}"
            )
        found = first.lod.without_finest().difference(tensor.lod.without_finest())
        if found is not None:
            raise ShapeMismatchError(f"{op}: levels above of part {position} differ: {found}")
    return offsets


def joined_ranges(offsets: Sequence[Offsets]) -> tuple[Offsets, Offsets]:
    """Return where each part of each sequence lies: its row in all parts put end to end.

    Returns:
        (S * P,) starts and (S * P + 1,) offsets in the result, sequence by sequence.
    """
    before = np.cumsum([0, *(int(each[-1]) for each in offsets)])[:-1]
    starts = np.stack([each[:-1] + shift for each, shift in zip(offsets, before, strict=True)], 1)
    lengths = np.stack([np.diff(each) for each in offsets], 1)
    return starts.reshape(-1), lengths_to_offsets(lengths.reshape(-1), level=0)


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """Return the rows of segment s of every part, for s = 0, 1, ..."""
    rows = ranges(*joined_ranges(offsets))
    result = result_array(out, (rows.size, *data[0].shape[1:]), data[0].dtype, *data)
    result[...] = np.concatenate(data)[rows]
    return result


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """Return the rows of each part again: the inverse of `segment_concat`."""
    back = np.empty_like(upstream)
    back[ranges(*joined_ranges(offsets))] = upstream
    return np.split(back, np.cumsum([int(each[-1]) for each in offsets])[:-1])
