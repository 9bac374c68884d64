"""Kernels that add values to the rows of segments, and gather them."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel


@kernel(types=(*FLOATS, "int32", "int64", "uint8", "complex64", "complex128"))
def scatter(
    out: Pointer[T], width: int, ids: Pointer[np.int64], updates: Pointer[T],
    offsets: Pointer[np.int64], segments: int,
) -> int:  # fmt: skip
    """Add each value to the column of its id, in the row of its segment."""
    for segment in range(segments):
        row = out + segment * width
        for at in range(offsets[segment], offsets[segment + 1]):
            row[ids[at]] += updates[at]
    return 0


# Reinterpreted as unsigned words: one version per item size, not per dtype.
@kernel(types=("uint8", "uint16", "uint32", "uint64", "complex128"))
def pick(
    rows: Pointer[T], width: int, ids: Pointer[np.int64], offsets: Pointer[np.int64],
    out: Pointer[T], segments: int,
) -> int:  # fmt: skip
    """Copy the value in the column of each id, of the row of its segment."""
    for segment in range(segments):
        row = rows + segment * width
        for at in range(offsets[segment], offsets[segment + 1]):
            out[at] = row[ids[at]]
    return 0
