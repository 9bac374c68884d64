"""See sort.py. Segments are sorted by ranks and merges; insertion points by binary search."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.ops.dtypes import WORDS, is_half
from lodcli.kernels.ops.halves_native import widened
from lodcli.kernels.ops.ids.ids import segment_compress
from lodcli.kernels.ops.pooling.pool_grad_native import segment_max_grad
from lodcli.kernels.ops.rows import flat_rows, piece_count, real_columns
from lodcli.kernels.ops.sorting import sort as reference
from lodcli.kernels.runtime.buffers import empty

_MODULE = "kernels.ops.sorting.sort_numba"
_order, _firsts, _best, _differs, _runs = (
    load.kernel(_MODULE, name) for name in ("order", "firsts", "best", "differs", "runs")
)
_first_fall, _searchsorted, _histogram, _pick = (
    load.kernel(_MODULE, name) for name in ("first_fall", "searchsorted", "histogram", "pick")
)
_INT64, _UINT64 = np.dtype(np.int64), np.dtype(np.uint64)
_TOP_BIT = np.uint64(1 << 63)


def segment_order(
    data: Array, offsets: Offsets, descending: bool, bounds: Offsets | None = None
) -> Offsets:
    """See sort.py."""
    rows = flat_rows(_comparable(data))
    (count, width), out = rows.shape, empty(data.shape, _INT64)
    pieces = piece_count(rows)
    run(
        _order[rows.dtype.char], pieces, 3 * out.nbytes, rows, np.ascontiguousarray(offsets),
        None if bounds is None else np.ascontiguousarray(bounds),
        out, empty((4, count), _INT64), offsets.size - 1, width, descending, pieces,
    )  # fmt: skip
    return out


def segment_picked(data: Array, rows: Offsets) -> Array:
    """See sort.py."""
    values, given = flat_rows(data), flat_rows(rows)
    out, word = np.empty(rows.shape, data.dtype), WORDS[data.itemsize]
    pieces = piece_count(given)
    run(
        _pick[word.char], pieces, 3 * out.nbytes, values.view(word), given, out.view(word),
        *given.shape, pieces,
    )  # fmt: skip
    return out


def segment_places(order: Offsets, offsets: Offsets) -> Offsets:
    """See sort.py."""
    return _first(order, offsets, offsets, places=True)


def segment_best(
    data: Array, order: Offsets, offsets: Offsets, bounds: Offsets
) -> tuple[Array, Offsets]:
    """See sort.py."""
    given, shape = flat_rows(order), (bounds.item(-1), *order.shape[1:])
    values, places = np.empty(shape, data.dtype), np.empty(shape, _INT64)
    word, pieces = WORDS[data.itemsize], piece_count(given)
    run(
        _best[word.char], pieces, 4 * places.nbytes, flat_rows(data).view(word), given,
        np.ascontiguousarray(offsets), np.ascontiguousarray(bounds), values.view(word), places,
        bounds.size - 1, given.shape[1], pieces,
    )  # fmt: skip
    return values, places


def segment_unsorted(best: Array, order: Offsets, offsets: Offsets, bounds: Offsets) -> Array:
    """See sort.py."""
    # If the bounds are the offsets, all rows are needed.
    rows = order if offsets is bounds else _first(order, offsets, bounds, places=False)
    return segment_max_grad(best, rows, len(order))


def _first(order: Offsets, offsets: Offsets, bounds: Offsets, *, places: bool) -> Offsets:
    """Return the first of the ordered rows of each segment, or their positions in it."""
    given = flat_rows(order)
    found = np.empty((bounds.item(-1), *order.shape[1:]), _INT64)
    pieces = piece_count(given)
    run(
        _firsts[""], pieces, 2 * found.nbytes, given, np.ascontiguousarray(offsets),
        np.ascontiguousarray(bounds), found, places, bounds.size - 1, given.shape[1], pieces,
    )  # fmt: skip
    return found


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Offsets, Offsets]:
    """See sort.py."""
    keys, order = np.ascontiguousarray(_comparable(data)), segment_order(data, offsets, False)
    firsts, counts = np.empty(len(data), np.int64), np.empty(len(data), np.int64)
    bounds = unwritten(offsets.size)
    _runs[keys.dtype.char].call(
        0, 1, keys, order, np.ascontiguousarray(offsets), firsts, counts, bounds,
        offsets.size - 1,
    )  # fmt: skip
    found = int(bounds[-1])
    return data[firsts[:found]], counts[:found].copy(), bounds


def segment_deduplicate(
    data: Array, offsets: Offsets, bounds: Offsets, adjacent: bool
) -> tuple[Array, Offsets]:
    """See sort.py."""
    if not adjacent:
        return reference.segment_deduplicate(data, offsets, bounds, adjacent)
    kept = _changes(real_columns(flat_rows(_comparable(data))), offsets)
    return segment_compress(data, bounds, kept)


def segment_first_fall(data: Array, offsets: Offsets) -> int:
    """See sort.py."""
    rows = np.ascontiguousarray(_comparable(data))
    pieces = piece_count(rows)
    found = np.empty(pieces, np.int64)
    run(
        _first_fall[rows.dtype.char], pieces, rows.nbytes, rows, np.ascontiguousarray(offsets),
        found, offsets.size - 1, pieces,
    )  # fmt: skip
    # Pieces are in row order.
    return next((row for row in found.tolist() if row >= 0), -1)


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Offsets:
    """See sort.py."""
    out = np.empty(len(values), np.int64)
    ours, wanted = (np.ascontiguousarray(_comparable(one)) for one in (data, values))
    pieces = piece_count(wanted)
    run(
        _searchsorted[ours.dtype.char], pieces, 2 * wanted.nbytes + ours.nbytes, ours,
        np.ascontiguousarray(offsets), wanted, np.ascontiguousarray(bounds), out,
        bounds.size - 1, side == "right", pieces,
    )  # fmt: skip
    return out


def segment_histogram(data: Array, offsets: Offsets, edges: Array) -> Offsets:
    """See sort.py."""
    values, cuts = _wide(data), _wide(edges)
    # NumPy compares in the common dtype.
    both = np.result_type(values, cuts)
    values, cuts = (
        np.ascontiguousarray(_comparable(one.astype(both, copy=False))) for one in (values, cuts)
    )
    out = np.empty((offsets.size - 1, edges.size - 1), np.int64)
    pieces = piece_count(values)
    run(
        _histogram[values.dtype.char], pieces, values.nbytes, values,
        np.ascontiguousarray(offsets), cuts, out, *out.shape, pieces,
    )  # fmt: skip
    return out


def _changes(rows: Array, offsets: Offsets) -> npt.NDArray[np.bool_]:
    """See sort.py, differs."""
    out = np.empty(len(rows), np.bool_)
    pieces = piece_count(rows)
    run(
        _differs[rows.dtype.char], pieces, rows.nbytes, np.ascontiguousarray(rows),
        np.ascontiguousarray(offsets), out.view(np.uint8), offsets.size - 1, rows.shape[1],
        pieces,
    )  # fmt: skip
    return out


def _wide(data: Array) -> Array:
    """Return the same numbers as 64-bit integers, or without half precision."""
    if is_half(data.dtype):
        return widened(data)
    whole = data.dtype.kind in "uib" and data.dtype != _UINT64
    return data.astype(np.int64, copy=False) if whole else data


def _comparable(data: Array) -> Array:
    """Return numbers in a compiled dtype with the same order."""
    if data.dtype.char in "fdl":  # fast path
        return data
    wide = _wide(data)
    return (wide ^ _TOP_BIT).view(np.int64) if wide.dtype == _UINT64 else wide
