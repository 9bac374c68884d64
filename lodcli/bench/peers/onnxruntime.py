"""ONNX Runtime's LSTM, GRU and RNN, with sequence lengths, and on several padded batches of
sequences of similar lengths; forward only.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

# Numbers of batches of similar lengths to try: which is fastest depends on the lengths.
BUCKETS = (4, 16)
KINDS = {"lstm": "LSTM", "gru": "GRU", "elman": "RNN"}
# torch's blocks i f g o and r z n, in ONNX's order i o f c and z r h.
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "elman": (0,)}


def version() -> str:
    """Return the measured version."""
    return str(onnxruntime.__version__)


def threads(count: int) -> None:
    """Store the number of threads, which a session needs when it is created."""
    os.environ["_LOD_ORT_THREADS"] = str(count)


def rnn(which: str, inputs: dict[str, Any]) -> dict[str, Any]:
    """Return the implementations of an RNN with ONNX Runtime."""
    # Its LSTM, GRU and RNN support only float32.
    if which != "forward" or inputs["data"].dtype != np.float32:
        return {}
    session = _session(inputs)
    lengths, places = inputs["lengths"], inputs["places"]
    steps, width = int(lengths.max()), inputs["data"].shape[1]
    box = np.zeros((lengths.size * steps, width), np.float32)
    box[places] = inputs["data"]
    box = np.ascontiguousarray(box.reshape(lengths.size, steps, width).swapaxes(0, 1))
    feed = {"X": box, "L": lengths.astype(np.int32)}

    def arrays(found: Any) -> list[Any]:
        outputs = found[0][:, 0].swapaxes(0, 1)
        return [outputs.reshape(-1, outputs.shape[2])[places]]

    ways = {"sequence_lens": (lambda: session.run(None, feed), arrays)}
    for count in BUCKETS:
        if count < lengths.size:
            ways[f"{count} buckets"] = _in_buckets(session, inputs, count)
    return ways


def _in_buckets(session: Any, inputs: dict[str, Any], count: int) -> Any:
    data, offsets, lengths = inputs["data"], inputs["offsets"], inputs["lengths"]
    buckets = np.array_split(np.argsort(-lengths, kind="stable"), count)
    feeds = []
    for bucket in buckets:
        box = np.zeros((lengths[bucket].max(), bucket.size, data.shape[1]), np.float32)
        for place, number in enumerate(bucket):
            box[: lengths[number], place] = data[offsets[number] : offsets[number + 1]]
        feeds.append({"X": box, "L": lengths[bucket].astype(np.int32)})

    def arrays(found: Any) -> list[Any]:
        rows = np.empty((len(data), inputs["weight_hh"].shape[1]), np.float32)
        for bucket, outputs in zip(buckets, found, strict=True):
            for place, number in enumerate(bucket):
                first, end = offsets[number : number + 2]
                rows[first:end] = outputs[0][: end - first, 0, place]
        return [rows]

    return (lambda: [session.run(None, feed) for feed in feeds]), arrays


def _session(inputs: dict[str, Any]) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(os.environ.get("_LOD_ORT_THREADS", "1"))
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(
        _model(inputs).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _model(inputs: dict[str, Any]) -> Any:
    cell = inputs["cell"]

    def ordered(array: Any) -> Any:
        blocks = np.split(array, len(ORDERS[cell]))
        return np.concatenate([blocks[place] for place in ORDERS[cell]])

    biases = np.concatenate([ordered(inputs["bias_ih"]), ordered(inputs["bias_hh"])])
    more: dict[str, Any] = {"linear_before_reset": 1} if cell == "gru" else {}
    node = helper.make_node(
        KINDS[cell],
        ["X", "W", "R", "B", "L"],
        ["Y"],
        hidden_size=inputs["weight_hh"].shape[1],
        **more,
    )
    steps, count = "steps", "sequences"
    hidden = inputs["weight_hh"].shape[1]
    graph = helper.make_graph(
        [node],
        "rnn",
        [
            helper.make_tensor_value_info(
                "X", TensorProto.FLOAT, [steps, count, inputs["data"].shape[1]]
            ),
            helper.make_tensor_value_info("L", TensorProto.INT32, [count]),
        ],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [steps, 1, count, hidden])],
        [
            numpy_helper.from_array(ordered(inputs["weight_ih"])[None], "W"),
            numpy_helper.from_array(ordered(inputs["weight_hh"])[None], "R"),
            numpy_helper.from_array(biases[None], "B"),
        ],
    )
    opset = [helper.make_opsetid("", 14)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    onnx.checker.check_model(model)
    return model
