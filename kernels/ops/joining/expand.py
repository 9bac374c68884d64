"""Repeated sequences and rows: broadcasts one row per sequence, or copies blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.errors import SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.items import find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import chosen_level, moved, segment_numbers, segments
from lodcli.kernels.ops.joining.windows import segment_add
from lodcli.kernels.ops.pooling.pool import segment_sum
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.ops.slicing.slice import segment_slice
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_expand(
    x: LoDTensor,
    y: LoDTensor,
    *,
    ref_level: int | str = -1,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every sequence of `x`, or every row of a plain `x`, repeated by the lengths of `y`.

    Args:
        x: data (N, ...), any dtype, with one level or none.
        y: a tensor; the lengths of its `ref_level`, in items of the next level, are the counts. Its
            rows are not read. A count of 0 drops the sequence.
        ref_level: a level of `y`: -1, the finest, 0 or more, or a name.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        A plain tensor if `x` is one; else a tensor with one level. Each copy is a sequence, and the
        copies of a sequence are next to each other.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `x` has more than one level, or another number of sequences than there
            are counts; `out` has another shape.
        InvalidDataError: `out` has another dtype or layout, is read-only or overlaps an input.

    >>> x = LoDTensor(np.array([1, 2, 3]), [[2, 1]])
    >>> sequence_expand(x, LoDTensor(np.zeros(3), [[2, 1]])).data.tolist()
    [1, 2, 1, 2, 3]
    """
    starts, bounds, levels = _copies(x, y, ref_level)
    if starts is None:
        rows = on(backend, segment_broadcast, size_bytes=x.nbytes)(x.data, bounds, out=out)
    else:
        rows = on(backend, segment_slice, size_bytes=x.nbytes)(x.data, starts, bounds, out=out)
    return moved(x, rows, LoD._trusted(levels, x.lod.names), whole=True)


@types_explained
def sequence_expand_grad(
    upstream: Upstream,
    x: LoDTensor,
    y: LoDTensor,
    *,
    ref_level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_expand` for `x`: the sum over the copies.

    Args:
        upstream: the gradient of the result.
        x, y, ref_level: as passed to the op; their rows are not read. `y`, of which only the index
            matters, has no gradient.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `x`, the dtype of `upstream`.

    Raises:
        SelectionError, ShapeMismatchError: as `sequence_expand`; or `upstream` has another
            shape or index than the result.
    """
    starts, bounds, levels = _copies(x, y, ref_level)
    shape = (int(bounds[-1]), *x.row_shape)
    flow = upstream_of(upstream, shape, "sequence_expand_grad", levels)
    if starts is None:
        back = _sums_of_copies(flow, bounds, backend)
    else:
        add = on(backend, segment_add, size_bytes=flow.nbytes)
        back = add(flow, starts, bounds, x.rows)
    return x._with_rows(back)


def _copies(
    x: LoDTensor, y: LoDTensor, ref_level: int | str
) -> tuple[Offsets | None, Offsets, Sequence[Offsets]]:
    """Return the first rows of the copied sequences, their offsets, and the levels of the result.

    The first rows are None if each sequence is one row: then copies of a row are adjacent.
    """
    op = "sequence_expand"
    segments(y, ref_level, f"{op}, y")
    if not isinstance(ref_level, str) and ref_level < -1:
        # As in PaddlePaddle. Other ops accept any negative number.
        raise SelectionError(f"{op}: ref_level is -1, 0 or more, or a name; found {ref_level}")
    # Prefix sums of the counts, which are also the offsets of the copies of single rows.
    often = y.lod.levels[y.lod.level(ref_level)]
    if x.lod.n_levels > 1:
        raise ShapeMismatchError(f"{op}: x may have one level, found {x.lod.n_levels}")
    count = often.size - 1
    if len(x) != count:
        what = "sequences" if x.lod.n_levels else "rows"
        raise ShapeMismatchError(f"{op}: x has {len(x)} {what}, y {count} sequences")
    if not x.lod.n_levels:
        return None, often, ()
    if x.rows == count and x.lod.ones():
        return None, often, (np.arange(often[-1] + 1),)
    found = find_items(x.lod, segment_numbers(often))
    return found.starts, found.bounds, found.levels


@types_explained
def sequence_expand_as(
    x: LoDTensor,
    y: LoDTensor,
    *,
    level: int | str | None = None,
    out: Array | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return row s of `x` for every row of sequence s of `y`, under the index of `y`.

    Args:
        x: data (S, ...), any dtype; its levels are ignored.
        y: S sequences in `level`; its rows are not read.
        level: a level of `y`; by default the only one.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Raises:
        SelectionError: there is no such level, or there are several and none is chosen.
        ShapeMismatchError: `x` does not have S rows; `out` has another shape.
        InvalidDataError: `out` has another dtype or layout, is read-only or overlaps an input.

    >>> x = LoDTensor(np.array([7, 8]))
    >>> sequence_expand_as(x, LoDTensor(np.zeros(3), [[1, 2]])).data.tolist()
    [7, 8, 8]
    """
    offsets = _targets(x, y, level, "sequence_expand_as")
    size = x.nbytes // max(1, x.rows) * y.rows
    kernel = on(backend, segment_broadcast, size_bytes=size)
    y.refuse_nulls("sequence_expand_as")
    return moved(x, kernel(x.data, offsets, out=out), y.lod)


@types_explained
def sequence_expand_as_grad(
    upstream: Upstream,
    x: LoDTensor,
    y: LoDTensor,
    *,
    level: int | str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_expand_as` for `x`: sums over the sequences of `y`.

    Args:
        upstream: the gradient of the result.
        x, y, level: as passed to the op; their rows are not read. `y`, of which only the index
            matters, has no gradient.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (S, ...) under the index of `x`, the dtype of `upstream`.

    Raises:
        SelectionError, ShapeMismatchError: as `sequence_expand_as`; or `upstream` has another
            shape or index than the result.
    """
    op = "sequence_expand_as_grad"
    offsets = _targets(x, y, level, op)
    flow = upstream_of(upstream, (y.rows, *x.row_shape), op, y.lod)
    return x._with_rows(_sums_of_copies(flow, offsets, backend))


def _targets(x: LoDTensor, y: LoDTensor, level: int | str | None, op: str) -> Offsets:
    """Return the offsets of the rows of `y` that each row of `x` is copied to."""
    offsets = y.lod.absolute(chosen_level(y.lod, level, f"{op}, y"))
    if x.rows != offsets.size - 1:
        raise ShapeMismatchError(f"{op}: x has {x.rows} rows, y {offsets.size - 1} sequences")
    return offsets


def _sums_of_copies(upstream: Array, offsets: Offsets, backend: Backend) -> Array:
    """Return the gradient of `segment_broadcast` for its data, in the dtype of `upstream`."""
    sums = on(backend, segment_sum, size_bytes=upstream.nbytes)(upstream, offsets)
    return sums.astype(upstream.dtype, copy=False)


def segment_broadcast(data: Array, offsets: Offsets, *, out: Array | None = None) -> Array:
    """Return row s of `data` for every row of segment s: (S, ...) to (N, ...)."""
    result = result_array(out, (int(offsets[-1]), *data.shape[1:]), data.dtype, data)
    result[...] = np.repeat(data, offsets_to_lengths(offsets), axis=0)
    return result
