"""Code shared by several kinds of weights files."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights
from lodcli.kernels.rnn.cells.registry import weights_class
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.stack.stack import RNNWeights

Said = dict[str, str | bool]
# Remedy for files without weights.
SAVE_ARRAYS = (
    "save arrays by torch's names with safetensors.numpy.save_file(arrays, 'weights.safetensors')"
)


def gated(cell: LayerWeights) -> CellWeights:
    """Return the cell, if it is one that torch, Keras, ONNX or Paddle has.

    Raises:
        UnsupportedError: it is another cell.
    """
    if not isinstance(cell, CellWeights):
        raise UnsupportedError(f"cannot hold a {cell.KIND}; safetensors and torch hold every cell")
    return cell


def two_biases(cell: CellWeights) -> tuple[Array, Array] | None:
    """Return bias_ih and bias_hh, zeros for a missing one; None if both are missing."""
    ih, hh = cell.bias_ih, cell.bias_hh
    if ih is None and hh is None:
        return None
    zeros = np.zeros(cell.GATES * cell.hidden_size, cell.weight_hh.dtype)
    return (zeros if ih is None else ih), (zeros if hh is None else hh)


def with_two_biases(weights: RNNWeights) -> RNNWeights:
    """Return the weights with two biases in each cell, or with none, as in torch's modules."""

    def completed(cell: LayerWeights) -> LayerWeights:
        if not isinstance(cell, CellWeights):
            return cell
        zeros = np.zeros(cell.GATES * cell.hidden_size, cell.weight_hh.dtype)
        ih, hh = two_biases(cell) or (zeros, zeros)
        return dataclasses.replace(cell, bias_ih=ih, bias_hh=hh)

    cells = (cell for layer in weights.layers for cell in layer)
    has = any(isinstance(cell, CellWeights) and two_biases(cell) is not None for cell in cells)
    return weights.map(completed) if has else weights


def one_bias(cell: CellWeights) -> Array | None:
    """Return the sum of the two biases, for cells that only add them; None if there are none."""
    if cell.bias_ih is None or cell.bias_hh is None:
        return cell.bias_hh if cell.bias_ih is None else cell.bias_ih
    total: Array = cell.bias_ih + cell.bias_hh
    return total


def keeping_by_update(weights: RNNWeights) -> RNNWeights:
    """Return the weights of a gru_paddle whose update gate is the share of the old state to keep.

    That is the definition of ONNX, Keras and Paddle's origin_mode; Paddle's default is the
    opposite. As 1 - sigmoid(x) is sigmoid(-x), negating the gate's weights converts one into the
    other.

    Raises:
        UnsupportedError: the gate activation is not sigmoid.
    """

    def turned(cell: LayerWeights) -> LayerWeights:
        assert isinstance(cell, PaddleGRUWeights)
        if cell.origin_mode:
            return cell
        if cell.gate_activation != "sigmoid":
            raise UnsupportedError(
                f"gate_activation={cell.gate_activation} without origin_mode: the update gate of "
                "other libraries is the opposite, and only a sigmoid can be converted; write "
                "safetensors"
            )
        sign = np.ones(3 * cell.hidden_size, cell.weight_hh.dtype)
        sign[: cell.hidden_size] = -1
        arrays: dict[str, Any] = {
            name: array * (sign[:, np.newaxis] if array.ndim == 2 else sign)
            for name, array in cell.arrays().items()
        }
        return dataclasses.replace(cell, origin_mode=True, **arrays)

    return weights.map(turned)


def options_of(kind: str, **options: str | bool) -> Said:
    """Return the cell and its options that differ from the defaults."""
    defaults = {field.name: field.default for field in dataclasses.fields(weights_class(kind))}
    said: Said = {"cell": kind}
    said |= {name: value for name, value in options.items() if value != defaults[name]}
    return said


def prefixes(names: Iterable[str]) -> list[str]:
    """Return the prefixes of the weights of RNNs with these names, all different; "" for one RNN.

    >>> prefixes(["encoder", "lstm", "lstm"])
    ['encoder.', 'lstm.', 'lstm_1.']
    """
    given = list(names)
    found: dict[str, None] = {}
    repeated: Counter[str] = Counter()
    for name in given:
        prefix = f"{name}."
        while prefix in found:
            repeated[name] += 1
            prefix = f"{name}_{repeated[name]}."
        found[prefix] = None
    return list(found) if len(given) > 1 else [""] * len(given)
