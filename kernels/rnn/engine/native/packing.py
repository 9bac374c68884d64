"""Packs weights into panels, in the order in which tiles read them."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.native import load
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.engine.native.arrays import aligned
from lodcli.kernels.rnn.engine.native.layout import SHAPES, VECTORS, Layout
from lodcli.kernels.rnn.engine.native.structures import (
    IDENTITY,
    KINDS,
    RELU,
    SIGMOID,
    TANH,
    Cell,
    Matrix,
)
from lodcli.kernels.rnn.engine.native.tuning import is_blocked

P = TypeVar("P", bound=Callable[..., Any])
R = TypeVar("R")
#: See recurrent_panels: packs a weight for so many gates and vectors.
Pack = Callable[[Array, int, int], Array]
_ACTIVATIONS = {"tanh": TANH, "relu": RELU, "sigmoid": SIGMOID, "identity": IDENTITY}

_MODULE = "kernels.rnn.engine.native.packing_numba"
_pack_transposed, _pack = (load.kernel(_MODULE, name) for name in ("pack_transposed", "pack"))
_layout = load.kernel("kernels.rnn.engine.native.forward_numba", "layout")


@cache
def layout() -> Layout:
    """Return the register layout of the compiled kernels, whose level may be below this
    processor's."""
    return Layout(*divmod(_layout[""].call(0, 1), 256))


_made: dict[tuple[Any, ...], tuple[tuple[weakref.ref[Array], ...], Any]] = {}


def once(arrays: tuple[Array, ...], how: tuple[object, ...], make: Callable[[], R]) -> R:
    """Return make(), cached for the same arrays if they are immutable.

    Args:
        arrays: the inputs of `make`; cached until any of them is deleted, and only if all are
            immutable: see RNNWeights.frozen.
        how: the other parameters.
    """
    for array in arrays:
        if not is_immutable(array):
            return make()
    key = (*how, *map(id, arrays))
    found = _made.get(key)
    if found is not None:
        return cast("R", found[1])
    result = make()

    def forget(_: object) -> None:
        # Before the memory of the array is freed: no other array has had its id.
        _made.pop(key, None)

    _made[key] = tuple(weakref.ref(array, forget) for array in arrays), result
    return result


def recurrent_panels(weight: Array, gates: int, vectors: int) -> Array:
    """Return weight_hh.T in panels of the same units of all gates; flat.

    Args:
        weight: (gates * H, K).
        gates: how many blocks of H rows.
        vectors: how many a panel is wide, a multiple of `gates`.
    """
    units = layout().lanes(weight.itemsize) * vectors // gates
    rows, depth = weight.shape
    size = rows // gates
    count = -(-size // units)
    panels = aligned(count * depth * gates * units, weight.dtype)
    _pack_transposed[weight.dtype.char].call(
        0, 1, np.ascontiguousarray(weight), panels, gates, size, depth, units, count
    )
    return panels


def in_gate_order(values: Array, gates: int, vectors: int) -> Array:
    """Return (gates * H,) values in the order of the columns of recurrent_panels."""
    return recurrent_panels(values.reshape(-1, 1), gates, vectors)


def matrix_panels(weight: Array) -> Array:
    """Return a weight (K, columns) in panels: see Matrix; flat."""
    depth, columns = weight.shape
    width = layout().panel_width(weight.itemsize)
    count = -(-columns // width)
    panels = aligned(count * depth * width, weight.dtype)
    _pack[weight.dtype.char].call(
        0, 1, np.ascontiguousarray(weight), panels, depth, columns, width, count
    )
    return panels


@cache
def _none(dtype: np.dtype[Any]) -> Array:
    return np.zeros(0, dtype)


@cache
def _zeros(dtype: np.dtype[Any]) -> Array:
    return np.zeros(layout().panels_at_once(VECTORS) * layout().panel_width(dtype.itemsize), dtype)


def packed(weights: CellWeights, pack: Pack) -> tuple[Cell, Matrix]:
    """Return the cell of weights that have a compiled one, and weight_ih.T; both packed.

    The matrix is of depth 0 where there is no weight_ih.
    """
    return _once("forward", weights, pack, _packed)


def packed_backward(
    weights: CellWeights, pack: Callable[[Array], Array]
) -> tuple[Cell, Matrix, Matrix]:
    """Return what the backward pass multiplies by: weight_hh, its rows in the order of the slopes,
    and weight_ih, of depth 0 where there is none; and the cell without arrays, which it does not
    use."""
    return _once("backward", weights, pack, _packed_backward)


def _once(what: str, weights: CellWeights, pack: P, make: Callable[[CellWeights, P], R]) -> R:
    arrays = weights.arrays()
    how = (what, weights.KIND, getattr(weights, "nonlinearity", None), *arrays, pack)
    return once(tuple(arrays.values()), how, lambda: make(weights, pack))


@np.errstate(all="ignore")  # biases may be infinite
def _packed(weights: CellWeights, pack: Pack) -> tuple[Cell, Matrix]:
    shape = SHAPES[KINDS[weights.KIND]]
    last = 2 * weights.hidden_size
    of_input, of_hidden = weights.bias_ih, weights.bias_hh
    if of_input is None or of_hidden is None:
        zeros = np.zeros(weights.GATES * weights.hidden_size, weights.weight_hh.dtype)
        of_input = zeros if of_input is None else of_input
        of_hidden = zeros if of_hidden is None else of_hidden
    biases, inner = of_input + of_hidden, _none(weights.weight_hh.dtype)
    if weights.KIND == "gru":
        biases[last:] = of_hidden[last:]
        inner = of_input[last:].copy()
    panels = pack(weights.weight_hh, shape.gates, shape.vectors)
    start = in_gate_order(biases, shape.gates, shape.vectors)
    cell = _cell(weights, panels, start, inner)
    weight = weights.weight_ih
    if weight is None:
        return cell, _no_matrix(weights)
    return cell, _matrix(weight, pack(weight, 1, VECTORS), transposed=True)


def _packed_backward(
    weights: CellWeights, pack: Callable[[Array], Array]
) -> tuple[Cell, Matrix, Matrix]:
    none, weight = _none(weights.weight_hh.dtype), _in_order_of_slopes(weights, weights.weight_hh)
    recurrent, of_input = _matrix(weight, pack(weight)), weights.weight_ih
    inputs = _no_matrix(weights) if of_input is None else _matrix(of_input, pack(of_input))
    return _cell(weights, none, none, none), recurrent, inputs


def _in_order_of_slopes(weights: CellWeights, array: Array) -> Array:
    """Return rows r, z, n of a GRU as n, r, z; those of other cells as they are."""
    if weights.KIND != "gru":
        return array
    last = 2 * weights.hidden_size
    return np.concatenate([array[last:], array[:last]])


def _cell(weights: CellWeights, panels: Array, start: Array, inner_bias: Array) -> Cell:
    activation = _ACTIVATIONS[getattr(weights, "nonlinearity", "tanh")]
    blocked = is_blocked(weights.weight_hh.nbytes)
    return KINDS[weights.KIND](panels, start, inner_bias, weights.hidden_size, blocked, activation)


def _matrix(weight: Array, panels: Array, *, transposed: bool = False) -> Matrix:
    depth, columns = reversed(weight.shape) if transposed else weight.shape
    return Matrix(panels, _zeros(panels.dtype), depth, columns, is_blocked(weight.nbytes))


def _no_matrix(weights: CellWeights) -> Matrix:
    """Return an empty matrix, of depth 0, in place of weight_ih if the data are already
    projected."""
    dtype = weights.weight_hh.dtype
    return Matrix(_none(dtype), _zeros(dtype), 0, weights.GATES * weights.hidden_size, False)
