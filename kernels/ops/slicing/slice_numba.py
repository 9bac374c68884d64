"""Kernels that compute the ranges of slices of segments, and find slices out of bounds."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def cut(
    offsets: Pointer[np.int64], starts: Pointer[np.int64], counts: Pointer[np.int64],
    segments: int, length: int, at_end: bool,
) -> int:  # fmt: skip
    """Write the start and length of the first, or last, `length` items of each segment."""
    for s in range(segments):
        items = offsets[s + 1] - offsets[s]
        counts[s] = min(items, length)
        starts[s] = items - counts[s] if at_end else 0
    return 0


@kernel()
def part_totals(
    counts: Pointer[np.int64], totals: Pointer[np.int64], segments: int, piece_segments: int,
    first: int, last: int,
) -> int:  # fmt: skip
    """Write the sum of the counts of each piece."""
    for piece in range(first, last):
        total = 0
        for s in range(piece * piece_segments, min((piece + 1) * piece_segments, segments)):
            total += counts[s]
        totals[piece] = total
    return 0


@kernel()
def part_bounds(
    offsets: Pointer[np.int64], starts: Pointer[np.int64], counts: Pointer[np.int64],
    before: Pointer[np.int64], rows: Pointer[np.int64], bounds: Pointer[np.int64],
    segments: int, piece_segments: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write where each slice begins, and its offsets in the result; return 1 if one is out of
    bounds.

    Args:
        before: the sum of the counts before each piece.
    """
    sign = 0
    for piece in range(first, last):
        begin, end = piece * piece_segments, min((piece + 1) * piece_segments, segments)
        for s in range(begin, end):
            left = offsets[s + 1] - offsets[s] - starts[s]
            # Negative if any of them is. If the others are not, left - count cannot overflow.
            sign |= starts[s] | counts[s] | left | (left - counts[s])
            rows[s] = offsets[s] + starts[s]
        total = before[piece]
        for s in range(begin, end):
            bounds[s] = total
            total += counts[s]
        if end == segments:
            bounds[segments] = total
    return 1 if sign < 0 else 0
