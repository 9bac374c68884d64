"""A part of every sequence."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.items import FoundItems
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import chosen_level, moved, per_segment
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.gather import with_nulls
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Mask


@types_explained
def sequence_slice(
    tensor: LoDTensor,
    offset: npt.ArrayLike,
    length: npt.ArrayLike,
    *,
    level: int | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return, for every sequence s of a level, length[s] items starting at item offset[s].

    Args:
        tensor: data (N, ...), any dtype, S sequences in `level`. Nulls are kept; with `out` they
            are an error.
        offset: (S,) or (S, 1) integers, counted inside the sequence.
        length: (S,) or (S, 1) integers; 0 leaves an empty sequence.
        level: the level whose sequences are cut; its items are rows, or sequences of the next
            level. By default the only level.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The remaining rows, same dtype, under as many levels.

    Raises:
        SelectionError: there is no such level, or there are several and none is chosen.
        ShapeMismatchError: there are not S numbers, or a sequence lacks the items; `out` has
            another shape.
        InvalidDataError: `out` has another dtype or layout, is read-only or overlaps an input.

    >>> words = LoDTensor(np.array([1, 2, 3, 4]), [[3, 1]])
    >>> sequence_slice(words, [1, 0], [2, 1]).data.tolist()
    [2, 3, 4]
    """
    number = chosen_level(tensor.lod, level, "sequence_slice")
    whole = number < tensor.lod.n_levels - 1
    if tensor.nulls.masks and out is None:
        cut = partial(sequence_slice, offset=offset, length=length, level=number, backend=backend)
        return with_nulls(tensor, number, cut, whole=whole)
    part = _part(tensor.lod, offset, length, number, "sequence_slice", backend)
    kernel = on(backend, segment_slice, size_bytes=tensor.nbytes)
    rows = kernel(tensor.data, part.starts, part.bounds, out=out)
    return moved(tensor, rows, part.lod, whole=whole)


@types_explained
def sequence_slice_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    offset: npt.ArrayLike,
    length: npt.ArrayLike,
    *,
    level: int | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_slice` for `tensor`: zeros for the rows left out.

    Args:
        upstream: the gradient of the result.
        tensor, offset, length, level: as passed to the op; of the tensor only its index and shape
            are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, ShapeMismatchError: as `sequence_slice`; or `upstream` has another
            shape or index than the result.

    >>> words = LoDTensor(np.zeros(4), [[3, 1]])
    >>> sequence_slice_grad([5.0, 6.0, 7.0], words, [1, 0], [2, 1]).data.tolist()
    [0.0, 5.0, 6.0, 7.0]
    """
    op = "sequence_slice_grad"
    number = chosen_level(tensor.lod, level, op)
    part = _part(tensor.lod, offset, length, number, op, "auto")
    flow = upstream_of(upstream, (part.bounds.item(-1), *tensor.row_shape), op, part.levels)
    kernel = on(backend, segment_place, size_bytes=flow.nbytes)
    return tensor._with_rows(kernel(flow, part.starts, part.bounds, tensor.rows))


def _part(
    lod: LoD,
    offset: npt.ArrayLike,
    length: npt.ArrayLike,
    number: int,
    op: str,
    backend: Backend,
) -> FoundItems:
    """Return the slices of all sequences of level `number`; checks that they are in range."""
    offsets = lod.levels[number]
    first = per_segment(offset, offsets.size - 1, "offset", op)
    count = per_segment(length, offsets.size - 1, "length", op)
    # The index is always in main memory, even if the rows are on a GPU.
    kernel = on("auto" if backend == "cupy" else backend, segment_part, size_bytes=offsets.nbytes)
    starts, bounds, fits = kernel(offsets, first, count)
    if not fits:
        lengths = lod.lengths(number)
        s = int(_outside(lengths, first, count).argmax())
        what = "rows" if number == lod.n_levels - 1 else "items"
        raise ShapeMismatchError(
            f"{op}: sequence {s} has {lengths[s]} {what}, not {count[s]} from {first[s]} on"
        )
    levels = [*lod.levels[:number], bounds]
    # A slice of a sequence is one range of the items of each level below, and of the rows.
    for lower in lod.levels[number + 1 :]:
        items = ranges(starts, bounds)
        levels.append(lengths_to_offsets(offsets_to_lengths(lower)[items], level=0))
        starts, bounds = lower[starts], levels[-1][bounds]
    return FoundItems(levels, lod.names, starts, bounds)


def segment_part(offsets: Offsets, first: Offsets, count: Offsets) -> tuple[Offsets, Offsets, bool]:
    """Return the first item of count[s] items from first[s] on of every segment s.

    Returns:
        (S,) first items; (S+1,) offsets of the slices in the result; and whether all slices are in
        range: if not, the arrays are meaningless.
    """
    wrong = _outside(offsets_to_lengths(offsets), first, count)
    bounds = np.zeros(offsets.size, np.int64)
    np.cumsum(count, out=bounds[1:])
    return offsets[:-1] + first, bounds, not wrong.any()


def _outside(lengths: Offsets, first: Offsets, count: Offsets) -> Mask:
    # Not first + count > lengths: the sum may overflow.
    wrong: Mask = (first < 0) | (count < 0) | (first > lengths) | (count > lengths - first)
    return wrong


def segment_slice(
    data: Array, starts: Offsets, offsets: Offsets, *, out: Array | None = None
) -> Array:
    """Return offsets[s+1] - offsets[s] rows from row starts[s] on as segment s."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    rows = ranges(starts, offsets)
    if data.flags.c_contiguous:
        # Several times faster than data[rows], but it would copy all of strided data. "clip" avoids
        # a buffer for the result; all rows are in range.
        data.take(rows, axis=0, out=result, mode="clip")
    else:
        result[...] = data[rows]
    return result


def segment_place(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """Return `count` rows: segment s from row starts[s] on, zeros elsewhere.

    The inverse of `segment_slice`; segments must not overlap in the result.
    """
    result = np.zeros((count, *rows.shape[1:]), rows.dtype)
    result[ranges(starts, offsets)] = rows
    return result
