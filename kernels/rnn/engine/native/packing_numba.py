"""Kernels that pack weights into panels."""

from __future__ import annotations

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel


@kernel(types=FLOATS)
def pack_transposed(
    weight: Pointer[T], to: Pointer[T], zero: type[T], gates: int, size: int, depth: int,
    units: int, panels: int,
) -> int:  # fmt: skip
    """Fill to[p, k, g * units + u] with weight[g, p * units + u, k]."""
    for p in range(panels):
        for g in range(gates):
            for k in range(0, depth, 16):
                for u in range(units):
                    unit = p * units + u
                    for n in range(k, min(k + 16, depth)):
                        at = ((p * depth + n) * gates + g) * units + u
                        inside = unit < size
                        to[at] = weight[(g * size + unit) * depth + n] if inside else zero(0)
    return 0


@kernel(types=FLOATS)
def pack(
    weight: Pointer[T], to: Pointer[T], zero: type[T], depth: int, columns: int, width: int,
    panels: int,
) -> int:  # fmt: skip
    """Fill to[p, k, n] with weight[k, p * width + n]."""
    for p in range(panels):
        for k in range(depth):
            for n in range(width):
                column, at = p * width + n, (p * depth + k) * width + n
                to[at] = weight[k * columns + column] if column < columns else zero(0)
    return 0
