"""Kernels that do nothing but read, write, copy or multiply: what a machine can do at best."""

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
    """Multiply and add `steps` times with ten vectors side by side; return how many lanes one has.

    Ten hide how long one takes, and leave registers for the constants on every level.

    Args:
        values: (pieces, stride), what each begins with, and its sum.
        stride: at least 10 more than a vector has lanes.
    """
    lanes = lanes_in(values)
    for piece in range(first, last):
        at = piece * stride
        a, b = load(values, at, lanes), load(values, at + 1, lanes)
        c, d = load(values, at + 2, lanes), load(values, at + 3, lanes)
        e, f = load(values, at + 4, lanes), load(values, at + 5, lanes)
        g, h = load(values, at + 6, lanes), load(values, at + 7, lanes)
        i, j = load(values, at + 8, lanes), load(values, at + 9, lanes)
        for _ in range(steps):
            a, b = a * 0.999 + 0.001, b * 0.999 + 0.001
            c, d = c * 0.999 + 0.001, d * 0.999 + 0.001
            e, f = e * 0.999 + 0.001, f * 0.999 + 0.001
            g, h = g * 0.999 + 0.001, h * 0.999 + 0.001
            i, j = i * 0.999 + 0.001, j * 0.999 + 0.001
        store(a + b + c + d + e + f + g + h + i + j, values, at, lanes)
    found: int = lanes
    return found
