"""See ops/order.py. Each segment is sorted by itself, merging runs; places come by bisection."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.ops.common import flat_rows, is_half
from lodcli.kernels.ops.sorting import sort as reference
from lodcli.kernels.runtime.jit_numba import numba

_RUN = 12  # rows that are sorted by insertion


def segment_order(data: Array, offsets: Offsets, descending: bool) -> Offsets:
    """See ops/order.py."""
    rows = flat_rows(_few_dtypes(data))
    out = np.empty(rows.shape, np.int64)
    places, scratch = np.empty((2, len(rows)), np.int64)
    for k in range(rows.shape[1]):
        _order(np.ascontiguousarray(rows[:, k]), offsets, descending, places, scratch)
        out[:, k] = places
    return out.reshape(data.shape)


def segment_unique(data: Array, offsets: Offsets) -> tuple[Array, Offsets, Offsets]:
    """See ops/order.py."""
    values = data[segment_order(data, offsets, False)]
    new = _differs(_few_dtypes(values)[:, None], offsets)
    counts = np.diff(np.flatnonzero(new), append=len(data))
    return values[new], counts, lengths_to_offsets(new.astype(np.int64), level=0)[offsets]


def segment_first_of_equal(data: Array, offsets: Offsets, adjacent: bool) -> npt.NDArray[np.bool_]:
    """See ops/order.py."""
    if not adjacent:
        return reference.segment_first_of_equal(data, offsets, adjacent)
    rows = flat_rows(_few_dtypes(data))
    if rows.dtype.kind == "c":
        rows = rows.view(rows.real.dtype)
    result: npt.NDArray[np.bool_] = _differs(rows, offsets)
    return result


def segment_searchsorted(
    data: Array, offsets: Offsets, values: Array, bounds: Offsets, side: str
) -> Offsets:
    """See ops/order.py."""
    out = np.empty(len(values), np.int64)
    ours, wanted = (np.ascontiguousarray(_few_dtypes(one)) for one in (data, values))
    _searchsorted(ours, offsets, wanted, bounds, side == "right", out)
    return out


def segment_histogram(data: Array, offsets: Offsets, edges: Array) -> Offsets:
    """See ops/order.py."""
    values, cuts = (np.ascontiguousarray(_few_dtypes(one)) for one in (data, edges))
    if values.dtype != cuts.dtype:
        # NumPy compares in the dtype that holds both.
        both = np.result_type(values, cuts)
        values, cuts = values.astype(both), cuts.astype(both)
    out = np.zeros((offsets.size - 1, edges.size - 1), np.int64)
    _histogram(values, offsets, cuts, out)
    return out


def _few_dtypes(data: Array) -> Array:
    """Return the same numbers in one of four dtypes: kernels are compiled for each."""
    if is_half(data.dtype):
        return data.astype(np.float32)
    if data.dtype.kind in "ui":
        return data.astype(np.uint64 if data.dtype.kind == "u" else np.int64, copy=False)
    return data.astype(np.uint64) if data.dtype == np.bool_ else data


@numba.njit(cache=True, nogil=True, inline="always")
def _before(a: Any, b: Any, descending: bool) -> Any:
    """Return whether a stands before b; a NaN is the greatest."""
    if descending:
        return a > b or (a != a and b == b)
    return a < b or (b != b and a == a)


@numba.njit(parallel=True, cache=True, nogil=True)
def _order(keys: Any, offsets: Any, descending: bool, places: Any, scratch: Any) -> None:
    for s in numba.prange(offsets.size - 1):
        _sort(keys, offsets[s], offsets[s + 1], descending, places, scratch)


@numba.njit(cache=True, nogil=True)
def _sort(keys: Any, lo: int, hi: int, descending: bool, places: Any, scratch: Any) -> None:
    """Fill places[lo:hi] with the rows lo..hi in order; equal ones stay in theirs."""
    for first in range(lo, hi, _RUN):
        for row in range(first, min(first + _RUN, hi)):
            at = row
            while at > first and _before(keys[row], keys[places[at - 1]], descending):
                places[at] = places[at - 1]
                at -= 1
            places[at] = row
    source, to, size, moved = places, scratch, _RUN, False
    while size < hi - lo:
        for first in range(lo, hi, 2 * size):
            middle, end = min(first + size, hi), min(first + 2 * size, hi)
            _merge(keys, descending, source, first, middle, end, to)
        source, to, size, moved = to, source, 2 * size, not moved
    if moved:
        places[lo:hi] = source[lo:hi]


@numba.njit(cache=True, nogil=True)
def _merge(
    keys: Any, descending: bool, source: Any, first: int, middle: int, end: int, to: Any
) -> None:
    """Write two sorted runs of `source` to first..end of `to` as one."""
    a, b = first, middle
    for at in range(first, end):
        # Of the second run only what stands before: equal ones come first from the first.
        if b < end and (a == middle or _before(keys[source[b]], keys[source[a]], descending)):
            to[at] = source[b]
            b += 1
        else:
            to[at] = source[a]
            a += 1


@numba.njit(parallel=True, cache=True, nogil=True)
def _differs(rows: Any, offsets: Any) -> Any:
    """See ops/order.py, differs."""
    out = np.zeros(rows.shape[0], np.bool_)
    for s in numba.prange(offsets.size - 1):
        for r in range(offsets[s], offsets[s + 1]):
            other = r == offsets[s]
            k = 0
            while not other and k < rows.shape[1]:
                here, last = rows[r, k], rows[r - 1, k]
                other = here != last and (here == here or last == last)
                k += 1
            out[r] = other
    return out


@numba.njit(parallel=True, cache=True, nogil=True)
def _searchsorted(data: Any, offsets: Any, values: Any, bounds: Any, right: bool, out: Any) -> None:
    for s in numba.prange(bounds.size - 1):
        for row in range(bounds[s], bounds[s + 1]):
            low, high, value = offsets[s], offsets[s + 1], values[row]
            while low < high:
                middle = (low + high) // 2
                if right:
                    lower = not _before(value, data[middle], False)
                else:
                    lower = _before(data[middle], value, False)
                if lower:
                    low = middle + 1
                else:
                    high = middle
            out[row] = low - offsets[s]


@numba.njit(parallel=True, cache=True, nogil=True)
def _histogram(values: Any, offsets: Any, edges: Any, out: Any) -> None:
    bins = edges.size - 1
    for s in numba.prange(out.shape[0]):
        for row in range(offsets[s], offsets[s + 1]):
            value = values[row]
            if not (edges[0] <= value <= edges[bins]):
                continue
            low, high = 0, bins
            while high - low > 1:
                middle = (low + high) // 2
                if edges[middle] <= value:
                    low = middle
                else:
                    high = middle
            out[s, low] += 1
