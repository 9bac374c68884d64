"""Kernels of the optimizer Adam."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel

BLOCK = 4096  # values, a multiple of 4


@kernel(types=FLOATS)
def step(
    array: Pointer[T], grad: Pointer[T], mean: Pointer[T], square: Pointer[T], out: Pointer[T],
    value: type[T], count: int, beta1: float, beta2: float, unbias1: float, unbias2: float,
    epsilon: float, rate: float,
) -> int:  # fmt: skip
    """Write an array after a step, and both moments; each value is rounded as in step_of."""
    keep1, keep2, new1, new2 = value(beta1), value(beta2), value(1 - beta1), value(1 - beta2)
    by1, by2, least, factor = value(unbias1), value(unbias2), value(epsilon), value(rate)
    for k in range(count):
        mean[k] = mean[k] * keep1 + new1 * grad[k]
        square[k] = square[k] * keep2 + new2 * grad[k] * grad[k]
        out[k] = array[k] - mean[k] / by1 / (np.sqrt(square[k] / by2) + least) * factor
    return 0


@kernel(types=FLOATS)
def squares(array: Pointer[T], total: Pointer[np.float64], count: int) -> int:
    """Write the sum of all squares, in float64."""
    # Sums of blocks: one sum of all is less exact, by a part of 1e-11 for 2**24 values.
    whole = count // 4 * 4
    sums = np.float64(0)
    for begin in range(0, whole, BLOCK):
        # Four sums: an addition waits for the one before.
        a = b = c = d = 0.0
        for k in range(begin, min(begin + BLOCK, whole), 4):
            w, x = np.float64(array[k]), np.float64(array[k + 1])
            y, z = np.float64(array[k + 2]), np.float64(array[k + 3])
            a += w * w
            b += x * x
            c += y * y
            d += z * z
        sums += (a + b) + (c + d)
    for k in range(whole, count):
        w = np.float64(array[k])
        sums += w * w
    total[0] = sums
    return 0
