"""Narrow rows in LLVM IR: one vector per column, one row per lane.

Whole rows are loaded and stored, and transposed in registers.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.runtime.jit_numba import ir
from lodcli.kernels.simd.vectors import Values, Vectors

_I64 = ir.IntType(64)


def load_columns(v: Vectors, at: Any, width: int) -> Values:
    """Return the columns of as many rows at an address as `v` has lanes.

    Args:
        width: of a row, at most the lanes. If not a power of two, part of the next row is read too.
    """
    padded = _padded(width)
    if padded == width:
        vectors = [v.load(v.place(at, _I64(n * v.lanes)), v.kind) for n in range(width)]
    else:
        few = ir.VectorType(v.kind.element, padded)
        vectors = [v.load(v.place(at, _I64(n * width)), few) for n in range(v.lanes)]
        while vectors[0].type.count < v.lanes:
            both = list(range(2 * vectors[0].type.count))
            vectors = [v.ordered(a, both, b) for a, b in _pairs(vectors)]
    # Values are numbered by row and column. Each round rotates the last bit of the number to the
    # front.
    for _ in range(padded.bit_length() - 1):
        vectors = [
            v.ordered(a, list(range(odd, 2 * v.lanes, 2)), b)
            for odd in (0, 1)
            for a, b in _pairs(vectors)
        ]
    return vectors[:width]


def store_columns(v: Vectors, columns: Values, to: Any) -> None:
    """Store rows given as columns at an address: as many rows as `v` has lanes.

    If their width is not a power of two, part of the next row is written too.
    """
    width, half = len(columns), v.lanes // 2
    padded = _padded(width)
    vectors = columns + [ir.Constant(v.kind, ir.Undefined)] * (padded - width)
    # The rounds of `load_columns`, reversed.
    for _ in range(padded.bit_length() - 1):
        middle = len(vectors) // 2
        vectors = [
            v.ordered(a, [n for k in range(first, first + half) for n in (k, v.lanes + k)], b)
            for a, b in zip(vectors[:middle], vectors[middle:], strict=True)
            for first in (0, half)
        ]
    if padded == width:
        for n, vector in enumerate(vectors):
            v.store(vector, v.place(to, _I64(n * v.lanes)))
        return
    for row in range(v.lanes):
        n, first = divmod(row * padded, v.lanes)
        few = v.ordered(vectors[n], list(range(first, first + padded)))
        v.store(few, v.place(to, _I64(row * width)))


def whole_blocks(v: Vectors, rows: Any, width: int) -> Any:
    """Return how many of `rows` rows can be loaded and stored as columns."""
    # If part of the next row is accessed, there must be one.
    spare = 0 if _padded(width) == width else 1
    any_rows = v.builder.icmp_signed(">", rows, _I64(0))
    last = v.builder.select(any_rows, v.builder.sub(rows, _I64(spare)), _I64(0))
    return v.builder.and_(last, _I64(-v.lanes))


def _padded(width: int) -> int:
    """Return the next power of two."""
    return 1 << (width - 1).bit_length()


def _pairs(vectors: Values) -> Any:
    return zip(vectors[::2], vectors[1::2], strict=True)
