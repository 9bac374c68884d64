"""Reverses sequences: their rows, or the whole items of an upper level."""

from __future__ import annotations

from functools import partial

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import moved, segments
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.ops.slicing.slice import segment_slice
from lodcli.kernels.ops.upstream import Upstream, upstream_of, without_values
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.gather import take_items, with_nulls
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_reverse(
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    items: bool = False,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every sequence of a level in reverse order; the op is its own inverse.

    Args:
        tensor: data (N, ...), any dtype, at least one level. Nulls are kept; with `out` they are
            an error.
        level: the level whose sequences are reversed; by default the finest.
        items: reverse the order of the items, each of which stays unchanged (the sentences of
            an article from the last to the first, with their words in order); otherwise
            reverse all rows of a sequence, and the lengths of the levels below.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError, InvalidDataError: `out` does not fit.

    >>> sequence_reverse(LoDTensor(np.array([1, 2, 3]), [[2, 1]])).data.tolist()
    [2, 1, 3]
    """
    offsets = segments(tensor, level, "sequence_reverse")
    lod, number = tensor.lod, tensor.lod.level(level)
    whole = items and number < lod.n_levels - 1
    if tensor.nulls.masks and out is None:
        turn = partial(sequence_reverse, level=number, items=items, backend=backend)
        return with_nulls(tensor, number, turn, whole=whole)
    if whole:
        return _items_reversed(tensor, number, out, backend)
    kernel = on(backend, segment_reverse, size_bytes=tensor.nbytes)
    rows = kernel(tensor.data, offsets, out=out)
    levels, within = [*lod.levels[: number + 1]], lod.levels[number]
    for lower in lod.levels[number + 1 :]:
        lengths = offsets_to_lengths(lower)[ranges_backwards(within)]
        levels.append(lengths_to_offsets(lengths, level=0))
        within = lower[within]
    same = number == lod.n_levels - 1
    return moved(tensor, rows, lod if same else LoD._trusted(levels, lod.names))


@types_explained
def sequence_reverse_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    *,
    level: int | str = -1,
    items: bool = False,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_reverse`: rows in the order of `tensor`.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, level, items: as passed to the op; of the tensor only its index and shape are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `upstream` has another shape or index than the result.

    >>> words = LoDTensor(np.zeros(3), [[2, 1]])
    >>> sequence_reverse_grad([1.0, 2.0, 3.0], words).data.tolist()
    [2.0, 1.0, 3.0]
    """
    op, lod = "sequence_reverse_grad", tensor.lod
    segments(tensor, level, op)
    turned = lod
    if lod.level(level) < lod.n_levels - 1:
        # The expected index of `upstream` is the reversed index of the tensor.
        bare = without_values(tensor)
        turned = sequence_reverse(bare, level=level, items=items, backend="numpy").lod
    flow = upstream_of(upstream, tensor.data.shape, op, turned)
    back = sequence_reverse(
        LoDTensor._made(flow, turned), level=level, items=items, backend=backend
    )
    return tensor._with_rows(back.data)


def _items_reversed(
    tensor: LoDTensor, number: int, out: Array | None, backend: Backend
) -> LoDTensor:
    lod = tensor.lod
    order = ranges_backwards(lod.levels[number])
    bare = LoDTensor(np.empty((tensor.rows, 0), np.uint8), lod.below(number))
    taken = take_items(bare, order).lod
    starts = lod.absolute(number + 1)[order]
    kernel = on(backend, segment_slice, size_bytes=tensor.nbytes)
    rows = kernel(tensor.data, starts, taken.absolute(0), out=out)
    index = LoD._trusted((*lod.levels[: number + 1], *taken.levels), lod.names)
    return moved(tensor, rows, index, whole=True)


def ranges_backwards(offsets: Offsets) -> Offsets:
    """Return the numbers offsets[s+1]-1 down to offsets[s], for each s."""
    forward = ranges(np.zeros(offsets.size - 1, np.int64), offsets)
    return np.repeat(offsets[1:] - 1, offsets_to_lengths(offsets)) - forward


def segment_reverse(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return the rows of every segment backwards: (N, ...) to (N, ...)."""
    result = result_array(out, data.shape, data.dtype, data)
    result[...] = data[ranges_backwards(offsets)]
    return result
