"""Kernel of means of whole numbers, whose sums are whole."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


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
