"""ONNX: models that torch exported, models that onnxruntime runs, and broken ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.weights import read_weights, write_weights
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.rnn.stack.stack import stack_forward
from lodcli.kernels.rnn.stack.state_dict import rnn_prefixes, weights_from_state_dict
from tests.formats.weights.weights_cases import CELLS, LENGTHS, OFFSETS, SHAPES, outputs, rnn, rows

onnx = pytest.importorskip("onnx")

MADE = Path(__file__).parents[1] / "made"
CLOSE = 1e-6  # float32, sums of eight products, two layers


@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_models_exported_by_torch_compute_what_torch_does(kind: str) -> None:
    with np.load(MADE / "torch_onnx.npz") as made:
        data, expected = made["x"], made[kind]
    weights = weights_from_state_dict(read_weights(MADE / f"torch_{kind}.onnx"))
    found = stack_forward(data, np.array([0, len(data)]), weights)
    np.testing.assert_allclose(found.outputs, expected, rtol=0, atol=CLOSE)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("shape", SHAPES)
def test_onnxruntime_computes_what_we_do(tmp_path: Path, cell: str, shape: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    weights = rnn(cell, "float32", **SHAPES[shape])
    if cell == "lstm":
        weights = rnn(cell, "float32", peepholes=True, **SHAPES[shape])
    write_weights(tmp_path / "w.onnx", weights)
    data = rows(dtype="float32")
    padded = np.zeros((5, 3, 3), np.float32)
    for number, (start, length) in enumerate(zip(OFFSETS, LENGTHS, strict=False)):
        padded[:length, number] = data[start : start + length]
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(tmp_path / "w.onnx"), options)
    (found,) = session.run(None, {"X": padded, "lengths": LENGTHS.astype(np.int32)})
    ours = np.concatenate([found[:length, n] for n, length in enumerate(LENGTHS)])
    np.testing.assert_allclose(ours, outputs(weights), rtol=0, atol=CLOSE)


# -- models made by hand -------------------------------------------------------------


def model(*nodes: Any, **arrays: Any) -> bytes:
    graph = onnx.helper.make_graph(
        list(nodes),
        "g",
        [],
        [],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    data: bytes = onnx.helper.make_model(graph).SerializeToString()
    return data


def node(kind: str = "RNN", inputs: str = "X W R B", name: str = "rnn", **attributes: Any) -> Any:
    parts = ["" if part == "-" else part for part in inputs.split()]
    return onnx.helper.make_node(kind, parts, [f"Y_{name}"], name=name, **attributes)


def arrays(gates: int = 1, directions: int = 1, width: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {
        "W": rng.normal(size=(directions, gates * 2, width)).astype(np.float32),
        "R": rng.normal(size=(directions, gates * 2, 2)).astype(np.float32),
        "B": rng.normal(size=(directions, 2 * gates * 2)).astype(np.float32),
    }


def read(folder: Path, data: bytes) -> Any:
    (folder / "w.onnx").write_bytes(data)
    return read_weights(folder / "w.onnx")


def test_weights_in_constant_nodes_are_read(tmp_path: Path) -> None:
    given = arrays()
    value = onnx.numpy_helper.from_array(given.pop("R"))
    constant = onnx.helper.make_node("Constant", [], ["R"], value=value)
    assert weights_from_state_dict(read(tmp_path, model(constant, node(), **given))).cell == "elman"


def test_nodes_that_do_not_feed_each_other_have_their_names(tmp_path: Path) -> None:
    data = model(node(name="a/b"), node(name="c"), node("RNN", "X2 W2 R", "d"), **arrays(),
                 W2=np.ones((1, 2, 2), np.float32))  # fmt: skip
    found = read(tmp_path, data)
    assert rnn_prefixes(found) == ["a_b.", "c.", "d."]
    assert found.said["a_b."] == {"cell": "elman"}


def test_nodes_of_one_name_are_all_read(tmp_path: Path) -> None:
    second = node("RNN", "X2 W2 R", "a_b")
    data = model(
        node(name="a/b"), second, node(name="a_b"), **arrays(), W2=np.ones((1, 2, 2), "f4")
    )
    found = read(tmp_path, data)
    assert rnn_prefixes(found) == ["a_b.", "a_b_1.", "a_b_2."]
    assert found["a_b_1.weight_ih_l0"].shape == (2, 2)


@pytest.mark.parametrize("kind", ["RNN", "LSTM"])
def test_initial_states_in_a_model_must_be_zeros(tmp_path: Path, kind: str) -> None:
    inputs, stored = "X W R B - H", arrays({"RNN": 1, "LSTM": 4}[kind])
    if kind == "LSTM":
        inputs = "X W R B - Z H"
    zeros, ones = np.zeros((1, 1, 2), np.float32), np.ones((1, 1, 2), np.float32)
    for states in (zeros, ones):
        data = model(node(kind, inputs), **stored, H=states, Z=zeros)
        if states is zeros:
            assert weights_from_state_dict(read(tmp_path, data)).hidden_size == 2
            continue
        with pytest.raises(UnsupportedError, match=r"initial_. \(H\): the model stores initial"):
            read(tmp_path, data)


# torch.onnx.export(dynamo=True) of torch 2.13 writes such nodes; ONNX Runtime refuses them.
DROPPED = r"initial_c: expected states of 2 values, found 4; torch exports an LSTM with proj_size"


def test_an_lstm_whose_projection_torch_dropped_is_refused(tmp_path: Path) -> None:
    states = {"H": np.zeros((1, 1, 2), np.float32), "C": np.zeros((1, 1, 4), np.float32)}
    data = model(node("LSTM", "X W R B - H C"), **arrays(4), **states)
    with pytest.raises(UnsupportedError, match=DROPPED):
        read(tmp_path, data)


@pytest.mark.parametrize("stored", [True, False])  # of two directions, torch computes W and R
def test_a_projection_dropped_from_a_model_of_any_batch_size_is_refused(
    tmp_path: Path, stored: bool
) -> None:
    lstm = node("LSTM", "X W R B - H C", hidden_size=2)
    made = onnx.ModelProto.FromString(model(lstm, **(arrays(4) if stored else {})))
    for name, width in {"H": 2, "C": 4}.items():
        shape = [1, "batch", width]
        made.graph.value_info.append(onnx.helper.make_tensor_value_info(name, 1, shape))
    with pytest.raises(UnsupportedError, match=DROPPED):
        read(tmp_path, made.SerializeToString())


def between(kind: str, *inputs: str, output: str = "H", **attributes: Any) -> Any:
    return onnx.helper.make_node(kind, list(inputs), [output], name=f"a {kind}", **attributes)


def filled(value: float) -> Any:
    return onnx.helper.make_tensor("value", onnx.TensorProto.FLOAT, [1], [value])


@pytest.mark.parametrize(
    ("nodes", "computed"),
    [
        ([], None),  # H is an input of the model
        ([between("ConstantOfShape", "shape")], None),
        ([between("ConstantOfShape", "shape", value=filled(0))], None),
        ([between("Expand", "zeros", "shape")], None),
        ([between("Concat", "zeros", "x", axis=0)], None),
        ([between("Add", "x", "zeros")], "a Add"),
        ([between("Mul", "x", "x", output="m"), between("Concat", "zeros", "m", axis=0)], "a Mul"),
        ([between("Slice", "Y_first", "b", "e")], "first"),
        ([between("Reshape", "H", "shape")], None),  # a loop, in a damaged model
    ],
)
def test_the_node_that_computes_initial_states_is_named(
    tmp_path: Path, nodes: list[Any], computed: str | None
) -> None:
    first = node(name="first")
    given = {**arrays(), "zeros": np.zeros((1, 1, 2), np.float32)}
    found = read(tmp_path, model(first, *nodes, node(inputs="X W R B - H", name="last"), **given))
    assert found.starts_from == ({} if computed is None else {"last.": computed})


@pytest.mark.parametrize(
    "states",
    [between("Expand", "ones", "shape"), between("ConstantOfShape", "shape", value=filled(1))],
)
def test_learned_initial_states_are_refused(tmp_path: Path, states: Any) -> None:
    given = {**arrays(), "ones": np.ones((1, 1, 2), np.float32)}
    data = model(states, node(inputs="X W R B - H"), **given)
    with pytest.raises(UnsupportedError, match=r"initial_h .*: the model stores initial states"):
        read(tmp_path, data)


def test_an_unsupported_node_does_not_prevent_reading_the_others(tmp_path: Path) -> None:
    found = read(tmp_path, model(node(name="a", clip=1.0), node(name="b"), **arrays()))
    assert rnn_prefixes(found) == ["a.", "b."]
    assert weights_from_state_dict(found, prefix="b").hidden_size == 2
    with pytest.raises(UnsupportedError, match="a: clips its cells"):
        weights_from_state_dict(found, prefix="a")


def test_weights_of_bfloat16_are_read(tmp_path: Path) -> None:
    given = arrays()
    halves = {name: array.astype(ml_dtypes.bfloat16) for name, array in given.items()}
    tensors = [
        onnx.helper.make_tensor(name, onnx.TensorProto.BFLOAT16, array.shape, array.tobytes(), True)
        for name, array in halves.items()
    ]
    graph = onnx.helper.make_graph([node()], "g", [], [], tensors)
    found = read(tmp_path, onnx.helper.make_model(graph).SerializeToString())
    np.testing.assert_array_equal(found["weight_ih_l0"], halves["W"][0].astype(np.float32))


def test_layers_are_found_behind_transpose_and_reshape(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Transpose", ["Y_one"], ["t"]),
        onnx.helper.make_node("Reshape", ["t", "shape"], ["r"]),
    ]
    second = {f"{name}2": array for name, array in arrays(width=2).items()}
    data = model(node(name="one"), *nodes, node("RNN", "r W2 R2 B2", "two"), **arrays(), **second)
    assert len(weights_from_state_dict(read(tmp_path, data)).layers) == 2


def broken(**changed: Any) -> dict[str, Any]:
    return arrays() | changed


def external(data: bytes, location: str = "w.onnx", **numbers: str) -> bytes:
    """Return a model whose first array is in another file; "w.onnx" is the model itself."""
    loaded = onnx.ModelProto.FromString(data)
    loaded.graph.initializer[0].data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **numbers}.items():
        entry = loaded.graph.initializer[0].external_data.add()
        entry.key, entry.value = key, value
    return bytes(loaded.SerializeToString())


def test_arrays_in_another_file_are_read_from_it(tmp_path: Path) -> None:
    """The exporter of torch stores weights so since 2.9."""
    given = arrays()
    loaded = onnx.ModelProto.FromString(model(node(), more=np.ones(99, np.float32), **given))
    how = {"save_as_external_data": True, "location": "w.data", "size_threshold": 0}
    onnx.save_model(loaded, str(tmp_path / "x.onnx"), **how)
    found = read_weights(tmp_path / "x.onnx")
    inside = read(tmp_path, model(node(), **given))
    assert found.keys() == inside.keys()
    for name, array in inside.items():
        np.testing.assert_array_equal(found[name], array)
    (tmp_path / "w.data").rename(tmp_path / "other")
    with pytest.raises(FileNotFoundError, match=r"w\.data"):
        read_weights(tmp_path / "x.onnx")


def edited(change: Callable[[Any], object]) -> bytes:
    loaded = onnx.ModelProto.FromString(model(node(), **arrays()))
    change(loaded.graph.initializer[0])
    return bytes(loaded.SerializeToString())


ZEROS = np.zeros((1, 2, 3), np.float32)
GRU_BEFORE: dict[str, Any] = {"activations": ["HardSigmoid", "Tanh"]}
BROKEN: list[tuple[bytes, type[LodError], str]] = [
    (b"\x08\x07", NotThisFormatError, "it has no nodes"),
    (b"\x08\xff\xff", DamagedFileError, "is not a complete ONNX model"),
    (model(onnx.helper.make_node("Add", ["a", "b"], ["c"])), InvalidDataError, "no node LSTM"),
    (model(node(inputs="X W"), **arrays()), DamagedFileError, "rnn: has no inputs W and R"),
    (model(node(inputs="X V R"), **arrays()), UnsupportedError, r"W \(V\) is computed by the mod"),
    (model(node(direction="reverse"), **arrays()), UnsupportedError, "is backward-only"),
    (model(node(direction="up"), **arrays()), DamagedFileError, "unknown direction b'up'"),
    (model(node(clip=1.0), **arrays()), UnsupportedError, "clips its cells"),
    (model(node(activations=["Elu"]), **arrays()), UnsupportedError, "activation elu; expected"),
    (model(node(activations=["Tanh"] * 2), **arrays()), DamagedFileError, "1 activations, found"),
    (
        model(node(direction="bidirectional", activations=["Tanh", "Relu"]), **arrays(1, 2)),
        UnsupportedError,
        "different activations forward",
    ),
    (
        model(node("GRU", linear_before_reset=1, activations=["Sigmoid", "Relu"]), **arrays(3)),
        UnsupportedError,
        "must have sigmoid and tanh",
    ),
    (model(node("GRU", **GRU_BEFORE), **arrays(3)), UnsupportedError, "activation hardsigmoid"),
    (model(node("GRU"), **arrays(4)), DamagedFileError, r"W: expected shape \(1, 6, 3\), found"),
    (model(node(direction="bidirectional"), **arrays()), DamagedFileError, "W: expected shape"),
    (model(node(), **broken(W=ZEROS[0])), DamagedFileError, "W: expected shape"),
    (model(node(), **broken(R=ZEROS)), DamagedFileError, "expected shape"),
    (model(node(), **broken(B=np.zeros((1, 3), "f4"))), DamagedFileError, r"B: expected shape"),
    (model(node(), **broken(R=np.zeros((1, 0, 0), "f4"))), DamagedFileError, "expected shape"),
    (model(node(), **broken(W=ZEROS.astype(np.int64))), UnsupportedError, "W: is of type int64"),
    (model(node(), **broken(W=np.array(["a"]))), UnsupportedError, "W: is of type string"),
    *[
        (external(model(node(), **arrays()), *where, **numbers), DamagedFileError, f"W: {message}")
        for where, numbers, message in [
            (["/etc/passwd"], {}, "refers to '/etc/passwd', which is not a plain name"),
            (["../w"], {}, "refers to '../w', which is not a plain name"),
            ([], {"offset": "-1"}, "needs [0-9]+ bytes of w.onnx from byte -1 on"),
            (
                [],
                {"offset": "9", "length": "9999"},
                "needs 9999 bytes of w.onnx from byte 9 on, which",
            ),
            ([], {"length": "x"}, "its offset or length in w.onnx is not a number"),
            ([], {"length": "8"}, ""),
        ]
    ],
    (edited(lambda t: t.dims.append(2**40)), DamagedFileError, "W: "),
    (edited(lambda t: t.dims.__setitem__(0, -1)), DamagedFileError, "W: dims"),
    (edited(lambda t: setattr(t, "raw_data", b"abc")), DamagedFileError, "W: "),
    (edited(lambda t: setattr(t, "data_type", 77)), LodError, "W: "),
]


@pytest.mark.parametrize(("data", "error", "message"), BROKEN)
def test_damaged_files_and_unknown_rnns_are_errors_that_name_the_file(
    tmp_path: Path, data: bytes, error: type[LodError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        read(tmp_path, data)
    assert str(caught.value).startswith(f"{tmp_path / 'w.onnx'}: ")
    assert len(str(caught.value).splitlines()) == 1
