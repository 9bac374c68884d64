"""Shapes of AMX tiles, and of their operands."""

from __future__ import annotations

LEVEL = "x86-64-v4"  # of processors that the kernels are compiled for
TILE_ROWS = 16  # of the factor on the left, and of sums
TILE_COLUMNS = 16  # of the factor on the right, and of sums
TILE_DEPTH = 32  # elements of bfloat16 that one instruction multiplies and adds up
BLOCK_ROWS = 2 * TILE_ROWS  # that a product takes at once
PAIRS = TILE_DEPTH // 2  # in a tile's row: two of bfloat16 lie in the place of a float32
TILE_WORDS = TILE_COLUMNS * PAIRS
BLOCK_SLOTS = 16 * TILE_DEPTH  # whose slopes, inputs and states are multiplied at once


def depth_tiles(depth: int) -> int:
    """Return how many tiles hold `depth` elements of a row."""
    return -(-depth // TILE_DEPTH)


def row_words(tiles: int) -> int:
    """Return how many words lie between two rounded rows, of so many tiles of depth.

    A line more than they take: rows a power of two apart would displace each other from the cache.
    """
    return (tiles + 1) * PAIRS
