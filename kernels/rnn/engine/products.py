"""How the compiled engine multiplies: exactly, or in bfloat16 with AMX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.native.load import Kernels
from lodcli.kernels.rnn.engine.amx.layout import (
    BLOCK_ROWS,
    BLOCK_SLOTS,
    TILE_WORDS,
    depth_tiles,
    row_words,
)
from lodcli.kernels.rnn.engine.amx.packing import rounded_matrix, rounded_panels
from lodcli.kernels.rnn.engine.native.layout import BLOCK_TILES, DEPTH, VECTOR_ROWS, VECTORS
from lodcli.kernels.rnn.engine.native.packing import Pack, layout, matrix_panels, recurrent_panels
from lodcli.kernels.rnn.engine.native.structures import KINDS, Cell, Matrix
from lodcli.kernels.runtime.precision import rounds_on_cpu


class BackwardRoom(NamedTuple):
    """Sizes of the arrays of a BackwardSpace, in elements."""

    sums: int
    panel: int
    rounded: int


class Products(NamedTuple):
    """Kernels of a precision, and their helpers.

    Attributes:
        forward, backward: a kernel for each kind of cell.
        collect: the kernel that adds up the gradients of a chunk.
        panels, matrix_panels: pack weights for the kernels, transposed or as they are.
        tile_sums: returns the number of vectors of sums of a tile.
        rounded: returns the number of words for this many rounded rows.
        backward_room: returns the sizes for the backward pass, from weight_hh, weight_ih and the
            number of slots of a chunk.
    """

    forward: dict[str, Kernels]
    backward: dict[str, Kernels]
    collect: Kernels
    panels: Pack
    matrix_panels: Callable[[Array], Array]
    tile_sums: Callable[[Cell], int]
    rounded: Callable[[Cell, Matrix, int], int]
    backward_room: Callable[[Matrix, Matrix, int], BackwardRoom]


def _kernels(folder: str, deed: str) -> dict[str, Kernels]:
    return {kind: load.kernel(f"kernels.rnn.engine.{folder}.{deed}_numba", kind) for kind in KINDS}


def _collect(folder: str) -> Kernels:
    return load.kernel(f"kernels.rnn.engine.{folder}.backward_numba", "collect")


def _rounded_words(cell: Cell, matrix: Matrix, rows: int) -> int:
    # A block reads whole tiles of rows.
    return (rows + BLOCK_ROWS) * row_words(depth_tiles(max(cell.hidden, matrix.depth)))


def _tile_vectors() -> int:
    """Return the room for the sums of a tile, in vectors: of rows as wide as a panel."""
    return max(layout().tile_sums, VECTOR_ROWS * VECTORS)


def _exact_room(recurrent: Matrix, inputs: Matrix, slots: int) -> BackwardRoom:
    item_bytes = recurrent.panels.itemsize
    panel = DEPTH * layout().panel_width(item_bytes)
    return BackwardRoom(_tile_vectors() * layout().lanes(item_bytes), panel, 0)


def _amx_room(recurrent: Matrix, inputs: Matrix, slots: int) -> BackwardRoom:
    width = layout().panel_width(recurrent.panels.itemsize)
    panels = sum(-(-each.columns // width) for each in (recurrent, inputs) if each.depth)
    steps = depth_tiles(min(slots, BLOCK_SLOTS))
    words = row_words(max(steps, depth_tiles(recurrent.depth)))
    return BackwardRoom(
        BLOCK_ROWS * width, panels * steps * VECTORS * TILE_WORDS, BLOCK_ROWS * words
    )


EXACT = Products(
    _kernels("native", "forward"),
    _kernels("native", "backward"),
    _collect("native"),
    recurrent_panels,
    matrix_panels,
    lambda cell: max(_tile_vectors(), layout().tile_sums * (BLOCK_TILES if cell.blocked else 1)),
    lambda cell, matrix, rows: 0,
    _exact_room,
)
BFLOAT16 = Products(
    _kernels("amx", "forward"),
    _kernels("amx", "backward"),
    _collect("amx"),
    rounded_panels,
    rounded_matrix,
    lambda cell: BLOCK_ROWS * VECTORS,
    _rounded_words,
    _amx_room,
)


def products_for(dtype: np.dtype[Any]) -> Products:
    """Return the products to use; engine.py has checked that AMX is available."""
    return BFLOAT16 if rounds_on_cpu(dtype) else EXACT
