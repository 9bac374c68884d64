"""The i-th sequences of several tensors joined to one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import moved, segments
from lodcli.kernels.ops.rows import result_array
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS


@types_explained
def sequence_concat(
    tensors: Sequence[LoDTensor], *, out: Array | None = None, backend: Backend = "auto"
) -> LoDTensor:
    """Return a tensor whose i-th finest sequence joins the i-th sequences of all tensors.

    Args:
        tensors: one or more, of equal dtype, row shape and number of finest sequences. The levels
            above the finest must be equal, and so must units, such as times in ms.
        out: C-contiguous array for the result, of its shape and dtype; by default a new one. It
            may not share memory with the rows that are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Raises:
        SelectionError: a tensor has no levels.
        ShapeMismatchError: there are no tensors, or they do not match; `out` has another shape.
        InvalidDataError: `out` has another dtype or layout, is read-only or overlaps an input.

    >>> a, b = LoDTensor(np.array([1, 2, 3]), [[2, 1]]), LoDTensor(np.array([8, 9]), [[1, 1]])
    >>> sequence_concat([a, b])
    LoDTensor(5 int64, [[1, 2, 8], [3, 9]])
    >>> sequence_concat([a, b]).data.tolist()
    [1, 2, 8, 3, 9]
    """
    if any([tensor.marks is not NO_MARKS for tensor in tensors]):
        tensors = LoDTensor._agreeing(tensors)
    offsets = _checked(tensors, "sequence_concat")
    size = sum([tensor.nbytes for tensor in tensors])
    kernel = on(backend, segment_concat, size_bytes=size)
    rows = kernel([tensor.data for tensor in tensors], offsets, out=out)
    lod = LoD._trusted(_joined(tensors, offsets), tensors[0].lod.names)
    return moved(tensors[0], rows, lod, whole=True)


@types_explained
def sequence_concat_grad(
    upstream: Upstream, tensors: Sequence[LoDTensor], *, backend: Backend = "auto"
) -> tuple[LoDTensor, ...]:
    """Return the gradient of `sequence_concat` for each of the tensors.

    Args:
        upstream: the gradient of the result.
        tensors: as passed to the op; only their indexes and shapes are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        One tensor for each, under its index, the dtype of `upstream`.

    Raises:
        SelectionError, ShapeMismatchError: as `sequence_concat`; or `upstream` has another
            shape or index than the result.
    """
    op = "sequence_concat_grad"
    offsets = _checked(tensors, op)
    shape = (sum([tensor.rows for tensor in tensors]), *tensors[0].row_shape)
    flow = upstream_of(upstream, shape, op, lambda: _joined(tensors, offsets))
    parts = on(backend, segment_concat_grad, size_bytes=flow.nbytes)(flow, offsets)
    return tuple([one._with_rows(part) for one, part in zip(tensors, parts, strict=True)])


def _joined(tensors: Sequence[LoDTensor], offsets: Sequence[Offsets]) -> tuple[Offsets, ...]:
    """Return the levels of the result."""
    return (*tensors[0].lod.levels[:-1], sum(offsets[1:], offsets[0]))


def _checked(tensors: Sequence[LoDTensor], op: str) -> list[Offsets]:
    if not tensors:
        raise ShapeMismatchError(f"{op}: no tensor given")
    first = tensors[0]
    offsets = [segments(tensor, -1, op) for tensor in tensors]
    for position, tensor in enumerate(tensors[1:], 1):
        if tensor is first:
            continue
        for what, here, there in (
            ("row_shape", first.row_shape, tensor.row_shape),
            ("dtype", first.dtype, tensor.dtype),
        ):
            if here != there:
                raise ShapeMismatchError(
                    f"{op}: {what} of part 0 is {here}, of part {position} {there}"
                )
        if tensor.lod is first.lod:
            continue
        if offsets[position].size != offsets[0].size:
            raise ShapeMismatchError(
                f"{op}: part 0 has {offsets[0].size - 1} sequences, "
                f"part {position} {offsets[position].size - 1}"
            )
        if first.lod.n_levels == tensor.lod.n_levels == 1:
            continue
        found = first.lod.without_finest().difference(tensor.lod.without_finest())
        if found is not None:
            raise ShapeMismatchError(f"{op}: levels above of part {position} differ: {found}")
    return offsets


def joined_ranges(offsets: Sequence[Offsets]) -> tuple[Offsets, Offsets]:
    """Return the first row of each part of each sequence, in the concatenation of all tensors.

    Returns:
        (S * P,) starts and (S * P + 1,) offsets in the result, sequence by sequence.
    """
    before = np.cumsum([0, *(int(each[-1]) for each in offsets)])[:-1]
    starts = np.stack([each[:-1] + shift for each, shift in zip(offsets, before, strict=True)], 1)
    return starts.reshape(-1), segment_item_turns(offsets)


def segment_concat(
    data: Sequence[Array], offsets: Sequence[Offsets], *, out: Array | None = None
) -> Array:
    """Return the rows of segment s of every part, for s = 0, 1, ..."""
    rows = ranges(*joined_ranges(offsets))
    result = result_array(out, (rows.size, *data[0].shape[1:]), data[0].dtype, *data)
    result[...] = np.concatenate(data)[rows]
    return result


def segment_item_turns(levels: Sequence[Offsets]) -> Offsets:
    """Return the offsets of item 0 of several levels, then item 1 of each, and so on.

    >>> segment_item_turns([np.array([0, 1, 4]), np.array([0, 2, 2])]).tolist()
    [0, 1, 3, 6, 6]
    """
    lengths = np.stack([offsets_to_lengths(each) for each in levels], 1)
    return lengths_to_offsets(lengths.reshape(-1), level=0)


def segment_turns(
    levels: Sequence[Offsets], bounds: Sequence[Offsets]
) -> tuple[Offsets, Sequence[Offsets]]:
    """Return the offsets of interleaved items of several levels, and the ranges of their contents.

    Args:
        levels: the offsets of each part.
        bounds: (K+1,) for each part, its ranges of items, in the order of `segment_concat`.

    Returns:
        The offsets, and for each part (K+1,) its ranges in the units that the level counts.
    """
    lengths = segment_concat([offsets_to_lengths(each) for each in levels], bounds)
    inner = [each[those] for each, those in zip(levels, bounds, strict=True)]
    return lengths_to_offsets(lengths, level=0), inner


def levels_in_turn(
    indexes: Sequence[LoD], bounds: Sequence[Offsets], level: int
) -> tuple[list[Offsets], Sequence[Offsets]]:
    """Return the levels of tensors with interleaved items of a level, and their ranges of rows.

    Args:
        indexes: of the tensors; all have the same number of levels.
        bounds: (K+1,) for each tensor, ranges of items of `level`, or of rows if there is no such
            level: range 0 of every tensor is followed by range 1 of every tensor, and so on.

    Returns:
        The offsets of `level` and the levels below it, and `bounds` in rows.
    """
    levels = []
    for number in range(level, len(indexes[0].levels)):
        here = [one.levels[number] for one in indexes]
        offsets, bounds = on("auto", segment_turns, size_bytes=here[0].nbytes)(here, bounds)
        levels.append(offsets)
    return levels, bounds


def rows_in_turn(data: Sequence[Array], bounds: Sequence[Offsets]) -> Array:
    """Return the interleaved rows of tensors of equal dtypes; `bounds` are ranges of rows."""
    return on("auto", segment_concat, size_bytes=len(data) * data[0].nbytes)(data, bounds)


def rows_out_of_turn(rows: Array, bounds: Sequence[Offsets]) -> list[Array]:
    """Return the rows of each tensor: the inverse of `rows_in_turn`."""
    return on("auto", segment_concat_grad, size_bytes=rows.nbytes)(rows, bounds)


def segment_concat_grad(upstream: Array, offsets: Sequence[Offsets]) -> list[Array]:
    """Return the rows of each part: the inverse of `segment_concat`."""
    back = np.empty_like(upstream)
    back[ranges(*joined_ranges(offsets))] = upstream
    return np.split(back, np.cumsum([int(each[-1]) for each in offsets])[:-1])
