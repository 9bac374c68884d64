"""Packs weights into panels of AMX tiles, rounded to bfloat16."""

from __future__ import annotations

import math

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.native import load
from lodcli.kernels.rnn.engine.amx.layout import TILE_COLUMNS, TILE_WORDS, depth_tiles
from lodcli.kernels.rnn.engine.native.arrays import aligned
from lodcli.kernels.rnn.engine.native.layout import VECTORS

_pack = load.kernel("kernels.rnn.engine.amx.packing_numba", "pack")


def rounded_panels(weight: Array, gates: int, vectors: int) -> Array:
    """Return weight_hh.T in panels as packing.recurrent_panels of engine/native does; flat.

    A word, of the type float32, holds two numbers of bfloat16.
    """
    size, depth = len(weight) // gates, weight.shape[1]
    return _packed(weight, gates, size, depth, vectors, (depth, 1))


def rounded_matrix(weight: Array) -> Array:
    """Return a weight (K, columns) in panels as packing.matrix_panels of engine/native does; flat.

    See rounded_panels.
    """
    depth, columns = weight.shape
    return _packed(weight, 1, columns, depth, VECTORS, (1, columns))


def _packed(
    weight: Array, gates: int, size: int, depth: int, vectors: int, steps: tuple[int, int]
) -> Array:
    units = TILE_COLUMNS * vectors // gates
    shape = (-(-size // units), depth_tiles(depth), vectors, TILE_WORDS)
    panels = aligned(math.prod(shape), weight.dtype)
    words = weight.ravel().view(np.uint32), panels.view(np.uint32)
    _pack[""].call(0, 1, *words, gates, size, depth, units, shape[0], *steps)
    return panels
