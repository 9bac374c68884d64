"""Order within sequences: sort, top-k, unique, searchsorted, histogram.

All compare with <, and take a NaN as greater than every number and equal to a NaN. Equal
values stay in the order they came in, whichever way they are sorted.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, offsets_to_lengths
from lodcli.kernels.index.items import capped_offsets
from lodcli.kernels.index.places import branch_below
from lodcli.kernels.ops.arguments import (
    MOST_ITEMS,
    comparable,
    differs,
    moved,
    per_segment,
    recut,
    require_order,
    segment_numbers,
    segments,
)
from lodcli.kernels.ops.ids.ids import segment_compress
from lodcli.kernels.ops.joining.expand import segment_broadcast
from lodcli.kernels.ops.pooling.pool_grad import segment_max_grad
from lodcli.kernels.ops.rows import flat_rows, per_row, row_width
from lodcli.kernels.ops.slicing.slice import segment_slice
from lodcli.kernels.runtime.argument_types import types_explained
from lodcli.kernels.runtime.arrays import on_host
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor


@types_explained
def sequence_sort(
    tensor: LoDTensor, *, level: int | str = -1, descending: bool = False, backend: Backend = "auto"
) -> LoDTensor:
    """Return every column of every sequence in ascending order.

    Args:
        tensor: data (N, ...), any dtype but complex; each column is sorted by itself.
        level: the level whose sequences are sorted, each with all its rows; by default the finest.
        descending: the greatest first (a NaN is the greatest).
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        Data (N, ...), same dtype, under the same index.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are complex.

    >>> sequence_sort(LoDTensor(np.array([3, 1, 2, 0]), [[3, 1]])).data.tolist()
    [1, 2, 3, 0]
    """
    offsets = ordered_offsets(tensor, level, "sequence_sort")
    rows = sorted_rows(tensor, offsets, descending, backend)
    run = on(backend, segment_picked, size_bytes=tensor.nbytes)
    return moved(tensor, run(tensor.data, rows), tensor.lod)


@types_explained
def sequence_argsort(
    tensor: LoDTensor, *, level: int | str = -1, descending: bool = False, backend: Backend = "auto"
) -> LoDTensor:
    """Return the positions in their sequence of the values that `sequence_sort` returns.

    Args:
        tensor, backend: as for `sequence_sort`.
        level: the level whose sequences are sorted, each with all its rows; by default the finest.
        descending: the greatest first (a NaN is the greatest).

    Returns:
        int64 (N, ...) under the same index.

    >>> sequence_argsort(LoDTensor(np.array([3, 1, 2, 0]), [[3, 1]])).data.tolist()
    [1, 2, 0, 0]
    """
    offsets = ordered_offsets(tensor, level, "sequence_argsort")
    rows = sorted_rows(tensor, offsets, descending, backend)
    places = on(backend, segment_places, size_bytes=rows.nbytes)(rows, offsets)
    return tensor._with_rows(places)


@types_explained
def sequence_topk(
    tensor: LoDTensor,
    k: npt.ArrayLike,
    *,
    level: int | str = -1,
    largest: bool = True,
    backend: Backend = "auto",
) -> tuple[LoDTensor, LoDTensor]:
    """Return the k largest values of every column of every sequence, and their positions.

    Args:
        tensor: data (N, ...), any dtype but complex.
        k: number of values, 0 or more; or one number for each sequence, (S,) or (S, 1).
        level: the level of the sequences; by default the finest.
        largest: the k largest values; otherwise the k smallest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The values in descending order (ascending for the smallest), and their int64 positions from
        the start of the sequence; both under levels 0 to `level`. A sequence shorter than k gives
        all its values.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are complex, or a k is negative or not an integer.
        ShapeMismatchError: `k` is an array, but not of one number for each sequence.

    >>> values, places = sequence_topk(LoDTensor(np.array([3, 1, 2, 0]), [[3, 1]]), 2)
    >>> values.data.tolist(), places.data.tolist(), values.recursive_sequence_lengths()
    ([3, 2, 0], [0, 2, 0], [[2, 1]])
    """
    op = "sequence_topk"
    offsets = ordered_offsets(tensor, level, op)
    bounds = best_bounds(offsets, k, op)
    rows = sorted_rows(tensor, offsets, largest, backend, bounds)
    run = on(backend, segment_best, size_bytes=rows.nbytes)
    values, places = run(tensor.data, rows, offsets, bounds)
    lod = recut(tensor.lod, level, bounds)
    return moved(tensor, values, lod), LoDTensor._made(places, lod)


def ordered_offsets(tensor: LoDTensor, level: int | str, op: str) -> Offsets:
    """Return the offsets of the sequences that are sorted.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are complex.
    """
    require_order(tensor.dtype, op)
    return segments(tensor, level, op)


def sorted_rows(
    tensor: LoDTensor,
    offsets: Offsets,
    descending: bool,
    backend: Backend,
    bounds: Offsets | None = None,
) -> Offsets:
    """Return the row numbers that sort each column, (N, ...); see `segment_order`."""
    run = on(backend, segment_order, size_bytes=tensor.nbytes)
    return run(tensor.data, offsets, descending, bounds)


def best_bounds(offsets: Offsets, k: npt.ArrayLike, op: str) -> Offsets:
    """Return the offsets of the result of `sequence_topk`, (S+1,); raises the same errors."""
    counts: Offsets | int
    if type(k) is int and abs(k) < MOST_ITEMS:  # fast path
        counts = k
    else:
        wanted, segments = on_host(k, f"{op}: k"), offsets.size - 1
        counts = per_segment(wanted if wanted.ndim else wanted.repeat(segments), segments, "k", op)
    bounds = capped_offsets(offsets, counts)
    if bounds is None:
        raise OptionError(f"{op}: k must be at least 0, found {np.min(counts)}")
    return bounds


@types_explained
def sequence_unique(
    tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the unique values of every sequence, in ascending order.

    Args:
        tensor: one value per row, (N,) or (N, 1), any dtype but complex.
        level: the level of the sequences; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The values, same dtype, under levels 0 to `level`; of equal values (0 and -0.0) the
        first.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are complex or have several values.

    >>> found = sequence_unique(LoDTensor(np.array([3, 1, 3, 1]), [[3, 1]]))
    >>> found.data.tolist(), found.recursive_sequence_lengths()
    ([1, 3, 1], [[2, 1]])
    """
    return _unique(tensor, level, "sequence_unique", backend)[0]


@types_explained
def sequence_unique_counts(
    tensor: LoDTensor, *, level: int | str = -1, backend: Backend = "auto"
) -> tuple[LoDTensor, LoDTensor]:
    """Return `sequence_unique`, and the count of each value, int64 of the same shape.

    Args:
        tensor, backend: as for `sequence_unique`.
        level: the level of the sequences; by default the finest.

    >>> values, counts = sequence_unique_counts(LoDTensor(np.array([3, 1, 3, 1]), [[3, 1]]))
    >>> values.data.tolist(), counts.data.tolist()
    ([1, 3, 1], [1, 2, 1])
    """
    return _unique(tensor, level, "sequence_unique_counts", backend)


@types_explained
def sequence_deduplicate(
    tensor: LoDTensor, *, level: int | str = -1, adjacent: bool = True, backend: Backend = "auto"
) -> LoDTensor:
    """Return the sequences without rows equal to the one before, or to any earlier one.

    Args:
        tensor: data (N, ...), any dtype. Rows are equal when all their values
            are; NaN equals NaN.
        level: the level of the sequences, each with all its rows; by default the finest.
        adjacent: drop a row only if it equals the one just before it in its sequence;
            otherwise if it equals any before it.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        The remaining rows, in their order. The finest level shrinks, which may leave
        empty sequences where `level` is above it; the others stay as they are.

    Raises:
        SelectionError: there is no such level.

    >>> tensor = LoDTensor(np.array([1, 1, 2, 1, 1]), [[4, 1]])
    >>> sequence_deduplicate(tensor).data.tolist()
    [1, 2, 1, 1]
    >>> sequence_deduplicate(tensor, adjacent=False)
    LoDTensor(3 int64, [[1, 2], [1]])
    """
    offsets = segments(tensor, level, "sequence_deduplicate")
    run = on(backend, segment_deduplicate, size_bytes=tensor.nbytes)
    rows, bounds = run(tensor.data, offsets, tensor.lod.levels[-1], adjacent)
    return moved(tensor, rows, recut(tensor.lod, -1, bounds))


@types_explained
def sequence_searchsorted(
    tensor: LoDTensor,
    values: LoDTensor,
    *,
    level: int | str = -1,
    side: Literal["left", "right"] = "left",
    backend: Backend = "auto",
) -> LoDTensor:
    """Return the positions at which to insert the values of sequence s into sorted sequence s.

    Args:
        tensor: one value per row, (N,) or (N, 1), ascending in every sequence (NaN last).
        values: the values to insert, (M,) or (M, 1), same dtype and number of sequences.
        level: the level of both tensors whose sequences are paired; by default the finest.
        side: insert a value to the "left" of equal sorted values, or to their "right".
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        int64, the shape and index of `values`: 0 to the length of the sequence.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are complex or have several values, the dtypes differ, `side` is
            invalid, or a sequence is not sorted; names it.
        ShapeMismatchError: the numbers of sequences differ.

    >>> tensor = LoDTensor(np.array([1, 3, 5, 2]), [[3, 1]])
    >>> sequence_searchsorted(tensor, LoDTensor(np.array([3, 9, 0]), [[2, 1]])).data.tolist()
    [1, 3, 0]
    """
    op = "sequence_searchsorted"
    offsets, bounds = ordered_offsets(tensor, level, op), ordered_offsets(values, level, op)
    data, wanted = _column(tensor, op), _column(values, op)
    if side not in ("left", "right"):
        raise OptionError(f"{op}: side must be 'left' or 'right', found {side!r}")
    if data.dtype != wanted.dtype:
        raise InvalidDataError(f"{op}: sorted values of {data.dtype}, values of {wanted.dtype}")
    if offsets.size != bounds.size:
        raise ShapeMismatchError(
            f"{op}: {offsets.size - 1} sorted sequences, {bounds.size - 1} sequences of values"
        )
    _require_sorted(data, offsets, op)
    run = on(backend, segment_searchsorted, size_bytes=data.nbytes + wanted.nbytes)
    return values._with_rows(run(data, offsets, wanted, bounds, side).reshape(values.data.shape))


@types_explained
def sequence_histogram(
    tensor: LoDTensor, edges: npt.ArrayLike, *, level: int | str = -1, backend: Backend = "auto"
) -> LoDTensor:
    """Return the number of values of every sequence in each bin.

    Args:
        tensor: one value per row, (N,) or (N, 1), any dtype but complex.
        edges: (B+1,) ascending numbers. Bin b holds edges[b] <= x < edges[b+1], the last
            one its upper edge as well; other values and NaN are not counted.
        level: the level whose S sequences become rows; by default the finest.
        backend: "auto", "numpy", "numba" or "cupy".

    Returns:
        int64 (S, B) under the levels above `level`.

    Raises:
        SelectionError: there is no such level.
        InvalidDataError: the rows are complex or have several values, or `edges` do not ascend.

    >>> tensor = LoDTensor(np.array([0.5, 1.0, 2.0, 7.0]), [[3, 1]])
    >>> sequence_histogram(tensor, [0, 1, 2]).data.tolist()
    [[1, 2], [0, 0]]
    """
    op = "sequence_histogram"
    offsets, data = ordered_offsets(tensor, level, op), _column(tensor, op)
    cuts = on_host(edges, f"{op}: edges")
    if cuts.ndim != 1 or cuts.size < 2:
        raise OptionError(f"{op}: expected 2 or more edges in a row, found {cuts.shape}")
    if cuts.dtype.kind not in "iu" and not is_float(cuts.dtype):
        raise InvalidDataError(f"{op}: edges must be real numbers, found {cuts.dtype}")
    wrong = (~(cuts[:-1] < cuts[1:])).nonzero()[0]
    if wrong.size:
        at = int(wrong[0])
        raise OptionError(
            f"{op}: edges must ascend, found {cuts[at]} and then {cuts[at + 1]} at {at + 1}"
        )
    bins: npt.NDArray[np.bool_] | None = None
    if data.dtype.kind in "iu" and cuts.dtype != data.dtype and _is_beyond_floats(cuts):
        cuts, bins = _whole_edges(cuts, data.dtype)
    with np.errstate(all="ignore"):  # a NaN may be signalling
        counts = on(backend, segment_histogram, size_bytes=data.nbytes)(data, offsets, cuts)
    if bins is not None:
        some, counts = counts, np.zeros_like(counts, shape=(len(counts), bins.size))
        counts[:, bins] = some[:, : np.count_nonzero(bins)]
    return LoDTensor._made(counts, tensor.lod.above(level))


def _is_beyond_floats(edges: Array) -> bool:
    """Return whether float64 rounds whole numbers as large as one of the ascending edges."""
    return bool(max(abs(float(edges[0])), abs(float(edges[-1]))) >= 1 << 53)


def _whole_edges(edges: Array, dtype: np.dtype[Any]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Return edges in an integer dtype, and a mask of the bins between them; others are empty.

    NumPy compares 64-bit integers and edges of another dtype in float64, which rounds them.
    """
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    *firsts, last = comparable(edges).tolist()
    lows = [math.ceil(min(max(edge, least), most + 1)) for edge in firsts]
    highs = [*(low - 1 for low in lows[1:]), math.floor(min(max(last, least - 1), most))]
    bins = np.less_equal(np.array(lows, object), np.array(highs, object)).astype(np.bool_)
    whole = [low for low, holds in zip(lows, bins, strict=True) if holds]
    if not whole:
        return edges, bins
    return np.array([*whole, highs[int(bins.nonzero()[0][-1])]], dtype), bins


def _column(tensor: LoDTensor, op: str) -> Array:
    if tensor.row_shape not in ((), (1,)):
        raise InvalidDataError(f"{op} needs one value per row, found rows of {tensor.row_shape}")
    return tensor.data.reshape(tensor.rows)


def _require_sorted(data: Array, offsets: Offsets, op: str) -> None:
    row = on("auto", segment_first_fall, size_bytes=data.nbytes)(data, offsets)
    if row >= 0:
        sequence, place = branch_below((offsets,), row)
        raise InvalidDataError(
            f"{op}: sequence {sequence} is not sorted: {data[row - 1]} and then {data[row]} at "
            f"its row {place}; use sequence_sort"
        )


def _unique(
    tensor: LoDTensor, level: int | str, op: str, backend: Backend
) -> tuple[LoDTensor, LoDTensor]:
    offsets, data = ordered_offsets(tensor, level, op), _column(tensor, op)
    run = on(backend, segment_unique, size_bytes=data.nbytes)
    values, counts, bounds = run(data, offsets)
    lod, shape = recut(tensor.lod, level, bounds), (-1, *tensor.row_shape)
    found = values.reshape(shape), counts.reshape(shape)
    return moved(tensor, found[0], lod), LoDTensor._made(found[1], lod)


# -- NumPy -----------------------------------------------------------------------------


def segment_order(
    data: Array, offsets: Offsets, descending: bool, bounds: Offsets | None = None
) -> Offsets:
    """Return the row that each row of the sorted columns comes from: (N, ...) to (N, ...).

    Args:
        bounds: (S+1,), offsets whose lengths are the number of rows needed of each segment; the
            values of the others are undefined. None: all.
    """
    if descending:
        # Sorted ascending from the last row to the first, so that equal values keep their order.
        turned = segment_order(data[::-1], offsets[-1] - offsets[::-1], False)
        return len(data) - 1 - turned[::-1]
    of = np.broadcast_to(per_row(segment_numbers(offsets), data.ndim), data.shape)
    result: Offsets = np.lexsort((comparable(data), of), axis=0)
    return result


def segment_picked(data: Array, rows: Offsets) -> Array:
    """Return data[rows] by column: (N, ...) and (M, ...) to (M, ...).

    >>> segment_picked(np.array([[1, 2], [3, 4]]), np.array([[1, 0]])).tolist()
    [[3, 2]]
    """
    found: Array = flat_rows(data)[flat_rows(rows), np.arange(row_width(data.shape))]
    return found.reshape(rows.shape)


def segment_places(order: Offsets, offsets: Offsets) -> Offsets:
    """Return the positions of ordered rows in their segments: (N, ...) to (N, ...)."""
    return order - per_row(segment_broadcast(offsets[:-1], offsets), order.ndim)


def segment_best(
    data: Array, order: Offsets, offsets: Offsets, bounds: Offsets
) -> tuple[Array, Offsets]:
    """Return the first of the ordered values of each segment, and their positions in it.

    Args:
        data: (N, ...).
        order: (N, ...), as `segment_order` returns it.
        offsets: (S+1,), of the segments.
        bounds: (S+1,), offsets of the result: how many values of each segment are returned.
    """
    rows = segment_slice(order, offsets[:-1], bounds)
    places = rows - per_row(segment_broadcast(offsets[:-1], bounds), rows.ndim)
    return segment_picked(data, rows), places


def segment_unsorted(best: Array, order: Offsets, offsets: Offsets, bounds: Offsets) -> Array:
    """Return the gradient of `segment_best` for its data: 0 for values that it does not return.

    Args:
        best: (M, ...), the gradient of the returned values.
        order, offsets, bounds: as passed to the op.
    """
    return segment_max_grad(best, segment_slice(order, offsets[:-1], bounds), len(order))


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Offsets, Offsets]:
    """Return the unique values of each segment, the count of each, and the offsets.

    Args:
        data: (N,).
    """
    values = data[segment_order(data, offsets, False)]
    new = differs(comparable(values)[:, None], segment_numbers(offsets))
    return distinct(values, new, offsets)


def distinct(
    values: Array, new: npt.NDArray[np.bool_], offsets: Offsets
) -> tuple[Array, Offsets, Offsets]:
    """Return the values where `new` is true, the count of each, and their offsets.

    Args:
        values: (N,), sorted in each segment.
        new: (N,), whether a value differs from the previous one or starts a segment.
        offsets: (S+1,).
    """
    places = new.nonzero()[0]
    counts = offsets_to_lengths(np.concatenate((places, [len(values)])))
    return values[places], counts, places.searchsorted(offsets)


def segment_deduplicate(
    data: Array, offsets: Offsets, bounds: Offsets, adjacent: bool
) -> tuple[Array, Offsets]:
    """Return the remaining rows, and the new offsets of the finest segments.

    Args:
        data: (N, ...).
        offsets: of the segments whose rows are compared.
        bounds: of the finest segments.
        adjacent: whether each row is compared only with the one before.
    """
    return segment_compress(data, bounds, segment_first_of_equal(data, offsets, adjacent))


def segment_first_of_equal(data: Array, offsets: Offsets, adjacent: bool) -> npt.NDArray[np.bool_]:
    """Return a mask of rows that equal no earlier row of their segment, (N,).

    With `adjacent`, rows are compared only with the one before.
    """
    rows, of = comparable(flat_rows(data)), segment_numbers(offsets)
    if rows.dtype.kind == "c":
        rows = rows.view(rows.real.dtype)
    if adjacent:
        return differs(rows, of)
    order = np.lexsort((*rows.T, of))
    kept = np.empty(len(rows), np.bool_)
    kept[order] = differs(rows[order], of[order])
    return kept


def segment_first_fall(data: Array, offsets: Offsets) -> int:
    """Return the first row less than the one before it in its segment; -1 if there is none.

    Args:
        data: (N,).
        offsets: (S+1,).
    """
    values, of = comparable(data), segment_numbers(offsets)
    here, last = values[1:], values[:-1]
    # NaN is the greatest value, but every comparison with it is false.
    wrong = (of[1:] == of[:-1]) & ~((last <= here) | (here != here))
    return int(wrong.argmax()) + 1 if np.count_nonzero(wrong) else -1


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Offsets:
    """Return the insertion position of each value in the same segment of `data`, (M,).

    Args:
        data: (N,), sorted in each of the segments of `offsets`.
        values: (M,), in the segments of `bounds`.
        side: "left" or "right".
    """
    both = np.concatenate((comparable(data), comparable(values)))
    of = np.concatenate((segment_numbers(offsets), segment_numbers(bounds)))
    ours = np.zeros(both.size, np.bool_)
    ours[: len(data)] = True
    # One merge for all segments: the position is the number of values of `data` before it.
    order = np.lexsort((ours if side == "left" else ~ours, both, of))
    before = np.empty(both.size, np.int64)
    before[order] = np.cumsum(ours[order])
    return before[len(data) :] - offsets[segment_numbers(bounds)]


def segment_histogram(data: Array, offsets: Offsets, edges: Array) -> Offsets:
    """Return the counts of each segment, (S, B), from (N,) values and (B+1,) edges."""
    values, cuts = comparable(data), comparable(edges)
    bins, count = edges.size - 1, offsets.size - 1
    place = np.searchsorted(cuts, values, side="right") - 1
    place[values == cuts[-1]] = bins - 1
    inside = (place >= 0) & (place < bins)
    cells = segment_numbers(offsets)[inside] * bins + place[inside]
    return np.bincount(cells, minlength=count * bins).reshape(count, bins).astype(np.int64)
