"""Packs weights into panels, in the order in which tiles read them."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.native import load
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
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


_made: dict[tuple[Any, ...], tuple[weakref.ref[Array], tuple[Array, ...], Any]] = {}


def once(arrays: tuple[Array, ...], how: tuple[object, ...], make: Callable[[], R]) -> R:
    """Return make(), cached for the same arrays if they are immutable.

    Args:
        arrays: the inputs of `make`; cached for the lifetime of the first one, and only if all are
            immutable: see RNNWeights.frozen.
        how: the other parameters.
    """
    for array in arrays:
        if not is_immutable(array):
            return make()
    first, *rest = arrays
    key = (*how, *map(id, arrays))
    found = _made.get(key)
    if found is not None and found[0]() is first:
        return cast("R", found[2])
    result = make()
    forget = weakref.ref(first, lambda _: _made.pop(key, None))
    # References to the others, so that their ids are not reused.
    _made[key] = (forget, tuple(rest), result)
    return result


def recurrent_panels(weight: Array, gates: int, vectors: int) -> Array:
    """Return weight_hh.T in panels of the same units of all gates; flat.

    Args:
        weight: (gates * H, K).
        gates: how many blocks of H rows.
        vectors: how many a panel is wide, a multiple of `gates`.
    """
    units = layout().lanes(weight.itemsize) * vectors // gates
    size, depth = len(weight) // gates, weight.shape[1]
    shape = (-(-size // units), depth, gates * units)

    def pack() -> Array:
        panels = aligned(math.prod(shape), weight.dtype)
        _pack_transposed[weight.dtype.char].call(
            *(0, 1, np.ascontiguousarray(weight), panels, gates, size, depth, units, shape[0])
        )
        return panels

    return once((weight,), ("recurrent", gates, vectors), pack)


def in_gate_order(values: Array, gates: int, vectors: int) -> Array:
    """Return (gates * H,) values in the order of the columns of recurrent_panels."""
    return recurrent_panels(values.reshape(-1, 1), gates, vectors)


def matrix(weight: Array, pack: Callable[[Array], Array]) -> Matrix:
    """Return a weight (K, columns) as it is, packed by matrix_panels or rounded as well."""
    depth, columns = weight.shape
    panels = pack(weight)
    return Matrix(panels, _zeros(weight.dtype), depth, columns, is_blocked(weight.nbytes))


def matrix_panels(weight: Array) -> Array:
    """Return a weight (K, columns) in panels: see Matrix; flat."""
    depth, columns = weight.shape
    width = layout().panel_width(weight.itemsize)
    shape = (-(-columns // width), depth, width)

    def pack() -> Array:
        panels = aligned(math.prod(shape), weight.dtype)
        given = np.ascontiguousarray(weight)
        _pack[weight.dtype.char].call(0, 1, given, panels, depth, columns, width, shape[0])
        return panels

    return once((weight,), ("matrix",), pack)


@cache
def _zeros(dtype: np.dtype[Any]) -> Array:
    return np.zeros(layout().panels_at_once(VECTORS) * layout().panel_width(dtype.itemsize), dtype)


def packed(weights: CellWeights, pack: Pack) -> tuple[Cell, Matrix]:
    """Return the cell of weights that have a compiled one, and weight_ih.T; both packed.

    The matrix is of depth 0 where there is no weight_ih.
    """
    arrays = weights.arrays()
    how = ("packed", weights.KIND, getattr(weights, "nonlinearity", None), *arrays, pack)

    def make() -> tuple[Cell, Matrix]:
        return _cell_of(weights, pack), _projection(weights, pack)

    return once(tuple(arrays.values()), how, make)


def _cell_of(weights: CellWeights, pack: Pack) -> Cell:
    cell = unpacked_cell_of(weights)
    shape = SHAPES[type(cell)]
    size, dtype = weights.hidden_size, weights.weight_hh.dtype
    zeros = np.zeros(weights.GATES * size, dtype)
    of_input = zeros if weights.bias_ih is None else weights.bias_ih
    of_hidden = zeros if weights.bias_hh is None else weights.bias_hh
    biases = of_input + of_hidden
    if weights.KIND == "gru":
        biases[2 * size :] = of_hidden[2 * size :]
        cell = cell._replace(inner_bias=of_input[2 * size :].copy())
    return cell._replace(
        panels=pack(weights.weight_hh, shape.gates, shape.vectors),
        start=in_gate_order(biases, shape.gates, shape.vectors),
    )


def unpacked_cell_of(weights: CellWeights) -> Cell:
    """Return the same without its arrays, which the backward pass does not use."""
    none = np.zeros(0, weights.weight_hh.dtype)
    blocked = is_blocked(weights.weight_hh.nbytes)
    cell = KINDS[weights.KIND](none, none, none, weights.hidden_size, blocked)
    if isinstance(weights, ElmanWeights):
        return cell._replace(activation=_ACTIVATIONS[weights.nonlinearity])
    return cell


def _projection(weights: CellWeights, pack: Pack) -> Matrix:
    if weights.weight_ih is None:
        return no_matrix(weights)
    columns, depth = weights.weight_ih.shape
    panels = pack(weights.weight_ih, 1, VECTORS)
    blocked = is_blocked(weights.weight_ih.nbytes)
    return Matrix(panels, _zeros(panels.dtype), depth, columns, blocked)


def no_matrix(weights: CellWeights) -> Matrix:
    """Return an empty matrix, of depth 0, in place of weight_ih if the data are already
    projected."""
    dtype = weights.weight_hh.dtype
    columns = weights.GATES * weights.hidden_size
    return Matrix(np.zeros(0, dtype), _zeros(dtype), 0, columns, False)
