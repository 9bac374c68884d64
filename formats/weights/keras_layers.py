"""Converts Keras's recurrent layers, arrays and options, to lod's and back.

    LSTM        kernel (D, 4H), recurrent (H, 4H), bias (4H), blocks i f c o
    GRU         kernel (D, 3H), recurrent (H, 3H), blocks z r h; with reset_after bias (2, 3H),
                of the input and of the recurrence: the GRU of torch; without it bias (3H): the
                GRU of Paddle with origin_mode
    SimpleRNN   kernel (D, H), recurrent (H, H), bias (H)

Bidirectional has two of them and concatenates their outputs (merge_mode "concat").
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.weights.common import Said, one_bias, options_of, two_biases
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights

CLASSES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
ACTIVATIONS = {"tanh": "tanh", "sigmoid": "sigmoid", "relu": "relu", "linear": "identity"}
_SPOKEN = {ours: theirs for theirs, ours in ACTIVATIONS.items()}


def from_keras(
    kernel: Array, recurrent: Array, bias: Array | None, config: dict[str, Any] | None
) -> tuple[Said, dict[str, Array]]:
    """Return the cell with its options, and one direction's arrays by torch's names.

    Args:
        kernel, recurrent, bias: see the docstring of this module.
        config: the layer's options; None for Keras's defaults.
    """
    gates = _gates(kernel, recurrent, bias)
    config = config or {}
    reset_after = config.get("reset_after")
    if gates == 3 and reset_after is None and bias is None:
        raise UnsupportedError(
            "a GRU without a bias: the file does not store whether its reset gate is applied after "
            "the matrix product; use the .keras file, which does"
        )
    if gates == 3 and bias is not None and (bias.ndim == 2) != (reset_after or bias.ndim == 2):
        raise DamagedFileError("a GRU whose bias and reset_after contradict each other")
    after = bool(reset_after) if bias is None else bias.ndim == 2
    arrays = {"weight_ih": kernel.T, "weight_hh": recurrent.T}
    if bias is not None and bias.ndim == 2:
        arrays |= {"bias_ih": bias[0], "bias_hh": bias[1]}
    elif bias is not None:
        arrays["bias_ih"] = bias
    said = _said(gates, after, config)
    if said["cell"] == "gru":
        arrays = {name: _swapped(array) for name, array in arrays.items()}
    return said, {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _gates(kernel: Array, recurrent: Array, bias: Array | None) -> int:
    size = recurrent.shape[0] if recurrent.ndim == 2 else 0
    gates = recurrent.shape[1] // size if size else 0
    width = gates * size
    biases = [(width,), (2, width)] if gates == 3 else [(width,)]
    shapes = [kernel.shape, recurrent.shape, *([] if bias is None else [bias.shape])]
    if (
        gates not in CLASSES.values()
        or recurrent.shape != (size, width)
        or kernel.ndim != 2
        or kernel.shape[1] != width
        or (bias is not None and bias.shape not in biases)
    ):
        raise DamagedFileError(
            "expected kernel (D, kH), recurrent kernel (H, kH) and bias (kH), k 4, 3 or 1; found "
            f"{', '.join(map(str, shapes))}"
        )
    return gates


def _swapped(array: Array) -> Array:
    """Return the blocks z r h as r z n, or back."""
    update, reset, candidate = np.split(array, 3)
    return np.concatenate([reset, update, candidate])


def _said(gates: int, reset_after: bool, config: dict[str, Any]) -> Said:
    activation = _activation(config.get("activation", "tanh"))
    gate = _activation(config.get("recurrent_activation", "sigmoid"))
    if gates == 1:
        return options_of("elman", nonlinearity=activation)
    if gates == 4:
        return options_of(
            "lstm",
            gate_activation=gate,
            cell_activation=activation,
            candidate_activation=activation,
        )
    if not reset_after:
        return options_of(
            "gru_paddle", gate_activation=gate, candidate_activation=activation, origin_mode=True
        )
    if (gate, activation) != ("sigmoid", "tanh"):
        raise UnsupportedError("a GRU with reset_after must have sigmoid and tanh")
    return options_of("gru")


def _activation(name: object) -> str:
    if not isinstance(name, str) or name not in ACTIVATIONS:
        raise UnsupportedError(
            f"activation {ascii(name)[:60]}; expected one of {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


def to_keras(cell: CellWeights) -> tuple[str, dict[str, Any], list[Array]]:
    """Return the class of a layer, its options, and its arrays in Keras's order.

    Raises:
        UnsupportedError: a cell that Keras does not have.
    """
    assert cell.weight_ih is not None
    config: dict[str, Any] = {"units": cell.hidden_size, "return_sequences": True}
    swap = cell.KIND == "gru"
    arrays = [_swapped(a) if swap else a for a in (cell.weight_ih, cell.weight_hh)]
    kernels = [np.ascontiguousarray(array.T) for array in arrays]
    biases, bias = two_biases(cell), one_bias(cell)
    config["use_bias"] = biases is not None
    with_bias = kernels if bias is None else [*kernels, bias]
    if isinstance(cell, LSTMWeights):
        if "weight_hr" in cell.arrays() or "peepholes" in cell.arrays() or cell.coupled:
            raise UnsupportedError("Keras's LSTM has no projection, peepholes or coupled gates")
        if cell.cell_activation != cell.candidate_activation:
            raise UnsupportedError("Keras's LSTM has one activation for candidate and cell")
        config |= _spoken(cell.cell_activation, cell.gate_activation)
        return "LSTM", config, with_bias
    if isinstance(cell, ElmanWeights):
        config["activation"] = _SPOKEN[cell.nonlinearity]
        return "SimpleRNN", config, with_bias
    if isinstance(cell, PaddleGRUWeights):
        config |= _spoken(cell.candidate_activation, cell.gate_activation)
        config["reset_after"] = False
        return "GRU", config, with_bias
    config["reset_after"] = True
    if biases is not None:
        kernels.append(np.stack([_swapped(part) for part in biases]))
    return "GRU", config, kernels


def _spoken(activation: str, gate: str) -> dict[str, str]:
    return {"activation": _SPOKEN[activation], "recurrent_activation": _SPOKEN[gate]}
