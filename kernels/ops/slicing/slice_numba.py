"""See ops/slice.py. Rows are copied as bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.ops.slicing import slice as reference
from lodcli.kernels.runtime.jit_numba import numba
from lodcli.kernels.runtime.numba_threads import run
from lodcli.kernels.simd.row_copies import frozen, gather_ranges

PIECE_SEGMENTS = 1 << 14


def segment_slice(
    data: Array, starts: Offsets, offsets: Offsets, *, out: Array | None = None
) -> Array:
    """See ops/slice.py."""
    return gather_ranges(data, starts, offsets, out=out)


def segment_part(offsets: Offsets, first: Offsets, count: Offsets) -> tuple[Offsets, Offsets, bool]:
    """See ops/slice.py."""
    starts, bounds = np.empty(offsets.size - 1, np.int64), np.empty(offsets.size, np.int64)
    totals = np.zeros((2, -(-starts.size // PIECE_SEGMENTS) + 1), np.int64)
    run(
        *(_part, 5 * offsets.nbytes, frozen(offsets), frozen(first), frozen(count)),
        *(starts, bounds, totals[0], totals[1]),
    )
    return starts, bounds, not (totals[1] < 0).any()


@numba.njit(parallel=True, cache=True, nogil=True)
def _part(
    offsets: Any, first: Any, count: Any, starts: Any, bounds: Any, totals: Any, signs: Any
) -> None:
    pieces, segments = totals.size - 1, starts.size
    for piece in numba.prange(pieces):
        lo, hi = piece * PIECE_SEGMENTS, min((piece + 1) * PIECE_SEGMENTS, segments)
        totals[piece + 1], signs[piece] = _total(
            offsets[lo:hi], offsets[lo + 1 : hi + 1], first[lo:hi], count[lo:hi]
        )
    for piece in range(pieces):
        totals[piece + 1] += totals[piece]
    bounds[segments] = totals[pieces]
    for piece in numba.prange(pieces):
        lo, hi = piece * PIECE_SEGMENTS, min((piece + 1) * PIECE_SEGMENTS, segments)
        _place(totals[piece], offsets[lo:hi], first[lo:hi], count[lo:hi], starts[lo:], bounds[lo:])


# Loops over slices from their beginning: only there numba knows that no index is negative.
@numba.njit(nogil=True)
def _total(begins: Any, ends: Any, first: Any, count: Any) -> Any:
    """Return the sum of `count`, and a negative number if a part leaves its segment."""
    total, sign = 0, 0
    for s in range(count.size):
        left = ends[s] - begins[s] - first[s]
        # Negative if one of them is. Where the others are not, left - count cannot overflow.
        sign |= first[s] | count[s] | left | (left - count[s])
        total += count[s]
    return total, sign


@numba.njit(nogil=True)
def _place(total: int, begins: Any, first: Any, count: Any, starts: Any, bounds: Any) -> None:
    for s in range(count.size):
        starts[s] = begins[s] + first[s]
    for s in range(count.size):
        bounds[s] = total
        total += count[s]


# NumPy's own loops are as quick: there is nothing to compile.
segment_place = reference.segment_place
