"""Kernels of sorting, searching and counting in segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.ops.sorting import ranks_numba as ranks
from lodcli.kernels.simd.row_partition_numba import segments_of_piece

_MOST_FIRST, _LEAST_ROWS = ranks.MOST_FIRST, ranks.LEAST_ROWS
_keys_of, _first_rows, _sorted_rows = ranks.keys_of, ranks.first_rows, ranks.sorted_rows
_TYPES = (*FLOATS, "int64")


@function(inline="always")
def _before(a: Any, b: Any) -> Any:
    """Return whether a precedes b; a NaN is the greatest."""
    return a < b or (b != b and a == a)


@kernel(types=_TYPES)
def order(
    data: Pointer[T], offsets: Pointer[np.int64], bounds: Pointer[np.int64],
    out: Pointer[np.int64], scratch: Pointer[np.int64], segments: int, width: int,
    descending: bool, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the rows of each segment, sorted by each column, to `out`.

    Args:
        data, out: (N, width).
        bounds: offsets of how many rows of each segment are needed; None: all. The rest is not
            written.
        scratch: (4, N).
    """
    total = offsets[segments]
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        # The same scratch for all segments of a piece: it stays in the cache.
        keys = scratch + offsets[begin]
        other_keys, rows, other_rows = keys + total, keys + 2 * total, keys + 3 * total
        for s in range(begin, after):
            lo, count = offsets[s], offsets[s + 1] - offsets[s]
            needed = bounds[s + 1] - bounds[s] if address(bounds) else count
            few = needed <= _MOST_FIRST and 4 * needed <= count and count >= _LEAST_ROWS
            # Column by column of one segment, whose rows stay in the cache.
            for k in range(width):
                x, to = data + lo * width + k, out + lo * width + k
                _keys_of(x, count, width, descending, keys)
                if few:
                    _first_rows(keys, count, needed, other_keys, rows)
                    found = rows
                elif _sorted_rows(keys, rows, other_keys, other_rows, count):
                    found = other_rows
                else:
                    found = rows
                for row in range(needed):
                    to[row * width] = lo + found[row]
    return 0


@kernel(types=("uint8", "uint16", "uint32", "uint64"))
def pick(
    data: Pointer[T], rows: Pointer[np.int64], out: Pointer[T], count: int, width: int,
    pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write for each column the values of `data` at the rows in the same column of `rows`."""
    for row in range(first * count // pieces, last * count // pieces):
        named, to = rows + row * width, out + row * width
        for k in range(width):
            to[k] = data[named[k] * width + k]
    return 0


@kernel()
def firsts(
    order: Pointer[np.int64], offsets: Pointer[np.int64], bounds: Pointer[np.int64],
    out: Pointer[np.int64], places: bool, segments: int, width: int, pieces: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write the first bounds[s+1] - bounds[s] rows of `order` of each segment, or their
    positions."""
    for piece in range(first, last):
        begin, after = segments_of_piece(bounds, segments, piece, pieces)
        for s in range(begin, after):
            source, to = order + offsets[s] * width, bounds[s] * width
            lo = offsets[s] if places else 0
            for k in range((bounds[s + 1] - bounds[s]) * width):
                out[to + k] = source[k] - lo
    return 0


@kernel(types=("uint8", "uint16", "uint32", "uint64"))
def best(
    data: Pointer[T], order: Pointer[np.int64], offsets: Pointer[np.int64],
    bounds: Pointer[np.int64], values: Pointer[T], places: Pointer[np.int64], segments: int,
    width: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Like `pick` for the rows of `firsts`; also write their positions."""
    for piece in range(first, last):
        begin, after = segments_of_piece(bounds, segments, piece, pieces)
        for s in range(begin, after):
            for row in range(bounds[s], bounds[s + 1]):
                source, to = order + (offsets[s] + row - bounds[s]) * width, row * width
                for k in range(width):
                    values[to + k] = data[source[k] * width + k]
                    places[to + k] = source[k] - offsets[s]
    return 0


@kernel(types=_TYPES)
def differs(
    x: Pointer[T], offsets: Pointer[np.int64], out: Pointer[np.uint8], segments: int, width: int,
    pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write for rows (N, width) whether each differs from the previous row of its segment."""
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            for r in range(offsets[s], offsets[s + 1]):
                other = r == offsets[s]
                k = 0
                while not other and k < width:
                    here, before = x[r * width + k], x[(r - 1) * width + k]
                    other = here != before and (here == here or before == before)
                    k += 1
                out[r] = 1 if other else 0
    return 0


@kernel(types=_TYPES)
def runs(
    keys: Pointer[T], order: Pointer[np.int64], offsets: Pointer[np.int64],
    firsts: Pointer[np.int64], counts: Pointer[np.int64], bounds: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Write the first row of each run of equal values, their lengths, and the offsets of the
    runs."""
    found = 0
    bounds[0] = 0
    for s in range(segments):
        for r in range(offsets[s], offsets[s + 1]):
            here, before = keys[order[r]], keys[order[max(r - 1, 0)]]
            if r == offsets[s] or (here != before and (here == here or before == before)):
                firsts[found] = order[r]
                counts[found] = 0
                found += 1
            counts[found - 1] += 1
        bounds[s + 1] = found
    return 0


@kernel(types=_TYPES)
def first_fall(
    data: Pointer[T], offsets: Pointer[np.int64], out: Pointer[np.int64], segments: int,
    pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the first row of each piece that is less than the previous one of its segment; -1 if
    none."""
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        out[piece] = -1
        for s in range(begin, after):
            for row in range(offsets[s] + 1, offsets[s + 1]):
                if _before(data[row], data[row - 1]):
                    out[piece] = row
                    break
            if out[piece] >= 0:
                break
    return 0


@kernel(types=_TYPES)
def searchsorted(
    data: Pointer[T], offsets: Pointer[np.int64], values: Pointer[T], bounds: Pointer[np.int64],
    out: Pointer[np.int64], segments: int, right: bool, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the insertion point of each value, in segments by `bounds`, in that segment of
    `data`."""
    for piece in range(first, last):
        begin, after = segments_of_piece(bounds, segments, piece, pieces)
        for s in range(begin, after):
            for row in range(bounds[s], bounds[s + 1]):
                low, high, value = offsets[s], offsets[s + 1], values[row]
                while low < high:
                    middle = (low + high) // 2
                    if right:
                        lower = not _before(value, data[middle])
                    else:
                        lower = _before(data[middle], value)
                    if lower:
                        low = middle + 1
                    else:
                        high = middle
                out[row] = low - offsets[s]
    return 0


@kernel(types=_TYPES)
def histogram(
    values: Pointer[T], offsets: Pointer[np.int64], edges: Pointer[T], out: Pointer[np.int64],
    segments: int, bins: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Count the values of each segment between edges: (segments, bins)."""
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            counts = out + s * bins
            for b in range(bins):
                counts[b] = 0
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
                counts[low] += 1
    return 0
