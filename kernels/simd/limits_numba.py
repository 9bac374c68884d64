"""Kernels that measure the peak rates of a machine: read, write, copy and multiply-add."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.simd.lanes_numba import lanes_in, load, store


@kernel(fastmath={"reassoc", "nsz"})
def read(
    source: Pointer[np.float32], sums: Pointer[np.float32], size: int, pieces: int, first: int,
    last: int,
) -> int:  # fmt: skip
    """Write the sum of each piece."""
    for piece in range(first, last):
        total = np.float32(0)
        for k in range(size * piece // pieces, size * (piece + 1) // pieces):
            total += source[k]
        sums[piece] = total
    return 0


@kernel()
def write(target: Pointer[np.float32], size: int, pieces: int, first: int, last: int) -> int:
    """Write ones."""
    for k in range(size * first // pieces, size * last // pieces):
        target[k] = 1
    return 0


@kernel()
def copy(
    source: Pointer[np.float32], target: Pointer[np.float32], size: int, pieces: int, first: int,
    last: int,
) -> int:  # fmt: skip
    """Copy all elements."""
    for k in range(size * first // pieces, size * last // pieces):
        target[k] = source[k]
    return 0


@kernel()
def multiply_adds(
    steps: int, values: Pointer[np.float32], stride: int, first: int, last: int
) -> int:  # fmt: skip
    """Do `steps` multiply-adds on ten independent vectors; return the number of lanes.

    Ten vectors hide the latency. One factor of each product is loaded from the L1 cache, as in a
    matrix product, and changes in each step, so that it is not kept in a register.

    Args:
        values: (pieces, stride), 8 * 10 factors each, then the position of the sum.
        stride: at least 8 * 10 plus the lanes of a vector.
    """
    lanes = lanes_in(values)
    for piece in range(first, last):
        at = piece * stride
        x = load(values, at, lanes)
        a, b, c, d, e = x, x, x, x, x
        f, g, h, i, j = x, x, x, x, x
        for step in range(steps):
            row = at + step % 8 * 10
            a, b = a + x * values[row], b + x * values[row + 1]
            c, d = c + x * values[row + 2], d + x * values[row + 3]
            e, f = e + x * values[row + 4], f + x * values[row + 5]
            g, h = g + x * values[row + 6], h + x * values[row + 7]
            i, j = i + x * values[row + 8], j + x * values[row + 9]
        store(a + b + c + d + e + f + g + h + i + j, values, at + 8 * 10, lanes)
    found: int = lanes
    return found
