"""Sequences cut into windows, and the sequences of several tensors in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from lodcli.kernels.errors import OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.arguments import require_at_least, segment_numbers
from lodcli.kernels.ops.common import is_half, upstream_of
from lodcli.kernels.runtime.arrays import as_array
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor

Tail = Literal["drop", "keep"]


def sequence_windows(
    tensor: LoDTensor,
    length: int,
    *,
    stride: int = 1,
    tail: Tail = "drop",
    level: int | str = -1,
    name: str | None = None,
    backend: Backend = "auto",
) -> LoDTensor:
    """Return every sequence as a sequence of windows over its items, which may overlap.

    Args:
        tensor: data (N, ...), any dtype.
        length: items a window holds; 1 or more.
        stride: how many items lie between the starts of two windows; 1 or more.
        tail: "drop" leaves out what no whole window ends with; "keep" adds one shorter
            window for it.
        level: the level whose sequences are cut; its items are rows, or whole sequences.
        name: what the new level is called.
        backend: "auto", "numpy", "numba" or "cupy"; for windows of rows.

    Returns:
        One level more: `level` counts windows, the new one below it the items of each.

    Raises:
        SelectionError: no such level.
        InvalidDataError: numbers below 1, or another `tail`.

    >>> words = LoDTensor(np.arange(5), [[4, 1]])
    >>> sequence_windows(words, 3, stride=2, tail="keep").recursive_sequence_lengths()
    [[2, 1], [3, 2, 1]]
    """
    _require_window(length, stride, tail)
    lod = tensor.lod
    number = lod.level(level)
    counts, starts, bounds = window_bounds(
        lod.levels[number], length=length, stride=stride, tail=tail
    )
    if number == lod.n_levels - 1:
        run = on(backend, segment_windows, size_bytes=tensor.nbytes)
        offsets = lod.levels[-1]
        taken = LoDTensor(run(tensor.data, offsets, length=length, stride=stride, tail=tail))
    else:
        taken = take_items(tensor, ranges(starts, bounds), number + 1)
    names = (*lod.names[: number + 1], name, *taken.lod.names)
    levels = (*lod.levels[:number], counts, bounds, *taken.lod.levels)
    return LoDTensor(taken.data, LoD(levels, names))


def sequence_windows_grad(
    upstream: npt.ArrayLike,
    lod: LoD,
    length: int,
    *,
    stride: int = 1,
    tail: Tail = "drop",
    level: int | str = -1,
    backend: Backend = "auto",
) -> Array:
    """Return the gradient of `sequence_windows` for its rows: their sums over the windows.

    Args:
        upstream: the rows of all windows, the gradient of the result.
        lod: the index of the tensor that was cut into windows.
        length, stride, tail, level: as they were.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        (N, ...), the dtype of `upstream`; float16 and bfloat16 are summed in float32.

    Raises:
        SelectionError: no such level.
        InvalidDataError, ShapeMismatchError: impossible numbers, or other rows.

    >>> sequence_windows_grad([1.0, 2.0, 4.0, 8.0], LoD.from_lengths([[3]]), 2).tolist()
    [1.0, 6.0, 8.0]
    """
    op, flow, number = "sequence_windows_grad", as_array(upstream), lod.level(level)
    _require_window(length, stride, tail)
    _, starts, bounds = window_bounds(lod.levels[number], length=length, stride=stride, tail=tail)
    # An upper level's windows are of whole sequences, each a range of rows.
    if number < lod.n_levels - 1:
        below = lod.absolute(number + 1)
        items = ranges(starts, bounds)
        starts, bounds = below[items], lengths_to_offsets(np.diff(below)[items], level=0)
    flow = upstream_of(flow, (int(bounds[-1]), *flow.shape[1:]), op)
    run = on(backend, segment_add, size_bytes=flow.nbytes)
    return run(flow, starts, bounds, lod.rows or 0)


def _require_window(length: int, stride: int, tail: Tail) -> None:
    require_at_least(length, 1, "length")
    require_at_least(stride, 1, "stride")
    if tail not in ("drop", "keep"):
        raise OptionError(f"tail is 'drop' or 'keep', found {tail!r}")


def sequence_interleave(tensors: Sequence[LoDTensor], *, level: int | str = 0) -> LoDTensor:
    """Return the first sequence of each tensor, then the second of each, and so on.

    Args:
        tensors: one or more with the same row shape, dtype and number of levels, equal
            above `level`.
        level: the level whose sequences take turns; by default the outermost.

    Returns:
        As many sequences as all of them have; what held n holds n of each.

    Raises:
        SelectionError: no such level.
        ShapeMismatchError: none, or tensors that do not fit each other.

    >>> a, b = LoDTensor(np.array([1, 1, 2]), [[2, 1]]), LoDTensor(np.array([7, 8]), [[1, 1]])
    >>> sequence_interleave([a, b]).data.tolist()
    [1, 1, 7, 2, 8]
    """
    if not tensors:
        raise ShapeMismatchError("sequence_interleave: no tensor given")
    first = tensors[0].lod
    number, above = first.level(level), first.above(level)
    for place, other in enumerate(tensors):
        found = above.difference(other.lod.above(level))
        count = other.lod.count(level)
        if found is None and count != first.count(level):
            found = f"{first.count(level)} sequences against {count}"
        if found is not None:
            raise ShapeMismatchError(f"sequence_interleave: tensors 0 and {place} differ: {found}")
    parts = [LoDTensor(one.data, _from(one.lod, number)) for one in tensors]
    # Sequence i of tensor p stands at p * S + i: read down the columns.
    order = np.arange(len(parts) * first.count(level)).reshape(len(parts), -1).T.ravel()
    mixed = take_items(LoDTensor.concatenate(parts), order)
    return LoDTensor(mixed.data, _under(above, mixed.lod, len(parts), first))


def sequence_deinterleave(
    tensor: LoDTensor, count: int, *, level: int | str = 0
) -> list[LoDTensor]:
    """Return the tensors that `sequence_interleave` took turns with: also its gradient.

    Args:
        tensor: every sequence of the level above `level`, or the batch, holds a multiple
            of `count`.
        count: how many tensors; 1 or more.
        level: the level whose sequences took turns; by default the outermost.

    Raises:
        SelectionError: no such level.
        ShapeMismatchError: a number of sequences that `count` does not divide.

    >>> [one.data.tolist() for one in sequence_deinterleave(LoDTensor(np.arange(4), [[1] * 4]), 2)]
    [[0, 2], [1, 3]]
    """
    require_at_least(count, 1, "count")
    lod = tensor.lod
    above = lod.above(level)
    last = above.levels[-1] if above.n_levels else np.array([0, lod.count(level)])
    wrong = np.flatnonzero(np.diff(last) % count)
    if wrong.size:
        item = int(wrong[0])
        raise ShapeMismatchError(
            f"sequence_deinterleave: {last[item + 1] - last[item]} sequences in item {item} "
            f"are not a multiple of {count}"
        )
    parts = []
    for place in range(count):
        taken = take_items(tensor, np.arange(place, lod.count(level), count), level)
        levels = above.levels
        if levels:
            levels = (*levels[:-1], levels[-1] // count)
        parts.append(LoDTensor(taken.data, LoD((*levels, *taken.lod.levels), lod.names)))
    return parts


def _from(lod: LoD, number: int) -> LoD:
    return LoD(lod.levels[number:], lod.names[number:])


def _under(above: LoD, below: LoD, times: int, like: LoD) -> LoD:
    """Return `below` under levels whose items have become `times` as many."""
    levels = above.levels
    if levels:
        levels = (*levels[:-1], levels[-1] * times)
    return LoD((*levels, *below.levels), like.names)


# -- arrays ----------------------------------------------------------------------------


def window_bounds(
    offsets: Offsets, *, length: int, stride: int, tail: Tail
) -> tuple[Offsets, Offsets, Offsets]:
    """Return the windows of every segment.

    Returns:
        Offsets of the windows of each segment, (S+1,); the first item of each of the W
        windows, (W,); offsets of the items of each window, (W+1,).

    >>> [part.tolist() for part in window_bounds(np.array([0, 5]), length=2, stride=2, tail="keep")]
    [[0, 3], [0, 2, 4], [0, 2, 4, 5]]
    """
    lengths = np.diff(offsets)
    whole = np.maximum(0, (lengths - length) // stride + 1)
    if tail == "keep":
        # One more where the last whole window leaves items behind, and one can start there.
        reached = np.where(whole > 0, (whole - 1) * stride + length, 0)
        whole = whole + ((reached < lengths) & (whole * stride < lengths))
    counts = lengths_to_offsets(whole, level=0)
    of = segment_numbers(counts)
    starts = offsets[:-1][of] + stride * ranges(np.zeros(whole.size, np.int64), counts)
    bounds = lengths_to_offsets(np.minimum(length, offsets[1:][of] - starts), level=1)
    return counts, starts, bounds


def segment_windows(
    data: Array, offsets: Offsets, *, length: int, stride: int, tail: Tail
) -> Array:
    """Return the rows of all windows of all segments: (N, ...) to (rows, ...)."""
    _, starts, bounds = window_bounds(offsets, length=length, stride=stride, tail=tail)
    return data[ranges(starts, bounds)]


def segment_add(rows: Array, starts: Offsets, offsets: Offsets, count: int) -> Array:
    """Return `count` rows, each the sum of those that are put there; float16 in float32.

    Args:
        rows: (M, ...) in the segments of `offsets`.
        starts: (S,), where the rows of each segment go, from the first to the last.
        offsets: (S+1,).
    """
    wide = np.float32 if is_half(rows.dtype) else rows.dtype
    out = np.zeros((count, *rows.shape[1:]), wide)
    # In their order: the same sums every time.
    np.add.at(out, ranges(starts, offsets), rows.astype(wide, copy=False))
    return out.astype(rows.dtype, copy=False)
