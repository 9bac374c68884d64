"""Kernels that pack weights into panels."""

from __future__ import annotations

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.simd.lanes_numba import lanes_in, transpose


@kernel(types=FLOATS)
def pack_transposed(
    weight: Pointer[T], to: Pointer[T], zero: type[T], gates: int, size: int, depth: int,
    units: int, panels: int,
) -> int:  # fmt: skip
    """Fill to[p, k, g * units + u] with weight[g, p * units + u, k].

    Args:
        units: a multiple of the lanes of a vector.
    """
    lanes, width = lanes_in(weight), gates * units
    for p in range(panels):
        for g in range(gates):
            for u in range(0, units, lanes):
                unit = p * units + u
                rows = min(lanes, max(0, size - unit))
                source, first = (g * size + unit) * depth, p * depth * width + g * units + u
                whole = depth // lanes * lanes if rows == lanes else 0
                for k in range(0, whole, lanes):
                    transpose(weight, source + k, depth, to, first + k * width, width)
                for k in range(whole, depth):
                    for n in range(rows):
                        to[first + k * width + n] = weight[source + n * depth + k]
                    for n in range(rows, lanes):
                        to[first + k * width + n] = zero(0)
    return 0


@kernel(types=FLOATS)
def pack(
    weight: Pointer[T], to: Pointer[T], zero: type[T], depth: int, columns: int, width: int,
    panels: int,
) -> int:  # fmt: skip
    """Fill to[p, k, n] with weight[k, p * width + n]."""
    for p in range(panels):
        filled = min(width, columns - p * width)
        for k in range(depth):
            source, at = k * columns + p * width, (p * depth + k) * width
            for n in range(filled):
                to[at + n] = weight[source + n]
            for n in range(filled, width):
                to[at + n] = zero(0)
    return 0
