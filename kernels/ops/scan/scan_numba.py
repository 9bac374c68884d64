"""Kernel of prefix sums and products."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.row_partition_numba import segments_of_piece


@kernel(types=(*FLOATS, "int64", "complex64", "complex128"))
def running(
    x: Pointer[T], offsets: Pointer[np.int64], out: Pointer[T], kind: type[T], segments: int,
    width: int, product: bool, exclusive: bool, reverse: bool, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the running sums or products of the rows (N, width) of each segment."""
    start = kind(1) if product else kind(0)
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            lo, count = offsets[s], offsets[s + 1] - offsets[s]
            if count == 0:
                continue
            rows, to = x + lo * width, out + lo * width
            if width == 1:
                _column(rows, to, count, start, product, exclusive, reverse)
            else:
                _rows(rows, to, count, width, start, product, exclusive, reverse)
    return 0


@function()
def _column(
    x: Any, out: Any, count: int, start: Any, product: bool, exclusive: bool, reverse: bool
) -> None:
    """Write the cumulative result of one column, held in a register."""
    step, row = (-1, count - 1) if reverse else (1, 0)
    total = start if exclusive else x[row]
    behind = step if exclusive else 0
    out[row] = total
    for _ in range(1, count):
        row += step
        new = x[row - behind]
        total = total * new if product else total + new
        out[row] = total


@function()
def _rows(
    x: Any, out: Any, count: int, width: int, start: Any, product: bool, exclusive: bool,
    reverse: bool,
) -> None:  # fmt: skip
    """Write the cumulative result of several columns, row by row."""
    step, row = (-1, count - 1) if reverse else (1, 0)
    behind = step if exclusive else 0
    for k in range(width):
        out[row * width + k] = start if exclusive else x[row * width + k]
    for _ in range(1, count):
        row += step
        before, new, to = out + (row - step) * width, x + (row - behind) * width, out + row * width
        if product:
            for k in range(width):
                to[k] = before[k] * new[k]
        else:
            for k in range(width):
                to[k] = before[k] + new[k]
