"""The coupled LSTM against onnxruntime's input_forget."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.kernels.rnn.engine.engine import rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights
from tests.oracles_rnn import close

# float32, sums of a handful of products, in another order.
TOLERANCE = 1e-6


def test_a_coupled_lstm_is_onnx_with_input_forget() -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(5)
    sequences, steps, width, hidden = 3, 4, 5, 2
    weights = seeded_weights("lstm", width, hidden, rng=rng).with_options(coupled=True)
    # ONNX: gates i, o, f, g; both biases side by side.
    order = np.concatenate([np.arange(hidden) + gate * hidden for gate in (0, 3, 1, 2)])
    arrays = {name: array[order] for name, array in weights.layers[0][0].arrays().items()}
    constants = {
        "W": arrays["weight_ih"][np.newaxis],
        "R": arrays["weight_hh"][np.newaxis],
        "B": np.concatenate([arrays["bias_ih"], arrays["bias_hh"]])[np.newaxis],
    }
    node = onnx.helper.make_node(
        "LSTM", ["X", *constants], ["Y"], hidden_size=hidden, input_forget=1
    )
    kind = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "lstm",
        [onnx.helper.make_tensor_value_info("X", kind, [steps, sequences, width])],
        [onnx.helper.make_tensor_value_info("Y", kind, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 9
    rows = rng.normal(size=(sequences, steps, width)).astype(np.float32)
    session = runtime.InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, {"X": rows.swapaxes(0, 1)})
    offsets = np.arange(sequences + 1) * steps
    found = rnn_forward(rows.reshape(-1, width), offsets, weights.layers[0][0]).outputs
    close(found.reshape(sequences, steps, hidden), wanted[:, 0].swapaxes(0, 1), TOLERANCE)
