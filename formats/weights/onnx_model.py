"""An ONNX model that computes one RNN: X (T, B, D) and lengths (B,) to Y (T, B, outputs)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.formats.weights.common import gated, keeping_by_update, two_biases
from lodcli.formats.weights.onnx_tables import ACTIVATIONS, ORDERS, PEEPHOLES, onnx, reordered
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.rnn.stack.stack import RNNWeights

# Old enough for runtimes of the last years, new enough for all operators used here.
OPSET, IR_VERSION = 14, 8
_NODES = {"lstm": "LSTM", "gru": "GRU", "gru_paddle": "GRU", "elman": "RNN"}


def model_of(weights: RNNWeights) -> Any:
    """Return the model.

    Raises:
        UnsupportedError: a projection, or an activation that ONNX does not name.
    """
    if weights.cell == "gru_paddle":
        weights = keeping_by_update(weights)
    helper = onnx().helper
    nodes: list[Any] = []
    stored: list[Any] = []
    value = "X"
    last = len(weights.layers) - 1
    for number, cells in enumerate(weights.layers):
        layer = tuple(map(gated, cells))
        names = _store(number, layer, stored)
        rnn = f"Y_l{number}"
        nodes.append(
            helper.make_node(
                _NODES[weights.cell],
                [value, *names[:3], "lengths", *names[3:]],
                [rnn],
                name=f"rnn_l{number}",
                hidden_size=weights.hidden_size,
                direction="bidirectional" if weights.directions == 2 else "forward",
                **_attributes(layer),
            )
        )
        # (T, directions, B, H) to (T, B, directions*H)
        nodes.append(helper.make_node("Transpose", [rnn], [f"{rnn}_t"], perm=[0, 2, 1, 3]))
        value = "Y" if number == last else f"X_l{number + 1}"
        nodes.append(helper.make_node("Reshape", [f"{rnn}_t", "rows"], [value]))
    stored.append(_initializer("rows", np.array([0, 0, -1], np.int64)))
    return _model(weights, nodes, stored)


def _model(weights: RNNWeights, nodes: list[Any], stored: list[Any]) -> Any:
    package = onnx()
    helper, kinds = package.helper, package.TensorProto
    dtype = helper.np_dtype_to_tensor_dtype(weights.layers[0][0].dtype)
    graph = helper.make_graph(
        nodes,
        "rnn",
        [
            helper.make_tensor_value_info("X", dtype, ["T", "B", weights.input_size]),
            helper.make_tensor_value_info("lengths", kinds.INT32, ["B"]),
        ],
        [helper.make_tensor_value_info("Y", dtype, ["T", "B", weights.output_size])],
        stored,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    package.checker.check_model(model)
    return model


def _store(number: int, layer: tuple[CellWeights, ...], stored: list[Any]) -> list[str]:
    """Add the arrays of a layer to `stored` and return the names of W, R, B, and of P."""
    inverse = np.argsort(ORDERS[layer[0].KIND])
    arrays: dict[str, list[Array]] = {"W": [], "R": [], "B": [], "P": []}
    for cell in layer:
        assert cell.weight_ih is not None
        arrays["W"].append(reordered(cell.weight_ih, inverse))
        arrays["R"].append(reordered(cell.weight_hh, inverse))
        biases = two_biases(cell)
        if biases is not None:
            arrays["B"].append(np.concatenate([reordered(bias, inverse) for bias in biases]))
        peepholes = cell.arrays().get("peepholes")
        if peepholes is not None:
            arrays["P"].append(peepholes[np.argsort(PEEPHOLES)].ravel())
    for name, parts in arrays.items():
        if parts and len(parts) != len(layer):
            raise UnsupportedError(
                f"layer {number}: ONNX needs {name} of both directions, or of neither"
            )
        if parts:
            stored.append(_initializer(f"{name}_l{number}", np.stack(parts)))
    names = [f"{name}_l{number}" if parts else "" for name, parts in arrays.items()]
    # P comes after the initial states.
    return names[:3] + (["", "", names[3]] if names[3] else [])


def _initializer(name: str, array: Array) -> Any:
    return onnx().numpy_helper.from_array(np.ascontiguousarray(array), name)


def _attributes(layer: tuple[CellWeights, ...]) -> dict[str, Any]:
    cell = layer[0]
    if isinstance(cell, LSTMWeights):
        if cell.weight_hr is not None:
            raise UnsupportedError("ONNX's LSTM has no projection")
        names = [cell.gate_activation, cell.candidate_activation, cell.cell_activation]
        return {"activations": _names(names, layer), "input_forget": int(cell.coupled)}
    if isinstance(cell, ElmanWeights):
        return {"activations": _names([cell.nonlinearity], layer)}
    if isinstance(cell, PaddleGRUWeights):
        names = [cell.gate_activation, cell.candidate_activation]
        return {"activations": _names(names, layer), "linear_before_reset": 0}
    return {"linear_before_reset": 1}


def _names(activations: list[str], layer: tuple[CellWeights, ...]) -> list[str]:
    for name in activations:
        if name not in ACTIVATIONS:
            raise UnsupportedError(f"ONNX has no activation {name} for RNNs")
    return [ACTIVATIONS[name] for name in activations] * len(layer)
