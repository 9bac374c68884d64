"""Kernels of means of integers, whose sums are exact, and of gradients."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel


@kernel()
def averaged(
    totals: Pointer[np.int64], halves: bool, unsigned: bool, offsets: Pointer[np.int64],
    root: bool, pad: Pointer[np.float64], out: Pointer[np.float64], segments: int, width: int,
) -> int:  # fmt: skip
    """Write the totals of each segment divided by its length, or by the square root of it.

    Args:
        totals: (segments, width); of halves (segments, 2 * width).
        halves: whether these are the sums of the low and of the high halves of the integers, less
            2**31 for each half that is unsigned.
        unsigned: whether the integers are unsigned.
        pad: the value for empty segments.
    """
    for s in range(segments):
        length = offsets[s + 1] - offsets[s]
        by = np.sqrt(np.float64(length)) if root else np.float64(length)
        for column in range(s * width, (s + 1) * width):
            if length == 0:
                out[column] = pad[0]
            elif halves:
                low = totals[2 * column] + length * 2**31
                high = totals[2 * column + 1] + (length * 2**31 if unsigned else 0) + (low >> 32)
                # Of a total of 64 bits only the addition rounds, and once.
                total = np.float64(high) * 2.0**32 + np.float64(low & 0xFFFFFFFF)
                out[column] = total / by
            elif unsigned:
                out[column] = np.float64(np.uint64(totals[column])) / by
            else:
                out[column] = np.float64(totals[column]) / by
    return 0


@kernel(types=FLOATS)
def divided(
    rows: Pointer[T], offsets: Pointer[np.int64], root: bool, out: Pointer[T], segments: int,
    width: int, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write row s divided by the length of segment s, at least 1, or by the square root of it."""
    for s in range(first * segments // pieces, last * segments // pieces):
        by = np.float64(max(offsets[s + 1] - offsets[s], 1))
        if root:
            by = np.sqrt(by)
        for column in range(s * width, (s + 1) * width):
            out[column] = np.float64(rows[column]) / by
    return 0


# Reinterpreted as unsigned words: one version per item size, not per dtype.
@kernel(types=("uint8", "uint16", "uint32", "uint64"))
def put(
    values: Pointer[T], rows: Pointer[np.int64], out: Pointer[T], count: int, width: int,
    pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write each of (count, width) values to the row of its column in `out` that `rows` gives, if
    any.

    Args:
        rows: (count, width), unique within a column; -1 for none.
    """
    for row in range(first * count // pieces, last * count // pieces):
        given, named = values + row * width, rows + row * width
        for k in range(width):
            if named[k] >= 0:
                out[named[k] * width + k] = given[k]
    return 0
