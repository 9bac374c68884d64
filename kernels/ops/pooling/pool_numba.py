"""Kernels of means of whole numbers, whose sums are whole, and of gradients."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel


@kernel()
def averaged(
    totals: Pointer[np.int64], unsigned: bool, offsets: Pointer[np.int64], root: bool,
    pad: Pointer[np.float64], out: Pointer[np.float64], segments: int, width: int,
) -> int:  # fmt: skip
    """Write the totals of each segment over its length, or over the square root of that.

    Args:
        totals: (segments, width).
        unsigned: whether their bits are those of uint64.
        pad: one value, for empty segments.
    """
    for s in range(segments):
        length = offsets[s + 1] - offsets[s]
        by = np.sqrt(np.float64(length)) if root else np.float64(length)
        for column in range(s * width, (s + 1) * width):
            if length == 0:
                out[column] = pad[0]
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
    """Write row s over the length of segment s, 1 at least, or over the square root of that."""
    for s in range(first * segments // pieces, last * segments // pieces):
        by = np.float64(max(offsets[s + 1] - offsets[s], 1))
        if root:
            by = np.sqrt(by)
        for column in range(s * width, (s + 1) * width):
            out[column] = np.float64(rows[column]) / by
    return 0


# Words of their bits: a version for each size, not for each dtype.
@kernel(types=("uint8", "uint16", "uint32", "uint64"))
def put(
    values: Pointer[T], rows: Pointer[np.int64], out: Pointer[T], count: int, width: int,
    pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write each of (count, width) values to its column of `out`, in the row named for it, if any.

    Args:
        rows: (count, width), each once in a column; -1 is no row.
    """
    for row in range(first * count // pieces, last * count // pieces):
        given, named = values + row * width, rows + row * width
        for k in range(width):
            if named[k] >= 0:
                out[named[k] * width + k] = given[k]
    return 0
