"""Addresses of the arrays of a run: the structs of rnn.cuh in one small device array.

A launch gets the address of its struct, not those of the arrays. So a captured graph can be
replayed for other arrays: only the table is rewritten.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.kernels.cuda.launch import MOST_BLOCKS, Grid, address, blocks, run
from lodcli.kernels.index.checks import Array, Offsets

THREADS = 256

# A launch, given the table.
Launch = Callable[[Array], None]


class Table:
    """Consecutive structs. Every field has 8 bytes."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._baked: list[int] = []

    def add(self, *fields: Array | int | None) -> int:
        """Return the position of a struct of these fields; None is a null pointer."""
        place = len(self._words)
        for field in fields:
            self._words.append(
                0 if field is None else field if isinstance(field, int) else address(field)
            )
        return place

    def bake(self, *arrays: Array) -> None:
        """Record arrays whose addresses are passed to cuBLAS directly."""
        self._baked += map(address, arrays)

    def baked(self) -> tuple[int, ...]:
        """Return the addresses that are part of a captured graph of cuBLAS steps."""
        return tuple(self._baked)

    def words(self) -> Offsets:
        """Return the table, in main memory."""
        return np.array(self._words, np.int64)


def step_launch(file: str, kernel: str, place: int, width: int, rows: int, *numbers: int) -> Launch:
    """Return the launch of a kernel for `width` units of `rows` sequences.

    Args:
        file, kernel: see launch.run.
        place: of its struct in the table.
        width, rows: what the grid must hold; rows beyond it are looped over.
        numbers: its other arguments.
    """
    columns = min(THREADS, 1 << max(0, width - 1).bit_length())
    block: Grid = (columns, THREADS // columns)
    grid: Grid = (blocks(width, columns), min(blocks(rows, block[1]), MOST_BLOCKS))
    return lambda table: run(file, kernel, grid, block, table[place:], *numbers)
