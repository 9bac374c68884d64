"""Kernels of prefix sums and products, and the gradient of the latter."""

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
    """Write the running result of one column, which stays in a register."""
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
    """Write the running result of several columns: each row is made of the one before it."""
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


@kernel()
def product_grad(
    flow: Pointer[np.float64], x: Pointer[np.float64], offsets: Pointer[np.int64],
    whole: Pointer[np.float64], without: Pointer[np.float64], out: Pointer[np.float64],
    segments: int, width: int, exclusive: bool, reverse: bool, pieces: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of running products; `whole` and `without` are scratch, as large."""
    step = -1 if reverse else 1
    for piece in range(first, last):
        begin, after = segments_of_piece(offsets, segments, piece, pieces)
        for s in range(begin, after):
            count = offsets[s + 1] - offsets[s]
            start = offsets[s + 1] - 1 if reverse else offsets[s]
            for k in range(width):
                # The running product, and the one with the first zero taken as 1.
                product, others, zero = 1.0, 1.0, count
                for i in range(count):
                    at = (start + step * i) * width + k
                    value = x[at]
                    if value == 0 and zero == count:
                        zero = i
                    else:
                        others *= value
                    product *= value
                    upstream = flow[at]
                    if exclusive:
                        upstream = flow[at + step * width] if i + 1 < count else 0.0
                    whole[at], without[at] = upstream * product, upstream * others
                of_whole, of_others = 0.0, 0.0
                for i in range(count - 1, -1, -1):
                    at = (start + step * i) * width + k
                    of_whole += whole[at]
                    of_others += without[at]
                    if x[at] != 0:
                        out[at] = of_whole / x[at]
                    else:
                        out[at] = of_others if i == zero else 0.0
    return 0
