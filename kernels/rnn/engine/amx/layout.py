"""Shapes of AMX tiles, and of their operands."""

from __future__ import annotations

LEVEL = "x86-64-v4"  # of processors that the kernels are compiled for
TILE_ROWS = 16  # rows of the left factor, and of sums
TILE_COLUMNS = 16  # columns of the right factor, and of sums
TILE_DEPTH = 32  # bfloat16 elements that one instruction multiplies and adds
BLOCK_ROWS = 2 * TILE_ROWS  # rows of a product
PAIRS = TILE_DEPTH // 2  # words of a tile's row: two bfloat16 each
TILE_WORDS = TILE_COLUMNS * PAIRS
BLOCK_SLOTS = 16 * TILE_DEPTH  # slots whose slopes, inputs and states are multiplied at once


def depth_tiles(depth: int) -> int:
    """Return how many tiles hold `depth` elements of a row."""
    return -(-depth // TILE_DEPTH)


def row_words(tiles: int) -> int:
    """Return the stride in words of rounded rows of this many tiles of depth.

    Padded by a cache line: a power-of-two stride would cause cache conflicts.
    """
    return (tiles + 1) * PAIRS
