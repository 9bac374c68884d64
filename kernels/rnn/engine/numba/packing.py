"""Weights in panels, the order in which tiles read them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.rnn.cells import cells_numba as cells
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.numba.arrays import aligned, flat
from lodcli.kernels.rnn.engine.numba.products import Matrix
from lodcli.kernels.rnn.engine.numba.tiles import (
    VECTORS,
    Fours,
    Threes,
    panel_width,
    panels_at_once,
)
from lodcli.kernels.runtime.jit_numba import njit
from lodcli.kernels.simd.lanes import lanes_of

_KINDS: dict[str, type[cells.Cell]] = {
    "lstm": cells.Lstm,
    "gru": cells.Gru,
    "elman": cells.ElmanTanh,
}
_ELMAN = {
    "tanh": cells.ElmanTanh,
    "relu": cells.ElmanRelu,
    "sigmoid": cells.ElmanSigmoid,
    "identity": cells.ElmanIdentity,
}


_made: dict[tuple[Any, ...], tuple[weakref.ref[Array], tuple[Array, ...], Any]] = {}


def _once(arrays: tuple[Array, ...], how: tuple[object, ...], make: Callable[[], Any]) -> Any:
    """Return make(), or what it gave before for the same arrays, if nobody can have changed them.

    Args:
        arrays: what it is made of; remembered, for as long as the first one lives, only if
            nobody can change any of them: see RNNWeights.frozen.
        how: what else it depends on.
    """
    if not all(is_immutable(array) for array in arrays):
        return make()
    first, *rest = arrays
    key = (*how, *map(id, arrays))
    found = _made.get(key)
    if found is not None and found[0]() is first:
        return found[2]
    result = make()
    forget = weakref.ref(first, lambda _: _made.pop(key, None))
    # The rest is held, so that no other array can come to have its id.
    _made[key] = (forget, tuple(rest), result)
    return result


@njit(cache=True, nogil=True)
def _pack_transposed(weight, gates, units, panels):  # type: ignore[no-untyped-def]
    """Fill panels[p, k, g * units + u] with weight[g, p * units + u, k]."""
    size, depth = weight.shape[1], weight.shape[2]
    for p in range(panels.shape[0]):
        for g in range(gates):
            for k in range(0, depth, 16):
                for u in range(units):
                    unit = p * units + u
                    for n in range(k, min(k + 16, depth)):
                        panels[p, n, g * units + u] = weight[g, unit, n] if unit < size else 0.0


@njit(cache=True, nogil=True)
def _pack(weight, panels):  # type: ignore[no-untyped-def]
    """Fill panels[p, k, n] with weight[k, p * width + n]."""
    depth, columns = weight.shape
    width = panels.shape[2]
    for p in range(panels.shape[0]):
        for k in range(depth):
            for n in range(width):
                column = p * width + n
                panels[p, k, n] = weight[k, column] if column < columns else 0.0


def recurrent_panels(weight: Array, gates: int, vectors: int) -> Array:
    """Return weight_hh.T in panels of the same units of all gates; flat.

    Args:
        weight: (gates * H, K).
        gates: how many blocks of H rows.
        vectors: how many a panel is wide, a multiple of `gates`.
    """
    units = lanes_of(weight.dtype) * vectors // gates
    size, depth = len(weight) // gates, weight.shape[1]
    shape = (-(-size // units), depth, gates * units)

    def pack() -> Array:
        panels = aligned(math.prod(shape), weight.dtype).reshape(shape)
        _pack_transposed(flat(weight).reshape(gates, size, depth), gates, units, panels)
        return panels.reshape(-1)

    panels: Array = _once((weight,), ("recurrent", gates, vectors), pack)
    return panels


def in_gate_order(values: Array, gates: int, vectors: int) -> Array:
    """Return (gates * H,) values in the order of the columns of recurrent_panels."""
    return recurrent_panels(values.reshape(-1, 1), gates, vectors)


def transposed_matrix(weight: Array) -> Matrix:
    """Return weight.T (K, columns) of a weight (columns, K)."""
    columns, depth = weight.shape
    panels = recurrent_panels(weight, 1, VECTORS)
    return Matrix(panels, _zeros(weight.dtype), depth, columns)


def matrix(weight: Array) -> Matrix:
    """Return a weight (K, columns) as it is."""
    depth, columns = weight.shape
    width = panel_width(weight.dtype)
    shape = (-(-columns // width), depth, width)

    def pack() -> Array:
        panels = aligned(math.prod(shape), weight.dtype).reshape(shape)
        _pack(flat(weight).reshape(weight.shape), panels)
        return panels.reshape(-1)

    return Matrix(_once((weight,), ("matrix",), pack), _zeros(weight.dtype), depth, columns)


def _zeros(dtype: np.dtype[Any]) -> Array:
    return np.zeros(panels_at_once(VECTORS) * panel_width(dtype), dtype)


def cell_of(weights: CellWeights) -> cells.Cell:
    """Return the compiled cell, one of cells.py, of weights that have one."""
    arrays = (weights.weight_hh, weights.bias_ih, weights.bias_hh)
    there = tuple(array for array in arrays if array is not None)
    missing = tuple(array is None for array in arrays)
    how = ("cell", weights.KIND, getattr(weights, "nonlinearity", None), missing)
    cell: cells.Cell = _once(there, how, lambda: _new_cell(weights))
    return cell


def _new_cell(weights: CellWeights) -> cells.Cell:
    cell = unpacked_cell_of(weights)
    shape = cells.shape_of(cell)
    size, dtype = weights.hidden_size, weights.weight_hh.dtype
    zeros = np.zeros(weights.GATES * size, dtype)
    of_input = zeros if weights.bias_ih is None else weights.bias_ih
    of_hidden = zeros if weights.bias_hh is None else weights.bias_hh
    biases = of_input + of_hidden
    if weights.KIND == "gru":
        biases[2 * size :] = of_hidden[2 * size :]
        cell = cell._replace(inner_bias=of_input[2 * size :].copy())
    return cell._replace(
        panels=recurrent_panels(weights.weight_hh, shape.gates, shape.vectors),
        start=in_gate_order(biases, shape.gates, shape.vectors),
    )


def unpacked_cell_of(weights: CellWeights) -> cells.Cell:
    """Return the same without its arrays: the way back has no use for them."""
    kind = _KINDS[weights.KIND]
    if isinstance(weights, ElmanWeights):
        kind = _ELMAN[weights.nonlinearity]
    none = np.zeros(0, weights.weight_hh.dtype)
    shape = Threes() if cells.SHAPES[kind].vectors == 3 else Fours()
    return kind(none, none, none, weights.hidden_size, shape)


def projection(weights: CellWeights) -> Matrix:
    """Return weight_ih.T; of depth 0 where there is none."""
    return no_matrix(weights) if weights.weight_ih is None else transposed_matrix(weights.weight_ih)


def no_matrix(weights: CellWeights) -> Matrix:
    """Return what stands for weight_ih where the data are projected already: of depth 0."""
    dtype = weights.weight_hh.dtype
    return Matrix(np.zeros(0, dtype), _zeros(dtype), 0, weights.GATES * weights.hidden_size)
