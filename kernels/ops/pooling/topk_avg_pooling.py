"""Averages of the k largest values in every row of a batch of matching matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import MOST_ITEMS, require_at_least, segments, working
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained, whole
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_topk_avg_pooling(
    tensor: LoDTensor,
    row: LoD,
    column: LoD,
    *,
    topks: Sequence[int],
    channel_num: int,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return, for each matrix row, channel and k, the sum of its k largest values over k.

    Sequence i holds channel_num matrices of r_i x c_i values, one channel after another,
    each row by row: value (channel, r, c) is its row (channel * r_i + r) * c_i + c. Result
    row r of sequence i holds at column channel * K + j the sum of the topks[j] largest
    values of row r of that channel, divided by topks[j] even where there are fewer.

    Args:
        tensor: one floating-point number per row, (N,) or (N, 1).
        row: its finest level has the numbers of matrix rows, r_i, as lengths.
        column: its finest level has the numbers of matrix columns, c_i.
        topks: the K numbers k, each 1 or more, in any order.
        channel_num: number of channels of every sequence, 1 or more.
        level: the level of the sequences in `tensor`; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (sum of r_i, channel_num * K) under the index `row`. A matrix without columns
        gives zeros. A NaN counts as smaller than any number.

    Raises:
        SelectionError: an index lacks the level.
        InvalidDataError, ShapeMismatchError: a sequence does not have channel_num * r_i * c_i
            rows, or a number is out of range.

    References:
        PaddlePaddle 1.8, sequence_topk_avg_pooling (there topks must ascend, and values
        below -10,000,000 are not found).

    >>> scores = LoDTensor(np.array([1.0, 5.0, 3.0, 0.0, 2.0, 2.0]), [[6]])
    >>> two, three = LoD.from_lengths([[2]]), LoD.from_lengths([[3]])
    >>> sequence_topk_avg_pooling(scores, two, three, topks=[1, 2], channel_num=1).data.tolist()
    [[5.0, 4.0], [2.0, 2.0]]
    """
    op = "sequence_topk_avg_pooling"
    given = _checked(tensor, row, column, topks, channel_num, level, op)
    out = on(backend, segment_topk_avg_pooling, size_bytes=tensor.nbytes)(*given)
    return LoDTensor(as_dtype(out, tensor.dtype), row)


@types_explained
def sequence_topk_avg_pooling_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    row: LoD,
    column: LoD,
    *,
    topks: Sequence[int],
    channel_num: int,
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_topk_avg_pooling` for `tensor`.

    Args:
        upstream: (sum of r_i, channel_num * K), the gradient of the result.
        tensor, row, column, topks, channel_num, level: as passed to the op.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        A tensor of the shape, dtype and index of `tensor`; of equal values, the first count as the
        largest.

    Raises:
        SelectionError, InvalidDataError, ShapeMismatchError: as the op; or `upstream` has
            another shape or index than the result.
    """
    op = "sequence_topk_avg_pooling_grad"
    given = _checked(tensor, row, column, topks, channel_num, level, op)
    shape = (row.rows or 0, channel_num * len(topks))
    flow = working(upstream_of(upstream, shape, op, row), op)
    run = on(backend, segment_topk_avg_pooling_grad, size_bytes=tensor.nbytes)
    grad = run(*given, grad=flow)
    return tensor._with_rows(as_dtype(grad.reshape(tensor.data.shape), tensor.dtype))


def _checked(
    tensor: LoDTensor,
    row: LoD,
    column: LoD,
    topks: Sequence[int],
    channel_num: int,
    level: int | str,
    op: str,
) -> tuple[Array, Offsets, Offsets, Offsets, Offsets, int]:
    """Return the checked arguments of `segment_topk_avg_pooling`."""
    offsets = segments(tensor, level, op)
    data = working(tensor.data, op)
    if tensor.row_shape not in ((), (1,)):
        raise InvalidDataError(f"{op} needs one value per row, found rows of {tensor.row_shape}")
    require_at_least(channel_num, 1, "channel_num")
    numbers = list(map(whole, topks))
    if not numbers:
        raise OptionError(f"{op} needs at least one number in topks")
    require_at_least(min(numbers), 1, "topks")
    if max(channel_num, *numbers) >= MOST_ITEMS:
        raise OptionError(
            f"{op}: channel_num and topks must be below 2**61, found {channel_num} and {numbers}"
        )
    rows, columns = row.levels[row.level(-1)], column.levels[column.level(-1)]
    for name, found in (("row", rows), ("column", columns)):
        if found.size != offsets.size:
            raise ShapeMismatchError(
                f"{op}: {offsets.size - 1} sequences, but {found.size - 1} in {name}"
            )
    fits = on("auto", segment_misfit, size_bytes=3 * offsets.nbytes)
    i = fits(offsets, rows, columns, channel_num)
    if i >= 0:
        raise ShapeMismatchError(
            f"{op}: sequence {i} has {offsets[i + 1] - offsets[i]} values, expected "
            f"{channel_num} x {rows[i + 1] - rows[i]} x {columns[i + 1] - columns[i]}"
        )
    return (
        data.reshape(tensor.rows),
        offsets,
        rows,
        columns,
        np.array(numbers, np.int64),
        channel_num,
    )


# -- arrays ----------------------------------------------------------------------------


def segment_misfit(
    offsets: Offsets, row_offsets: Offsets, column_offsets: Offsets, channel_num: int
) -> int:
    """Return the first segment without channel_num * rows * columns values; -1 if all have them."""
    shapes = offsets_to_lengths(row_offsets) * offsets_to_lengths(column_offsets)
    wrong = offsets_to_lengths(offsets) != channel_num * shapes
    return int(wrong.argmax()) if np.count_nonzero(wrong) else -1


@np.errstate(all="ignore")
def segment_topk_avg_pooling(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
) -> Array:
    """Return the averages, (N,) to (rows, channel_num * K).

    Args:
        offsets: (S+1,), of the values.
        row_offsets: (S+1,), whose lengths are the numbers of matrix rows.
        column_offsets: (S+1,), whose lengths are the numbers of matrix columns.
        topks: (K,).
    """
    out = np.zeros((int(row_offsets[-1]), channel_num, topks.size), data.dtype)
    for values, rows in _matrices(data, offsets, row_offsets, column_offsets, channel_num):
        largest = np.take_along_axis(values, _descending(values), axis=-1)[..., : topks.max()]
        sums = np.cumsum(largest, axis=-1)
        last = np.minimum(topks, sums.shape[-1]) - 1
        out[rows] = (sums[..., last] / topks.astype(data.dtype)).transpose(1, 0, 2)
    return out.reshape(len(out), channel_num * topks.size)


def _descending(values: Array) -> Offsets:
    """Return the indices that sort the values in descending order, stable, NaN last."""
    return np.argsort(-values, axis=-1, kind="stable")


def _matrices(
    data: Array, offsets: Offsets, row_offsets: Offsets, column_offsets: Offsets, channel_num: int
) -> Iterator[tuple[Array, slice]]:
    """Yield the values (channels, rows, columns) and result rows of each segment with columns."""
    for i in range(offsets.size - 1):
        rows = slice(int(row_offsets[i]), int(row_offsets[i + 1]))
        columns = int(column_offsets[i + 1] - column_offsets[i])
        if columns:
            part = data[offsets[i] : offsets[i + 1]]
            yield part.reshape(channel_num, rows.stop - rows.start, columns), rows


@np.errstate(all="ignore")
def segment_topk_avg_pooling_grad(
    data: Array,
    offsets: Offsets,
    row_offsets: Offsets,
    column_offsets: Offsets,
    topks: Offsets,
    channel_num: int,
    grad: Array,
) -> Array:
    """Return the gradient for the values, (N,). Of equal values the first are the largest.

    Args:
        grad: of the result, (rows, channel_num * K).
    """
    out = np.zeros(data.shape, grad.dtype)
    shares = grad.reshape(len(grad), channel_num, topks.size) / topks.astype(grad.dtype)
    results = _matrices(out, offsets, row_offsets, column_offsets, channel_num)
    matrices = _matrices(data, offsets, row_offsets, column_offsets, channel_num)
    for (values, rows), (found, _) in zip(matrices, results, strict=True):
        share = shares[rows].transpose(1, 0, 2)
        # The value of rank m, counted from 0, is in every sum of more than m values.
        ranked = np.zeros(values.shape, grad.dtype)
        for j, k in enumerate(topks):
            ranked[..., :k] += share[..., j, None]
        np.put_along_axis(found, _descending(values), ranked, axis=-1)
    return out
