"""Kernels of sequence convolutions: the context of rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.native.declare import FLOATS, Pointer, T, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.simd.row_partition_numba import segment_at


class Context(NamedTuple):
    """The contexts of some rows of the result.

    Attributes:
        offsets, kept: (segments + 1,), of the rows and of the rows of the result.
        row: first row of the result.
        rows: number of rows.
        length, width: the context of a row is K rows of D values.
        start: first row of a context, relative to its own row.
        padded: whether rows outside a segment come from the padding; else they are zeros.
    """

    offsets: Pointer[np.int64]
    kept: Pointer[np.int64]
    segments: int
    row: int
    rows: int
    length: int
    width: int
    stride: int
    start: int
    padded: bool


@kernel()
def strided(
    offsets: Pointer[np.int64], kept: Pointer[np.int64], segments: int, stride: int
) -> int:  # fmt: skip
    """Write the offsets of every stride-th row of each segment."""
    total = kept[0] = 0
    for s in range(segments):
        rows = offsets[s + 1] - offsets[s]
        total += rows // stride + (1 if rows % stride else 0)
        kept[s + 1] = total
    return 0


@function()
def write_context(of: Any, segment: int, row: int, data: Any, padding: Any, out: Any) -> None:
    """Write the context of a row of the result, in this segment, (K * D,)."""
    up, width = max(0, -of.start), of.width
    low, high = of.offsets[segment], of.offsets[segment + 1]
    first = low + of.stride * (row - of.kept[segment]) + of.start
    for k in range(of.length):
        source = first + k
        to = out + k * width
        if low <= source < high:
            values = data + source * width
            for d in range(width):
                to[d] = values[d]
        elif of.padded:
            extra = up - (low - source) if source < low else up + source - high
            values = padding + extra * width
            for d in range(width):
                to[d] = values[d]
        else:
            for d in range(width):
                to[d] = 0


@kernel(types=FLOATS)
def gather(of: Context, data: Pointer[T], padding: Pointer[T], out: Pointer[T]) -> int:
    """Write the contexts of rows, (rows, K * D)."""
    segment = segment_at(of.kept, of.segments, of.row)
    for place in range(of.rows):
        while of.kept[segment + 1] <= of.row + place:
            segment += 1
        to = out + place * of.length * of.width
        write_context(of, segment, of.row + place, data, padding, to)
    return 0


@kernel(types=FLOATS)
def scatter(of: Context, grad: Pointer[T], grad_data: Pointer[T], grad_padding: Pointer[T]) -> int:
    """Add the gradients of contexts to the gradients of the rows and the padding."""
    up, width = max(0, -of.start), of.width
    segment = segment_at(of.kept, of.segments, of.row)
    for place in range(of.rows):
        while of.kept[segment + 1] <= of.row + place:
            segment += 1
        low, high = of.offsets[segment], of.offsets[segment + 1]
        row = low + of.stride * (of.row + place - of.kept[segment]) + of.start
        for k in range(of.length):
            source = row + k
            values = grad + (place * of.length + k) * width
            if low <= source < high:
                to = grad_data + source * width
                for d in range(width):
                    to[d] += values[d]
            elif of.padded:
                extra = up - (low - source) if source < low else up + source - high
                to = grad_padding + extra * width
                for d in range(width):
                    to[d] += values[d]
    return 0
