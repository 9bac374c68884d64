"""Sequences split into windows, and interleaved sequences of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from lodcli.kernels.errors import OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.index.items import FoundItems, find_items, found_below, segment_pick
from lodcli.kernels.index.lod import NO_LEVELS, LoD, require_same_depth
from lodcli.kernels.ops.arguments import MOST_ITEMS, moved, require_at_least
from lodcli.kernels.ops.dtypes import working_dtype
from lodcli.kernels.ops.joining.concat import (
    levels_in_turn,
    rows_in_turn,
    rows_out_of_turn,
    segment_item_turns,
)
from lodcli.kernels.ops.slicing.slice import segment_slice
from lodcli.kernels.ops.upstream import Upstream, upstream_of, upstreams_of
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.gather import gather_items, take_known, with_nulls
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import NO_NULLS

Ends = Literal["drop", "keep"]


@types_explained
def sequence_windows(
    tensor: LoDTensor,
    length: int,
    *,
    stride: int = 1,
    tail: Ends = "drop",
    head: Ends = "drop",
    level: int | str = -1,
    name: str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every sequence as a sequence of windows over its items, which may overlap.

    Args:
        tensor: data (N, ...), any dtype. Nulls are kept.
        length: number of items in a window, 1 or more.
        stride: number of items from the start of a window to the start of the next, 1 or more.
        tail: "drop" leaves out the items after the last whole window; "keep" adds one shorter
            window for them.
        head: "keep" adds shorter windows before the first whole one, each a stride before the
            next: with a stride of 1, the first windows end at item 1, 2, .., and there is one
            window for each item.
        level: the level whose sequences are cut, by default the finest; its items are rows, or
            sequences of the next level.
        name: name of the new level.
        backend: "auto", "numpy", "numba" or "cupy"; for windows of rows.

    Returns:
        One level more: `level` counts windows, the new one below it the items of each.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: `length` or `stride` is below 1, or `tail` or `head` is invalid.

    >>> words = LoDTensor(np.arange(5), [[4, 1]])
    >>> sequence_windows(words, 3, stride=2, tail="keep").recursive_sequence_lengths()
    [[2, 1], [3, 2, 1]]
    >>> sequence_windows(words, 3, head="keep").recursive_sequence_lengths()
    [[4, 1], [1, 2, 3, 3, 1]]
    """
    _require_window(length, stride, tail, head)
    lod = tensor.lod
    number = lod.level(level)
    whole = number < lod.n_levels - 1
    if tensor.nulls.masks:
        how: dict[str, Any] = {"length": length, "stride": stride, "tail": tail, "head": head}
        cut = partial(sequence_windows, **how, level=number, name=name, backend=backend)
        return with_nulls(tensor, number, cut, whole=whole)
    counts, starts, bounds = _windows(lod.levels[number], length, stride, tail, head)
    if not whole:
        run = on(backend, segment_slice, size_bytes=tensor.nbytes)
        rows, below = run(tensor.data, starts, bounds), NO_LEVELS
    else:
        taken = take_known(tensor, ranges(starts, bounds), number + 1)
        rows, below = taken.data, taken.lod
    names = (*lod.names[: number + 1], name, *below.names)
    levels = (*lod.levels[:number], counts, bounds, *below.levels)
    return moved(tensor, rows, LoD._trusted(levels, names), whole=whole)


@types_explained
def sequence_windows_grad(
    upstream: Upstream,
    tensor: LoDTensor,
    length: int,
    *,
    stride: int = 1,
    tail: Ends = "drop",
    head: Ends = "drop",
    level: int | str = -1,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the gradient of `sequence_windows` for `tensor`: sums over the windows of a row.

    Args:
        upstream: the rows of all windows, the gradient of the result.
        tensor, length, stride, tail, head, level: as passed to the op; of the tensor only its index
            and shape are read.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`; float16 and bfloat16 are
        summed in float32.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError, ShapeMismatchError: as `sequence_windows`; or `upstream` has another
            shape or index than the result.

    >>> words = LoDTensor(np.zeros(3), [[3]])
    >>> sequence_windows_grad([1.0, 2.0, 4.0, 8.0], words, 2).data.tolist()
    [1.0, 6.0, 8.0]
    """
    lod = tensor.lod
    number = lod.level(level)
    how: dict[str, Any] = {"length": length, "stride": stride, "tail": tail, "head": head}
    _require_window(**how)
    counts, starts, bounds = _windows(lod.levels[number], **how)
    below, firsts, ends = NO_LEVELS, starts, bounds
    if number < lod.n_levels - 1:  # the rows of a window of sequences are a range too
        found = find_items(lod, ranges(starts, bounds), number + 1)
        below, firsts, ends = found.lod, found.starts[bounds[:-1]], found.bounds[bounds]
    levels = (*lod.levels[:number], counts, bounds, *below.levels)
    flow = upstream_of(
        *(upstream, (int(ends[-1]), *tensor.row_shape), "sequence_windows_grad"), levels
    )
    run = on(backend, segment_add, size_bytes=flow.nbytes)
    return tensor._with_rows(run(flow, firsts, ends, tensor.rows))


def _windows(
    offsets: Offsets, length: int, stride: int, tail: Ends, head: Ends
) -> tuple[Offsets, Offsets, Offsets]:
    """Dispatch `segment_windows`; the index is always in main memory."""
    run = on("auto", segment_windows, size_bytes=offsets.nbytes)
    first = (length - 1) % stride + 1 if head == "keep" else length
    # The length exceeds the first end by a number of strides, also if these are cut.
    more, first, stride = (min(size, MOST_ITEMS) for size in (length - first, first, stride))
    counts, starts, bounds = run(offsets, first + more, first, stride, tail == "keep")
    # The same object: a window for each item shares the index.
    return (offsets if first == stride == 1 else counts), starts, bounds


def _require_window(length: int, stride: int, tail: Ends, head: Ends) -> None:
    require_at_least(length, 1, "length")
    require_at_least(stride, 1, "stride")
    for option, value in (("tail", tail), ("head", head)):
        if value not in ("drop", "keep"):
            raise OptionError(f"{option} must be 'drop' or 'keep', found {value!r}")


@types_explained
def sequence_interleave(tensors: Sequence[LoDTensor], *, level: int | str = 0) -> LoDTensor:
    """Return the first sequence of each tensor, then the second of each, and so on.

    Args:
        tensors: one or more with the same row shape, dtype and number of levels, equal
            above `level`.
        level: the level whose sequences are interleaved; by default the outermost.

    Returns:
        The sequences of all tensors. A sequence of the level above that had n items in each tensor
        has n from each.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: there are no tensors, or they do not match.

    >>> a, b = LoDTensor(np.array([1, 1, 2]), [[2, 1]]), LoDTensor(np.array([7, 8]), [[1, 1]])
    >>> sequence_interleave([a, b]).data.tolist()
    [1, 1, 7, 2, 8]
    """
    op = "sequence_interleave"
    indexes, number = _alike(tensors, level, op)
    tensors = LoDTensor._agreeing(tensors)
    data = [one.data for one in tensors]
    levels, bounds = _in_turn(indexes, number)
    lod = LoD._trusted(levels, indexes[0].names)
    return tensors[0]._part(rows_in_turn(data, bounds), lod, NO_NULLS)


@types_explained
def sequence_interleave_grad(
    upstream: Upstream, tensors: Sequence[LoDTensor], *, level: int | str = 0
) -> tuple[LoDTensor, ...]:
    """Return the gradient of `sequence_interleave` for each of the tensors.

    Args:
        upstream: the gradient of the result.
        tensors, level: as passed to the op; only their indexes and shapes are read.

    Returns:
        One tensor for each, under its index, the dtype of `upstream`.

    Raises:
        SelectionError, ShapeMismatchError: as `sequence_interleave`; or `upstream` has another
            shape or index than the result.

    >>> a, b = LoDTensor(np.zeros(3), [[2, 1]]), LoDTensor(np.zeros(2), [[1, 1]])
    >>> grads = sequence_interleave_grad([1.0, 2.0, 3.0, 4.0, 5.0], [a, b])
    >>> [one.data.tolist() for one in grads]
    [[1.0, 2.0, 4.0], [3.0, 5.0]]
    """
    op = "sequence_interleave_grad"
    indexes, number = _alike(tensors, level, op)
    shape = (sum([one.rows for one in tensors]), *tensors[0].row_shape)
    levels, bounds = _in_turn(indexes, number)
    parts = rows_out_of_turn(upstream_of(upstream, shape, op, levels), bounds)
    return tuple([one._with_rows(part) for one, part in zip(tensors, parts, strict=True)])


def _alike(tensors: Sequence[LoDTensor], level: int | str, op: str) -> tuple[Sequence[LoD], int]:
    """Return the indexes of tensors and the number of the level to interleave; raises errors."""
    if not tensors:
        raise ShapeMismatchError(f"{op}: no tensor given")
    first = tensors[0].lod
    number = first.level(level)
    for place, other in enumerate(tensors):
        lod, found = other.lod, None
        if other is tensors[0]:
            continue
        if other.row_shape != tensors[0].row_shape:
            found = f"rows of shape {tensors[0].row_shape} against {other.row_shape}"
        elif lod is not first:
            found = first.above(number).difference(lod.above(level))
            if found is None and lod.count(level) != first.count(number):
                found = f"{first.count(number)} sequences against {lod.count(level)}"
        if found is not None:
            raise ShapeMismatchError(f"{op}: tensors 0 and {place} differ: {found}")
    indexes = [one.lod for one in tensors]
    require_same_depth(indexes)
    return indexes, number


@types_explained
def sequence_deinterleave(
    tensor: LoDTensor, count: int, *, level: int | str = 0
) -> list[LoDTensor]:
    """Return the tensors that `sequence_interleave` combined.

    Args:
        tensor: every sequence of the level above `level`, or without one the whole batch, has a
            multiple of `count` items.
        count: number of tensors, 1 or more.
        level: the level whose sequences were interleaved; by default the outermost.

    Raises:
        SelectionError: there is no such level.
        ShapeMismatchError: `count` does not divide a number of sequences.

    >>> [one.data.tolist() for one in sequence_deinterleave(LoDTensor(np.arange(4), [[1] * 4]), 2)]
    [[0, 2], [1, 3]]
    """
    return [
        tensor._part(gather_items(tensor.data, part), part.lod, NO_NULLS)
        for part in _every_nth(tensor, count, level, "sequence_deinterleave")
    ]


@types_explained
def sequence_deinterleave_grad(
    upstream: Sequence[Upstream], tensor: LoDTensor, count: int, *, level: int | str = 0
) -> LoDTensor:
    """Return the gradient of `sequence_deinterleave` for `tensor`.

    Args:
        upstream: the gradients of all results.
        tensor, count, level: as passed to the op; of the tensor only its index and shape are read.

    Returns:
        (N, ...) under the index of `tensor`, the dtype of `upstream`.

    Raises:
        SelectionError: as `sequence_deinterleave`.
        ShapeMismatchError: as `sequence_deinterleave`; or a gradient has another shape or index
            than its result, or there are more or fewer.

    >>> tensor = LoDTensor(np.zeros(4), [[1] * 4])
    >>> sequence_deinterleave_grad([[1.0, 2.0], [3.0, 4.0]], tensor, 2).data.tolist()
    [1.0, 3.0, 2.0, 4.0]
    """
    op = "sequence_deinterleave_grad"
    found = _every_nth(tensor, count, level, op)
    flows = upstreams_of(upstream, tensor.row_shape, op, found)
    return tensor._with_rows(rows_in_turn(flows, [part.bounds for part in found]))


def _every_nth(tensor: LoDTensor, count: int, level: int | str, op: str) -> list[FoundItems]:
    """Return the sequences 0, count, .. of a level, then 1, 1 + count, .., and so on."""
    require_at_least(count, 1, "count")
    lod = tensor.lod
    number = lod.level(level)
    offsets, above = lod.levels[number], lod.levels[:number]
    held = above[-1] if above else np.array([0, offsets.size - 1])
    dealt = on("auto", segment_dealt, size_bytes=offsets.nbytes)(offsets, held, count)
    if dealt is None:
        item = int((held % count != 0).argmax()) - 1
        raise ShapeMismatchError(
            f"{op}: {held[item + 1] - held[item]} sequences in item {item} are not a multiple of "
            f"{count}"
        )
    fewer, picked = dealt
    if above:
        above = (*above[:-1], fewer)
    return [found_below(lod, number, begins, bounds, above) for begins, bounds in picked]


def _in_turn(indexes: Sequence[LoD], number: int) -> tuple[tuple[Offsets, ...], Sequence[Offsets]]:
    """Return the levels of tensors with interleaved sequences of a level, and ranges of rows."""
    own = [lod.levels[number] for lod in indexes]
    offsets = on("auto", segment_item_turns, size_bytes=len(own) * own[0].nbytes)(own)
    lower, bounds = levels_in_turn(indexes, own, number + 1)
    above = indexes[0].levels[:number]
    if above:  # the finest of them counts more items now
        above = (*above[:-1], above[-1] * len(own))
    return (*above, offsets, *lower), bounds


# -- arrays ----------------------------------------------------------------------------


def segment_windows(
    offsets: Offsets, length: int, first: int, stride: int, keep: bool
) -> tuple[Offsets, Offsets, Offsets]:
    """Return the windows of every segment.

    Args:
        offsets: (S+1,).
        length: of the windows.
        first: the end of the first window, at most `length`.
        stride: the distance between the ends of two windows.
        keep: whether items after the last whole window form a shorter one.

    Returns:
        Offsets of the windows of each segment, (S+1,); the first item of each of the W
        windows, (W,); offsets of the items of each window, (W+1,).

    >>> [part.tolist() for part in segment_windows(np.array([0, 5]), 2, 2, 2, keep=True)]
    [[0, 3], [0, 2, 4], [0, 2, 4, 5]]
    """
    lengths = offsets_to_lengths(offsets)
    whole = np.maximum(0, (lengths - first) // stride + 1)
    if keep:
        # One more if items remain after the last whole window, and a window starts among them.
        reached = np.where(whole > 0, (whole - 1) * stride + first, 0)
        whole = whole + ((reached < lengths) & (whole * stride + first - length < lengths))
    counts = lengths_to_offsets(whole, level=0)
    # Window w of segment s ends at offsets[s] + first + stride * (w - counts[s]).
    ends = (offsets[:-1] + first - stride * counts[:-1]).repeat(whole)
    ends += stride * np.arange(ends.size)
    starts = ends - length
    if first < length:
        np.maximum(starts, offsets[:-1].repeat(whole), out=starts)
    if keep:
        np.minimum(ends, offsets[1:].repeat(whole), out=ends)
    ends -= starts
    return counts, starts, lengths_to_offsets(ends, level=1)


def segment_dealt(
    offsets: Offsets, held: Offsets, parts: int
) -> tuple[Offsets, list[tuple[Offsets, Offsets]]] | None:
    """Return the items 0, parts, .. of a level, then 1, 1 + parts, .., and so on.

    Args:
        offsets: of the level to split.
        held: offsets of the level above.
        parts: 1 or more.

    Returns:
        The offsets of the level above in each part, and the result of `segment_pick` for each part;
        None if the length of a sequence of the level above is not a multiple of `parts`.

    >>> held, (one, two) = segment_dealt(np.array([0, 2, 3, 3, 7]), np.array([0, 4]), 2)
    >>> held.tolist(), [each.tolist() for each in (*one, *two)]
    ([0, 2], [[0, 3], [0, 2, 2], [2, 3], [0, 1, 5]])
    """
    # All lengths are multiples if and only if all offsets are.
    if np.count_nonzero(held % parts):
        return None
    items = offsets.size - 1
    picked = [segment_pick(offsets, np.arange(part, items, parts)) for part in range(parts)]
    return immutable(held // parts), picked


@np.errstate(all="ignore")
def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """Return `count` rows, each the sum of the rows that are added there; float16 in float32.

    Args:
        rows: (M, ...) in the segments of `offsets`.
        starts: (S,), the position that the first row of each segment is added to; the others
            follow it. Neither starts nor ends decrease from one segment to the next.
        offsets: (S+1,).
    """
    wide = working_dtype(rows.dtype)
    out = np.zeros((count, *rows.shape[1:]), wide)
    # In row order, so that sums are reproducible.
    np.add.at(out, ranges(starts, offsets), rows.astype(wide, copy=False))
    return out.astype(rows.dtype, copy=False)
