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
    start, step = kind(1) if product else kind(0), -1 if reverse else 1
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            row, count = offsets[s], offsets[s + 1] - offsets[s]
            if count == 0:
                continue
            if reverse:
                row += count - 1
            rows, to = x + row * width, out + row * width
            if exclusive:
                # Not multiplied by the first row: 1 times a complex infinity is NaN.
                for k in range(width):
                    to[k] = start
                to = to + step * width
                count -= 1
            if width == 1:
                _column(rows, to, count, step, product)
            elif count:
                _rows(rows, to, count, width, step * width, product)
    return 0


@function()
def _column(x: Any, out: Any, count: int, step: int, product: bool) -> None:
    """Write the cumulative result of one column, held in a register."""
    total, row = x[0], 0
    for _ in range(count - 1):
        out[row] = total
        row += step
        total = total * x[row] if product else total + x[row]
    if count:
        out[row] = total


@function()
def _rows(x: Any, out: Any, count: int, width: int, step: int, product: bool) -> None:
    """Write the cumulative result of several columns, row by row."""
    for k in range(width):
        out[k] = x[k]
    for _ in range(1, count):
        before, x, out = out, x + step, out + step
        if product:
            for k in range(width):
                out[k] = before[k] * x[k]
        else:
            for k in range(width):
                out[k] = before[k] + x[k]
