"""How the compiled engine multiplies: exactly, or factors of bfloat16 by AMX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.native import load
from lodcli.kernels.native.load import Kernels
from lodcli.kernels.rnn.engine.amx.layout import BLOCK_ROWS, depth_tiles, row_words
from lodcli.kernels.rnn.engine.amx.packing import rounded_panels
from lodcli.kernels.rnn.engine.native.layout import BLOCK_TILES, VECTORS
from lodcli.kernels.rnn.engine.native.packing import KINDS, Pack, layout, recurrent_panels
from lodcli.kernels.rnn.engine.native.structures import Cell, Matrix
from lodcli.kernels.runtime.precision import rounds_on_cpu


class Products(NamedTuple):
    """Kernels, and what they work on.

    Attributes:
        forward: a kernel for each kind of cell.
        panels: packs weights for them.
        tile_sums: returns how many vectors of sums a cell's kernel needs room for.
        rounded: returns how many words it needs to round so many rows.
    """

    forward: dict[str, Kernels]
    panels: Pack
    tile_sums: Callable[[Cell], int]
    rounded: Callable[[Cell, Matrix, int], int]


def _kernels(folder: str) -> dict[str, Kernels]:
    return {kind: load.kernel(f"kernels.rnn.engine.{folder}.forward_numba", kind) for kind in KINDS}


def _rounded_words(cell: Cell, matrix: Matrix, rows: int) -> int:
    # A block reads whole tiles of rows.
    return (rows + BLOCK_ROWS) * row_words(depth_tiles(max(cell.hidden, matrix.depth)))


EXACT = Products(
    _kernels("native"),
    recurrent_panels,
    lambda cell: layout().tile_sums * (BLOCK_TILES if cell.blocked else 1),
    lambda cell, matrix, rows: 0,
)
BFLOAT16 = Products(
    _kernels("amx"), rounded_panels, lambda cell: BLOCK_ROWS * VECTORS, _rounded_words
)


def products_for(dtype: np.dtype[Any]) -> Products:
    """Return how to multiply here; rnn_forward has seen to it that AMX can be used."""
    return BFLOAT16 if rounds_on_cpu(dtype) else EXACT
