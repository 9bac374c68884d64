"""A part of every sequence."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.backends import Backend, on
from lodcli.kernels.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.lod import LoD
from lodcli.kernels.ops.common import per_segment, result_array, segments, upstream_of
from lodcli.kernels.take import ranges
from lodcli.kernels.tensor import LoDTensor


def sequence_slice(
    tensor: LoDTensor,
    offset: npt.ArrayLike,
    length: npt.ArrayLike,
    *,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return length[s] rows from row offset[s] on of every finest sequence.

    Args:
        tensor: data (N, ...), any dtype, at least one level; levels above are kept.
        offset: (S,) or (S, 1) integers, counted inside the sequence.
        length: (S,) or (S, 1) integers; 0 leaves an empty sequence.
        out: where the rows are written, of the result's shape and dtype; by default a new
            array. It may not share memory with what is read.
        backend: "numpy", "numba" or "auto".

    Raises:
        SelectionError: no level.
        ShapeMismatchError: not S numbers, or rows that the sequence has not; `out` has
            another shape.
        InvalidDataError: `out` does not fit otherwise.

    >>> words = LoDTensor(np.array([1, 2, 3, 4]), [[3, 1]])
    >>> sequence_slice(words, [1, 0], [2, 1]).data.tolist()
    [2, 3, 4]
    """
    offsets = segments(tensor, -1, "sequence_slice")
    starts, bounds = _part(offsets, offset, length)
    kernel = on(backend, segment_slice, size_bytes=tensor.nbytes)
    rows = kernel(tensor.data, starts, bounds, out=out)
    lod = tensor.lod
    return LoDTensor(rows, LoD((*lod.levels[:-1], bounds), lod.names))


def sequence_slice_grad(
    upstream: npt.ArrayLike, offset: npt.ArrayLike, length: npt.ArrayLike, lod: LoD
) -> Array:
    """Return the gradient of `sequence_slice` for its rows: zeros for those left out."""
    starts, bounds = _part(lod.levels[-1], offset, length)
    flow = np.asarray(upstream)
    flow = upstream_of(flow, (int(bounds[-1]), *flow.shape[1:]), "sequence_slice_grad")
    result = np.zeros((lod.rows or 0, *flow.shape[1:]), flow.dtype)
    result[ranges(starts, bounds)] = flow
    return result


def _part(
    offsets: Offsets, offset: npt.ArrayLike, length: npt.ArrayLike
) -> tuple[Offsets, Offsets]:
    """Return the first row of every part, and the offsets of the parts."""
    op, lengths = "sequence_slice", np.diff(offsets)
    first = per_segment(offset, lengths.size, "offset", op)
    count = per_segment(length, lengths.size, "length", op)
    # Not first + count > lengths: a huge number would overflow into a small one.
    wrong = (first < 0) | (count < 0) | (first > lengths) | (count > lengths - first)
    if wrong.any():
        s = int(wrong.argmax())
        raise ShapeMismatchError(
            f"{op}: sequence {s} has {lengths[s]} rows, no {count[s]} from row {first[s]} on"
        )
    return offsets[:-1] + first, lengths_to_offsets(count, level=0)


def segment_slice(
    data: Array, starts: Offsets, offsets: Offsets, *, out: Array | None = None
) -> Array:
    """Return rows starts[s] and on as segment s: offsets (S+1,) say how many."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    result[...] = data[ranges(starts, offsets)]
    return result
