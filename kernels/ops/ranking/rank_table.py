"""Rank tables: sequences by descending length, as Paddle's RNNs schedule them.

A rank table is int64 (S, 2): row p holds the sequence at place p and its length in items
of the next level, longest first, equal lengths in their order.
"""

from __future__ import annotations

import operator

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.checks import Offsets, lengths_to_offsets, same_offsets
from lodcli.kernels.index.items import FoundItems, find_items
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing.slice import segment_place
from lodcli.kernels.ops.upstream import Upstream, upstream_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.tensor.gather import take_known
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import (
    IndexMap,
    found_in_steps,
    from_steps,
    longest_first,
    to_steps,
)

_INT64 = np.dtype(np.int64)


@types_explained
def sequence_rank_table(lod: LoD, level: int | str = 0) -> Offsets:
    """Return the rank table of a level, (S, 2) int64: number and length, longest sequence first.

    Args:
        lod: an index of at least one level.
        level: the level whose S sequences are ranked by length; by default the outermost.

    Raises:
        SelectionError: there is no such level.

    >>> sequence_rank_table(LoD.from_lengths([[1, 3, 2]])).tolist()
    [[1, 3], [2, 2], [0, 1]]
    """
    lengths = lod.lengths(level)
    order = longest_first(lengths)
    return np.stack([order, lengths[order]], axis=1)


@types_explained
def sequence_max_sequence_len(table: npt.ArrayLike) -> int:
    """Return the length of the longest sequence of a rank table; 0 where there are none.

    >>> sequence_max_sequence_len([[1, 3], [2, 2], [0, 1]])
    3
    """
    return int(_checked(table)[:1, 1].sum())


@types_explained
def sequence_to_steps(tensor: LoDTensor, table: npt.ArrayLike, level: int | str = 0) -> TensorArray:
    """Return the time steps: step t has item t of every sequence longer than t, in table order.

    Args:
        tensor: data (N, ...), any dtype.
        table: a rank table with the lengths of `level`.
        level: the level whose sequences are cut into steps; by default the outermost.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError, ShapeMismatchError: the rank table is invalid, or has other lengths.

    >>> words = LoDTensor(np.arange(6), LoD.from_lengths([[1, 3, 2]]))
    >>> [step.data.tolist() for step in sequence_to_steps(words, sequence_rank_table(words.lod))]
    [[1, 4, 0], [2, 5], [3]]
    """
    number = tensor.lod.level(level)
    return TensorArray.from_steps(to_steps(tensor, _index_map(table, tensor.lod.upto(number))))


@types_explained
def sequence_to_steps_grad(
    upstream: TensorArray, tensor: LoDTensor, table: npt.ArrayLike, level: int | str = 0
) -> LoDTensor:
    """Return the gradient of `sequence_to_steps` for `tensor`.

    Args:
        upstream: the gradients of all steps.
        tensor, table, level: as passed to the op; of the tensor only its index and shape are read.

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError: as `sequence_to_steps`.
        ShapeMismatchError: as `sequence_to_steps`; or `upstream` has other shapes or indexes
            than the steps.
    """
    number = tensor.lod.level(level)
    back = sequence_from_steps(upstream, table, tensor.lod.upto(number))
    return tensor._with_rows(
        upstream_of(back, tensor.data.shape, "sequence_to_steps_grad", tensor.lod)
    )


@types_explained
def sequence_from_steps(
    array: TensorArray, table: npt.ArrayLike, outer: LoD | None = None
) -> LoDTensor:
    """Return the sequences that `sequence_to_steps` split: its inverse.

    Args:
        array: one value for each step.
        table: the rank table with which the steps were made.
        outer: levels 0 to the unpacked one of the source; by default that level alone, with
            the lengths in the table.

    Raises:
        InvalidDataError, ShapeMismatchError: the rank table is invalid, or does not fit the steps.

    >>> array = TensorArray(values=[np.array([1, 4, 0]), np.array([2, 5]), np.array([3])])
    >>> sequence_from_steps(array, [[1, 3], [2, 2], [0, 1]]).recursive_sequence_lengths()
    [[1, 3, 2]]
    """
    return from_steps(array.steps, _index_map(table, outer))


@types_explained
def sequence_from_steps_grad(
    upstream: Upstream, array: TensorArray, table: npt.ArrayLike, outer: LoD | None = None
) -> TensorArray:
    """Return the gradient of `sequence_from_steps` for `array`.

    Args:
        upstream: the gradient of the result.
        array, table, outer: as passed to the op; of the array only its indexes and shapes are read.

    Returns:
        One value for each step, of the shape and index of that of `array`, in the dtype of
        `upstream`.

    Raises:
        InvalidDataError: as `sequence_from_steps`.
        ShapeMismatchError: as `sequence_from_steps`; or `upstream` has another shape or index
            than the result.
    """
    op, steps = "sequence_from_steps_grad", array.steps
    index_map = _index_map(table, outer)
    found = found_in_steps(steps.lod, index_map)
    return TensorArray.from_steps(_put_back(upstream, steps, found, op, index_map.outer.levels))


@types_explained
def sequence_shrink_memory(x: LoDTensor, table: npt.ArrayLike, step: int) -> LoDTensor:
    """Return a view of the first items of `x`, those whose sequences are alive at `step`.

    Args:
        x: states in table order, one outermost item per sequence; items of sequences that ended
            before may be missing.
        table: a rank table.
        step: the number of the step, 0 or more; a sequence is alive if it is longer.

    Raises:
        SelectionError: `step` is negative.
        ShapeMismatchError: `x` has fewer items than there are sequences alive.

    >>> sequence_shrink_memory(LoDTensor(np.arange(3)), [[1, 3], [2, 2], [0, 1]], 1).data
    array([0, 1])
    """
    return x.select(slice(_alive(x, table, step)))


@types_explained
def sequence_shrink_memory_grad(
    upstream: Upstream, x: LoDTensor, table: npt.ArrayLike, step: int
) -> LoDTensor:
    """Return the gradient of `sequence_shrink_memory` for `x`: zeros for the items it dropped.

    Args:
        upstream: (n, ...), the gradient of the result.
        x, table, step: as passed to the op; of `x` only its index and shape are read.

    Returns:
        (N, ...) under the index of `x`, the dtype of `upstream`.

    Raises:
        SelectionError, InvalidDataError: as `sequence_shrink_memory`.
        ShapeMismatchError: as `sequence_shrink_memory`; or `upstream` has another shape or
            index than the result.
    """
    levels, kept = [], _alive(x, table, step)
    for offsets in x.lod.levels:
        levels.append(offsets[: kept + 1])
        kept = offsets.item(kept)
    flow = upstream_of(upstream, (kept, *x.row_shape), "sequence_shrink_memory_grad", levels)
    rows = np.zeros_like(flow, shape=(x.rows, *x.row_shape))
    rows[:kept] = flow
    return x._with_rows(rows)


def _alive(x: LoDTensor, table: npt.ArrayLike, step: int) -> int:
    """Return how many sequences are alive at a step; checks that `x` has as many items."""
    if operator.index(step) < 0:
        raise SelectionError(f"no step {step}: steps start at 0")
    alive = int(np.count_nonzero(_checked(table)[:, 1] > step))
    if len(x) < alive:
        raise ShapeMismatchError(f"step {step}: expected at least {alive} items, found {len(x)}")
    return alive


@types_explained
def sequence_reorder_by_rank(tensor: LoDTensor, table: npt.ArrayLike) -> LoDTensor:
    """Return the outermost items, with all levels below, in the order of a rank table.

    Args:
        tensor: one outermost item (a row, without levels) for each sequence of the table.
        table: a rank table, often of another tensor.

    Raises:
        ShapeMismatchError: `tensor` and `table` have different numbers of items.

    >>> words = LoDTensor(np.arange(4), LoD.from_lengths([[1, 3]]))
    >>> sequence_reorder_by_rank(words, sequence_rank_table(words.lod)).data.tolist()
    [1, 2, 3, 0]
    """
    return take_known(tensor, rank_order(len(tensor), table), 0)


@types_explained
def sequence_reorder_by_rank_grad(
    upstream: Upstream, tensor: LoDTensor, table: npt.ArrayLike
) -> LoDTensor:
    """Return the gradient of `sequence_reorder_by_rank`: items in the order of `tensor`.

    Args:
        upstream: (N, ...), the gradient of the result.
        tensor, table: as passed to the op; of the tensor only its index and shape are read.

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        InvalidDataError, ShapeMismatchError: as `sequence_reorder_by_rank`; or `upstream` has
            another shape or index than the result.
    """
    found = find_items(tensor.lod, rank_order(len(tensor), table))
    return _put_back(upstream, tensor, found, "sequence_reorder_by_rank_grad")


@types_explained
def sequence_sort_by_length(tensor: LoDTensor, level: int | str = 0) -> LoDTensor:
    """Return the sequences of a level, longest first; equally long ones keep their order.

    Lengths count items of the next level. The levels above are dropped, because sequences of
    different parents are now next to each other.

    Args:
        tensor: data (N, ...), any dtype.
        level: the level whose sequences are sorted; by default the outermost.

    Returns:
        Data (N, ...), same dtype, under `level` and the levels below.

    Raises:
        SelectionError: there is no such level.

    References:
        PaddlePaddle's "Varient Length supported RNN Design", SortBySeqLen.

    >>> words = LoDTensor(np.arange(9), LoD.from_lengths([[4, 2, 3]]))
    >>> sequence_sort_by_length(words).data.tolist()
    [0, 1, 2, 3, 6, 7, 8, 4, 5]
    """
    lod = tensor.lod
    number = lod.level(level)
    return take_known(tensor, longest_first(lod.lengths(number)), number)


@types_explained
def sequence_sort_by_length_grad(
    upstream: Upstream, tensor: LoDTensor, level: int | str = 0
) -> LoDTensor:
    """Return the gradient of `sequence_sort_by_length`: items in the order of `tensor`.

    See `sequence_reorder_by_rank_grad`.
    """
    found = find_items(tensor.lod, longest_first(tensor.lod.lengths(level)), level)
    return _put_back(upstream, tensor, found, "sequence_sort_by_length_grad")


def _put_back(
    upstream: Upstream,
    tensor: LoDTensor,
    found: FoundItems,
    op: str,
    above: tuple[Offsets, ...] = (),
) -> LoDTensor:
    """Return the gradient of gathering the items `found` in a tensor.

    Args:
        upstream: the gradient of the gathered items.
        tensor: the tensor that the items were gathered from.
        found: the items.
        op: the gradient function, for messages.
        above: levels of the result above those of the items.
    """
    shape = (found.bounds.item(-1), *tensor.row_shape)
    flow = upstream_of(upstream, shape, op, (*above, *found.levels))
    place = on("auto", segment_place, size_bytes=flow.nbytes)
    return tensor._with_rows(place(flow, found.starts, found.bounds, tensor.rows))


def rank_order(count: int, table: npt.ArrayLike) -> Offsets:
    """Return the outermost items of a tensor in the order of a rank table, (count,) int64.

    Raises:
        InvalidDataError: `table` is not a rank table.
        ShapeMismatchError: `count` is not the number of sequences of the table.
    """
    order, _ = _ranks(table)
    if count != order.size:
        raise ShapeMismatchError(
            f"the rank table has {order.size} sequences, the tensor {count} items"
        )
    return order


def _index_map(table: npt.ArrayLike, outer: LoD | None) -> IndexMap:
    order, offsets = _ranks(table)
    if outer is None:
        outer = LoD._trusted([offsets])
    elif not outer.levels:
        raise InvalidDataError("outer: expected an index of at least one level, found none")
    elif not same_offsets(offsets, outer.levels[-1]):
        found = LoD._trusted([offsets]).difference(LoD._trusted(outer.levels[-1:]))
        raise ShapeMismatchError(f"the rank table does not fit level {outer.n_levels - 1}: {found}")
    return IndexMap._trusted(order, outer)


def _table(table: npt.ArrayLike) -> Offsets:
    """Return a rank table as (S, 2) int64, without a check of its values.

    Raises:
        InvalidDataError: not two integers per row.
    """
    array = on_host(table, "rank table")
    if array.ndim != 2 or array.shape[1] != 2 or array.dtype.kind not in "iu":
        raise InvalidDataError(
            f"a rank table is (S, 2) whole numbers, found {array.dtype} of shape {array.shape}"
        )
    result: Offsets = array.astype(_INT64, copy=False)
    return result


def _ranks(table: npt.ArrayLike) -> tuple[Offsets, Offsets]:
    """Return the sequences of a rank table, in its order, and the offsets of its level.

    Raises:
        InvalidDataError: it is not a rank table.
        InvalidLoDError: its lengths are negative, or their sum exceeds int64.
    """
    numbers = _table(table)
    return on("auto", segment_ranks, size_bytes=2 * numbers.nbytes)(numbers)


def segment_ranks(table: Offsets) -> tuple[Offsets, Offsets]:
    """See `_ranks`; takes (S, 2) int64."""
    sequences, lengths = table[:, 0], table[:, 1]
    in_order = sequences.copy()
    in_order.sort()
    if np.count_nonzero(in_order != np.arange(len(table))):
        raise InvalidDataError(
            f"a rank table holds each sequence 0 to {len(table) - 1} once; this one does not"
        )
    rises = lengths[1:] > lengths[:-1]
    if np.count_nonzero(rises):
        place = int(rises.argmax()) + 1
        raise InvalidDataError(
            f"rank table, row {place}: longest first (expected at most {lengths[place - 1]}, "
            f"found {lengths[place]})"
        )
    by_sequence = np.empty_like(lengths)
    by_sequence[sequences] = lengths
    return sequences, lengths_to_offsets(by_sequence, level=0)


def _checked(table: npt.ArrayLike) -> Offsets:
    """Return a rank table as (S, 2) int64. Raises InvalidDataError if it is none."""
    numbers = _table(table)
    _ranks(numbers)
    return numbers
