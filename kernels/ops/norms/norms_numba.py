"""Kernels of row norms. A row is read twice while in the cache."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function


@function()
def _measure(row: Any, width: int, epsilon: float, centred: bool) -> Any:
    """Return the mean that is subtracted, and one over the root of the mean square left."""
    mean, square = 0.0, 0.0
    if centred:
        for k in range(width):
            mean += row[k]
        mean /= width
    for k in range(width):
        square += (row[k] - mean) ** 2
    return mean, 1 / math.sqrt(square / width + epsilon)


@kernel(types=FLOATS)
def forward(
    x: Pointer[T], weight: Pointer[T], bias: Pointer[T], out: Pointer[T], epsilon: float,
    centred: bool, rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Normalise rows (N, width)."""
    for r in range(first * piece_rows, min(last * piece_rows, rows)):
        row, to = x + r * width, out + r * width
        mean, over = _measure(row, width, epsilon, centred)
        for k in range(width):
            to[k] = (row[k] - mean) * over * weight[k] + bias[k]
    return 0


@kernel(types=FLOATS)
def backward(
    upstream: Pointer[T], x: Pointer[T], weight: Pointer[T], out: Pointer[T],
    scale: Pointer[np.float64], shift: Pointer[np.float64], epsilon: float, centred: bool,
    rows: int, width: int, piece_rows: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write the gradient of rows (N, width), and add those of the weight and bias of each piece.

    Args:
        scale, shift: (pieces, width), zeros.
    """
    for piece in range(first, last):
        scales, shifts = scale + piece * width, shift + piece * width
        for r in range(piece * piece_rows, min((piece + 1) * piece_rows, rows)):
            row, up, to = x + r * width, upstream + r * width, out + r * width
            mean, over = _measure(row, width, epsilon, centred)
            flow, shared = 0.0, 0.0
            for k in range(width):
                z, g = (row[k] - mean) * over, up[k] * weight[k]
                flow += g
                shared += g * z
                scales[k] += up[k] * z
                shifts[k] += up[k]
            flow = flow / width if centred else 0.0
            for k in range(width):
                z, g = (row[k] - mean) * over, up[k] * weight[k]
                to[k] = over * (g - flow - z * (shared / width))
    return 0
