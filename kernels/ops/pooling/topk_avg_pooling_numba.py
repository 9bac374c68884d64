"""Kernels of top-k average pooling: the k largest values of a row, kept sorted."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.native.declare import Pointer, T, U, kernel
from lodcli.kernels.native.language_numba import function


class Matrices(NamedTuple):
    """Matrices of `channels` channels, stored consecutively.

    Attributes:
        offsets, row_offsets, column_offsets: (matrices + 1,), of all values, rows and columns.
        topks: (kinds,).
        places: (most,) scratch.
    """

    offsets: Pointer[np.int64]
    row_offsets: Pointer[np.int64]
    column_offsets: Pointer[np.int64]
    matrices: int
    topks: Pointer[np.int64]
    kinds: int
    channels: int
    places: Pointer[np.int64]
    most: int


@function()
def _largest(data: Any, first: int, count: int, places: Any, most: int) -> int:
    """Fill `places` with the positions of the largest of count values, largest first; return how
    many."""
    held = 0
    for place in range(first, first + count):
        value = data[place]
        at = held
        # After equal ones, which come first; a NaN comes last.
        while at > 0:
            other = data[places[at - 1]]
            if not (value > other or (other != other and value == value)):
                break
            at -= 1
        if at < most:
            held = min(held + 1, most)
            for back in range(held - 1, at, -1):
                places[back] = places[back - 1]
            places[at] = place
    return held


@kernel()
def misfit(
    offsets: Pointer[np.int64], row_offsets: Pointer[np.int64], column_offsets: Pointer[np.int64],
    matrices: int, channels: int,
) -> int:  # fmt: skip
    """Return the first segment whose number of values does not match its matrices, or -1."""
    for i in range(matrices):
        rows = row_offsets[i + 1] - row_offsets[i]
        columns = column_offsets[i + 1] - column_offsets[i]
        if offsets[i + 1] - offsets[i] != channels * rows * columns:
            return i
    return -1


@kernel(types=("float32", "float64"))
def forward(data: Pointer[T], of: Matrices, out: Pointer[T], zero: type[T]) -> int:
    """Write the averages of the largest values: (rows, channels * kinds)."""
    for i in range(of.matrices):
        rows = of.row_offsets[i + 1] - of.row_offsets[i]
        columns = of.column_offsets[i + 1] - of.column_offsets[i]
        for channel in range(of.channels):
            for row in range(rows):
                first = of.offsets[i] + (channel * rows + row) * columns
                held = _largest(data, first, columns, of.places, of.most)
                to = out + ((of.row_offsets[i] + row) * of.channels + channel) * of.kinds
                for j in range(of.kinds):
                    total = zero(0)
                    for m in range(min(of.topks[j], held)):
                        total += data[of.places[m]]
                    to[j] = total / zero(of.topks[j])
    return 0


@kernel(types=tuple((a, b) for a in ("float32", "float64") for b in ("float32", "float64")))
def backward(
    data: Pointer[T], of: Matrices, grad: Pointer[U], out: Pointer[U], zero: type[U]
) -> int:
    """Add the gradients of the averages to those of the values, initially zeros."""
    for i in range(of.matrices):
        rows = of.row_offsets[i + 1] - of.row_offsets[i]
        columns = of.column_offsets[i + 1] - of.column_offsets[i]
        for channel in range(of.channels):
            for row in range(rows):
                first = of.offsets[i] + (channel * rows + row) * columns
                held = _largest(data, first, columns, of.places, of.most)
                up = grad + ((of.row_offsets[i] + row) * of.channels + channel) * of.kinds
                for j in range(of.kinds):
                    share = up[j] / zero(of.topks[j])
                    for m in range(min(of.topks[j], held)):
                        out[of.places[m]] += share
    return 0
