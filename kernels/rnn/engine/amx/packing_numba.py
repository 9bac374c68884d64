"""Kernel that packs weights into panels of AMX tiles."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import function
from lodcli.kernels.rnn.engine.amx.layout import PAIRS, TILE_COLUMNS, TILE_DEPTH, TILE_WORDS


@function()
def _rounded(bits: int) -> int:
    """Return the bfloat16 bits of float32 bits, rounded to nearest, ties to even."""
    if bits & 0x7FFFFFFF > 0x7F800000:  # a NaN, whose remaining bits may all be 0
        return bits >> 16 | 0x40
    return bits + 0x7FFF + (bits >> 16 & 1) >> 16


@kernel()
def pack(
    weight: Pointer[np.uint32], to: Pointer[np.uint32], gates: int, size: int, depth: int,
    units: int, panels: int, row_step: int, step: int,
) -> int:  # fmt: skip
    """Fill to[p, k, column tile, pair, column] with two elements of a row of the weight each.

    Column c of panel p belongs to unit p * units + c % units of gate c // units. Missing units and
    elements are zero-padded.

    Args:
        row_step, step: strides of rows of the weight, and of elements of a row.
    """
    tiles, steps = gates * units // TILE_COLUMNS, (depth + TILE_DEPTH - 1) // TILE_DEPTH
    for p in range(panels):
        for n in range(tiles):
            gate = n * TILE_COLUMNS // units
            first = p * units + n * TILE_COLUMNS % units
            for k in range(steps):
                tile = ((p * steps + k) * tiles + n) * TILE_WORDS
                for column in range(TILE_COLUMNS):
                    unit = first + column
                    row = (gate * size + unit) * row_step
                    for pair in range(PAIRS):
                        at, word = k * TILE_DEPTH + 2 * pair, 0
                        if unit < size and at < depth:
                            word = _rounded(np.int64(weight[row + at * step]))
                            if at + 1 < depth:
                                word |= _rounded(np.int64(weight[row + (at + 1) * step])) << 16
                        to[tile + pair * TILE_COLUMNS + column] = np.uint32(word)
    return 0
