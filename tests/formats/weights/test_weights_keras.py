"""Keras: files that Keras wrote, models that Keras loads, and broken ones."""

from __future__ import annotations

import io as bytes_io
import json
import os
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import ml_dtypes
import numpy as np
import pytest

from lodcli.formats.core.errors import DamagedFileError, NotThisFormatError
from lodcli.formats.weights import read_weights, write_weights
from lodcli.kernels.errors import InvalidDataError, LodError, UnsupportedError
from lodcli.kernels.rnn.stack.stack import stack_forward
from lodcli.kernels.rnn.stack.state_dict import rnn_prefixes, weights_from_state_dict
from tests.formats.weights.weights_cases import CELLS, LENGTHS, OFFSETS, SHAPES, outputs, rnn, rows

MADE = Path(__file__).parents[1] / "made"
CLOSE = 1e-6  # float32, sums of eight products, two layers


@pytest.mark.parametrize("suffix", ["keras", "weights.h5", "h5"])
@pytest.mark.parametrize("name", ["lstm", "gru", "gru_before"])
def test_files_of_keras_compute_what_keras_does(name: str, suffix: str) -> None:
    with np.load(MADE / "keras.npz") as made:
        data, expected = made["x"], made[name]
    stored = read_weights(MADE / f"keras_{name}.{suffix}")
    prefix = None
    if suffix == "weights.h5" and len(rnn_prefixes(stored)) > 1:  # connections are not stored
        prefix = ",".join(part.removesuffix(".") for part in rnn_prefixes(stored))
        with pytest.raises(InvalidDataError, match=r"2 RNNs, .*\(A,B takes A and B as layers"):
            weights_from_state_dict(stored)
    weights = weights_from_state_dict(stored, prefix=prefix)
    if name == "gru_before" and suffix == "weights.h5":  # only the model's description says relu
        assert weights.layers[0][0].candidate_activation == "tanh"  # type: ignore[attr-defined]
        weights = weights.with_options(candidate_activation="relu")
    found = stack_forward(data, np.array([0, len(data)]), weights)
    np.testing.assert_allclose(found.outputs, expected, rtol=0, atol=CLOSE)


def test_layers_with_others_between_them_are_rnns_of_their_own() -> None:
    found = read_weights(MADE / "keras_simple.keras")
    assert rnn_prefixes(found) == ["second.", "simple_rnn."]
    assert found.said["simple_rnn."] == {"cell": "elman", "nonlinearity": "relu"}
    assert found.said["second."] == {"cell": "elman"}
    numbered = read_weights(MADE / "keras_simple.weights.h5")
    assert rnn_prefixes(numbered) == ["simple_rnn.", "simple_rnn_1."]


def test_bfloat16_is_read_as_float32(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.weights.h5", rnn("lstm", "float32"))
    exact = read_weights(tmp_path / "w.weights.h5")
    with h5py.File(tmp_path / "w.weights.h5", "r+") as file:
        variables = file["layers/lstm/cell/vars"]
        for name in "012":
            bits = variables[name][()].astype(ml_dtypes.bfloat16)
            del variables[name]
            variables[name] = bits  # as Keras: opaque values of two bytes
            variables[name].attrs["dtype"] = "bfloat16"
    found = read_weights(tmp_path / "w.weights.h5")
    for name, array in exact.items():
        rounded = array.astype(ml_dtypes.bfloat16).astype(np.float32)
        np.testing.assert_array_equal(found[name], rounded, strict=True)


def test_keras_loads_what_we_write_and_computes_the_same(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        keras = pytest.importorskip("keras")
        for cell in CELLS:
            weights = rnn(cell, "float32", **SHAPES["both" if cell == "gru" else "layers"])
            write_weights(tmp_path / "w.keras", weights, overwrite=True)
            write_weights(tmp_path / "w.weights.h5", weights, overwrite=True)
            model = keras.models.load_model(tmp_path / "w.keras")
            _check(model, weights)
            for variable in model.weights:
                variable.assign(variable * 0)
            model.load_weights(tmp_path / "w.weights.h5")
            _check(model, weights)


def _check(model: Any, weights: Any) -> None:
    data = rows(dtype="float32")
    for start, length in zip(OFFSETS, LENGTHS, strict=False):
        part = slice(start, start + length)
        found = np.asarray(model(data[np.newaxis, part]).detach())[0]
        np.testing.assert_allclose(found, outputs(weights)[part], rtol=0, atol=CLOSE)


# -- broken ones ---------------------------------------------------------------------


def image(change: Callable[[h5py.File], object] = lambda file: None) -> bytes:
    """Return a .weights.h5 with an LSTM of 3 inputs and H 2, changed."""
    stream = bytes_io.BytesIO()
    with h5py.File(stream, "w") as file:
        for number, shape in enumerate([(3, 8), (2, 8), (8,)]):
            file[f"layers/lstm/cell/vars/{number}"] = np.ones(shape, np.float32)
        change(file)
    return stream.getvalue()


def put(path: str, value: Any) -> Callable[[h5py.File], object]:
    def change(file: h5py.File) -> None:
        del file[path]
        file[path] = value

    return change


def lstm(**options: Any) -> dict[str, Any]:
    return {"class_name": "LSTM", "config": {"name": "lstm", **options}}


def archive(config: Any = None, weights: bytes | None = None, **more: bytes) -> bytes:
    if config is None:
        config = {"config": {"layers": [lstm()]}}
    text = config if isinstance(config, bytes) else json.dumps(config).encode()
    members = {"metadata.json": b"{}", "config.json": text, "model.weights.h5": image()}
    if weights is not None:
        members["model.weights.h5"] = weights
    stream = bytes_io.BytesIO()
    with zipfile.ZipFile(stream, "w") as file:
        for name, content in (members | more).items():
            file.writestr(name, content)
    return stream.getvalue()


def layers(*entries: Any) -> dict[str, Any]:
    return {"config": {"layers": list(entries)}}


def both(**options: Any) -> dict[str, Any]:
    return {"class_name": "Bidirectional", "config": {"layer": lstm(), **options}}


def nested(depth: int) -> dict[str, Any]:
    entry: dict[str, Any] = lstm()
    for _ in range(depth):
        entry = {"class_name": "Functional", "config": {"layers": [entry]}}
    return entry


KERNEL, RECURRENT, BIAS = (f"layers/lstm/cell/vars/{n}" for n in range(3))
ONES = np.ones((2, 8), np.float32)
BROKEN: list[tuple[bytes, type[LodError], str]] = [
    (image(put(KERNEL, np.ones((3, 7), "f4"))), DamagedFileError, r"found \(3, 7\), \(2, 8\)"),
    (image(put(RECURRENT, np.ones((2, 10), "f4"))), DamagedFileError, "expected kernel"),
    (image(put(RECURRENT, np.ones((0, 8), "f4"))), DamagedFileError, "expected kernel"),
    (image(put(BIAS, np.ones(7, "f4"))), DamagedFileError, "expected kernel"),
    (image(put(BIAS, ONES)), DamagedFileError, "expected kernel"),
    (image(put(KERNEL, np.ones((3, 8, 1), "f4"))), InvalidDataError, "a matrix or a vector"),
    (image(put(KERNEL, np.ones((3, 8), int))), UnsupportedError, "holds int64"),
    (image(put(KERNEL, "text")), UnsupportedError, "data of variable length, not numbers"),
    (image(put(KERNEL, 1.0)), InvalidDataError, "a matrix or a vector"),
    (image(lambda f: f.pop(KERNEL)), InvalidDataError, "has no kernel"),
    (image(lambda f: f.pop("layers")), InvalidDataError, "holds no weights of an RNN"),
    (image(put(KERNEL, h5py.SoftLink("/x"))), DamagedFileError, "is a soft or external link"),
    (
        image(put(KERNEL, h5py.ExternalLink("/etc/passwd", "/x"))),
        DamagedFileError,
        "is a soft or external link",
    ),
    (image().replace(b"layers\0", b"\xefayers\0"), DamagedFileError, "a name that is not UTF-8"),
    (image(lambda f: f.__setitem__("a/loop", f["/"])), LodError, "groups nested|names"),
    (
        image(lambda f: f.move("layers/lstm/cell", "layers/lstm/forward_layer/cell")),
        InvalidDataError,
        "has the directions forward",
    ),
    (archive(b"{"), DamagedFileError, "config.json: is not JSON"),
    (archive(b"[" * 10**5), DamagedFileError, "config.json: is not JSON"),
    (archive(b"7"), DamagedFileError, "config.json: is not a JSON object"),
    (archive({"config": 7}), DamagedFileError, "describes no model"),
    (archive({"config": {"layers": [7]}}), DamagedFileError, "a layer without class_name"),
    (archive({"config": {"layers": []}}), InvalidDataError, "has no LSTM, GRU or SimpleRNN"),
    (archive(layers(lstm(), lstm())), DamagedFileError, "has no layers/lstm_1 for it"),
    (archive(layers(lstm(activation="elu"))), UnsupportedError, "activation 'elu'; expected"),
    (archive(layers(lstm(activation={"a": 1}))), UnsupportedError, "activation {'a': 1}"),
    (archive(layers(lstm(go_backwards=True))), UnsupportedError, "is backward-only"),
    (archive(layers(both(merge_mode="sum"))), LodError, "merge_mode|has no layers/bidirectional"),
    (archive(layers(nested(40))), DamagedFileError, "more than 32 deep"),
    (archive(weights=b"nothing"), LodError, "model.weights.h5: .*HDF5"),
    (archive(weights=image()[:-200]), LodError, "model.weights.h5: "),
    (archive()[:-30], DamagedFileError, "the zip directory"),
]


@pytest.mark.parametrize(("data", "error", "message"), BROKEN)
def test_damaged_files_and_unknown_rnns_are_errors_that_name_the_file(
    tmp_path: Path, data: bytes, error: type[LodError], message: str
) -> None:
    path = tmp_path / "w"
    path.write_bytes(data)
    with pytest.raises(error, match=message) as caught:
        weights_from_state_dict(read_weights(path))
    assert str(caught.value).startswith(f"{path}: ")
    assert len(str(caught.value).splitlines()) == 1


def test_the_unbroken_ones_are_read(tmp_path: Path) -> None:
    for data in (image(), archive(), archive(layers(lstm()))):
        (tmp_path / "w").write_bytes(data)
        assert weights_from_state_dict(read_weights(tmp_path / "w")).hidden_size == 2


# -- how layers are connected ----------------------------------------------------------


def cells(*paths: str) -> bytes:
    """Return a .weights.h5 with LSTMs of 2 inputs and H 2 at these paths."""
    stream = bytes_io.BytesIO()
    with h5py.File(stream, "w") as file:
        for count, path in enumerate(paths):
            for number, shape in enumerate([(2, 8), (2, 8), (8,)]):
                file[f"{path}/cell/vars/{number}"] = np.full(shape, count, np.float32)
    return stream.getvalue()


def called(name: str, *sources: str, output: int = 0) -> dict[str, Any]:
    """Return an LSTM of a functional model that is called on the output of each source."""
    histories = [{"config": {"keras_history": [source, 0, output]}} for source in sources]
    return {**lstm(name=name), "inbound_nodes": [{"args": [one]} for one in histories]}


def model(name: str, *entries: Any) -> dict[str, Any]:
    return {"class_name": "Functional", "config": {"name": name, "layers": list(entries)}}


IN = {"class_name": "InputLayer", "config": {"name": "rows"}, "inbound_nodes": []}
FUNCTIONAL: dict[str, tuple[list[Any], dict[str, int]]] = {
    "chain": ([IN, called("a", "rows"), called("b", "a")], {"": 2}),
    "names": (
        [IN, called("a 1", "rows"), called("b", "a 1"), called("c", "rows")],
        {"a 1.": 2, "c.": 1},
    ),
    "parallel": ([IN, called("a", "rows"), called("b", "rows")], {"a.": 1, "b.": 1}),
    "states": ([IN, called("a", "rows"), called("b", "a", output=1)], {"a.": 1, "b.": 1}),
    "fork": ([IN, called("a", "rows"), called("b", "a"), called("c", "a")], {"a.": 2, "c.": 1}),
    "twice": ([IN, called("a", "rows", "a"), called("b", "a")], {"a.": 1, "b.": 1}),
    "interleaved": (
        [IN, called("a", "rows"), called("b", "rows"), called("c", "a"), called("d", "b")],
        {"a.": 2, "b.": 2},
    ),
}


@pytest.mark.parametrize(("entries", "layers_of"), FUNCTIONAL.values(), ids=FUNCTIONAL)
def test_layers_of_a_functional_model_are_stacked_as_they_are_connected(
    tmp_path: Path, entries: list[Any], layers_of: dict[str, int]
) -> None:
    paths = ["layers/lstm", *(f"layers/lstm_{n}" for n in range(1, len(entries) - 1))]
    (tmp_path / "w").write_bytes(archive(layers(*entries), cells(*paths)))
    found = read_weights(tmp_path / "w")
    assert {
        prefix: len(weights_from_state_dict(found, prefix=prefix).layers)
        for prefix in rnn_prefixes(found)
    } == layers_of


def whole(config: Any, *names: str, shapes: Any = ((2, 8), (2, 8), (8,))) -> bytes:
    """Return a whole model in HDF5 with LSTMs of 2 inputs and H 2 of these names."""
    stream = bytes_io.BytesIO()
    with h5py.File(stream, "w") as file:
        for name in names:
            for variable, shape in zip(("kernel", "recurrent_kernel", "bias"), shapes, strict=True):
                path = f"model_weights/{name}/{name}/lstm_cell/{variable}:0"
                file[path] = np.ones(shape, np.float32)
        file.attrs["model_config"] = json.dumps(config)
    return stream.getvalue()


@pytest.mark.parametrize(("entries", "layers_of"), FUNCTIONAL.values(), ids=FUNCTIONAL)
@pytest.mark.parametrize("old", [False, True])
def test_layers_of_a_whole_model_in_hdf5_are_stacked_as_they_are_connected(
    tmp_path: Path, entries: list[Any], layers_of: dict[str, int], old: bool
) -> None:
    names = [entry["config"]["name"] for entry in entries[1:]]
    if old:  # Keras 2: [NAME, NODE, OUTPUT, {..}] for each tensor of each call
        entries = [
            {**entry, "inbound_nodes": [
                [[*call["args"][0]["config"]["keras_history"], {}]]
                for call in entry["inbound_nodes"]
            ]}
            for entry in entries
        ]  # fmt: skip
    (tmp_path / "w").write_bytes(whole(layers(*entries), *names))
    found = read_weights(tmp_path / "w")
    assert {
        prefix: len(weights_from_state_dict(found, prefix=prefix).layers)
        for prefix in rnn_prefixes(found)
    } == layers_of


def history(name: str, output: int = 0) -> dict[str, Any]:
    return {"class_name": "__keras_tensor__", "config": {"keras_history": [name, 0, output]}}


def test_the_layer_that_initial_states_come_from_is_named(tmp_path: Path) -> None:
    states = [history("a", 1), history("a", 2)]
    given = {"args": [history("rows")], "kwargs": {"initial_state": states, "mask": history("x")}}
    decoder = {**lstm(name="b"), "inbound_nodes": [given]}
    masked = {**given, "kwargs": {"initial_state": None, "mask": history("x")}}
    from_input = {**given, "kwargs": {"initial_state": [history("rows", 0)] * 2}}
    for node, names in ((given, {"b.": "a"}), (masked, {}), (from_input, {})):
        decoder["inbound_nodes"] = [node]
        config = layers(IN, called("a", "rows"), decoder)
        for data in (
            archive(config, cells("layers/lstm", "layers/lstm_1")),
            whole(config, "a", "b"),
        ):
            (tmp_path / "w").write_bytes(data)
            assert read_weights(tmp_path / "w").starts_from == names
    decoder["inbound_nodes"] = [[["rows", 0, 0, {}], ["a", 0, 1, {}], ["a", 0, 2, {}]]]
    (tmp_path / "w").write_bytes(whole(config, "a", "b"))  # Keras 2
    assert read_weights(tmp_path / "w").starts_from == {"b.": "a"}


def test_an_unsupported_layer_does_not_prevent_reading_the_others(tmp_path: Path) -> None:
    config = layers(lstm(name="a", activation="gelu"), lstm(name="b"))
    for data in (archive(config, cells("layers/lstm", "layers/lstm_1")), whole(config, "a", "b")):
        (tmp_path / "w").write_bytes(data)
        found = read_weights(tmp_path / "w")
        assert rnn_prefixes(found) == ["a.", "b."]
        assert weights_from_state_dict(found, prefix="b").hidden_size == 2
        with pytest.raises(UnsupportedError, match=r": a: .*activation 'gelu'; expected one of"):
            weights_from_state_dict(found, prefix="a")
        with pytest.raises(InvalidDataError, match="2 RNNs, under 'a', 'b'"):
            weights_from_state_dict(found)


def test_layers_of_convolutions_are_no_rnns(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w", "w") as file:
        for name, ranks in (("lstm", (2, 2, 1)), ("conv_lstm1d", (3, 3, 1))):
            for number, rank in enumerate(ranks):
                shape = (2,) * (rank - 1) + (8,)
                file[f"layers/{name}/cell/vars/{number}"] = np.ones(shape, np.float32)
    assert rnn_prefixes(read_weights(tmp_path / "w")) == [""]


def test_several_cells_in_a_layer_are_no_rnn(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w", "w") as file:
        for number in range(2):
            for variable, shape in (("kernel", (2, 8)), ("recurrent_kernel", (2, 8))):
                path = f"model_weights/rnn/rnn/stacked_rnn_cells/lstm_cell_{number}/{variable}"
                file[path] = np.ones(shape, np.float32)
    with pytest.raises(InvalidDataError, match="holds no weights of an RNN"):
        read_weights(tmp_path / "w")


@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize(("kind", "inside"), [("RNN", "cell"), ("TimeDistributed", "layer")])
def test_a_cell_or_layer_in_another_has_the_options_described(
    tmp_path: Path, kind: str, inside: str, activation: str
) -> None:
    inner = lstm(name="inner", activation=activation)
    if kind == "RNN":
        inner["class_name"] = "LSTMCell"
    config = layers({"class_name": kind, "config": {"name": "outer", inside: inner}})
    path = "layers/rnn" if kind == "RNN" else "layers/time_distributed/layer"
    name = "outer" if kind == "RNN" else "inner"
    for data in (archive(config, cells(path)), whole(config, name)):
        (tmp_path / "w").write_bytes(data)
        if activation == "gelu":
            with pytest.raises(UnsupportedError, match="activation 'gelu'"):
                read_weights(tmp_path / "w")
        else:
            assert read_weights(tmp_path / "w").said[""]["cell_activation"] == "relu"


def test_a_layer_that_the_model_does_not_describe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w").write_bytes(whole(layers({"class_name": "Mine", "config": {}}), "mine"))
    with pytest.raises(UnsupportedError, match="model_config describes no LSTM, GRU or SimpleRNN"):
        read_weights(tmp_path / "w")
    (tmp_path / "w").write_bytes(whole({"class_name": "Mine", "config": {}}, "mine"))
    assert "nonlinearity" in read_weights(tmp_path / "w").untold
    (tmp_path / "w").write_bytes(archive({"class_name": "Mine", "config": {"name": "mine"}}))
    with pytest.raises(UnsupportedError, match=r"describes no layers, .*; read .*save_weights"):
        read_weights(tmp_path / "w")


def test_layers_of_one_name_in_two_models_are_all_read(tmp_path: Path) -> None:
    paths = [f"layers/functional{n}/layers/lstm" for n in ("", "_1")]
    models = [model(name, called("lstm", "rows")) for name in ("enc", "dec")]
    for data, prefixes in (
        (archive(layers(*models), cells(*paths)), ["enc.lstm.", "dec.lstm."]),
        (cells(*paths), ["lstm.", "lstm_1."]),
    ):
        (tmp_path / "w").write_bytes(data)
        found = read_weights(tmp_path / "w")
        assert [found[f"{prefix}bias_ih_l0"][0] for prefix in prefixes] == [0, 1]
        assert len(rnn_prefixes(found)) == 2


def test_directions_of_other_activations_are_refused(tmp_path: Path) -> None:
    paths = [f"layers/bidirectional/{way}_layer" for way in ("forward", "backward")]
    for activation, refused in (("tanh", False), ("relu", True)):
        backward = lstm(go_backwards=True, activation=activation)
        config = layers(both(backward_layer=backward))
        (tmp_path / "w").write_bytes(archive(config, cells(*paths)))
        if refused:
            with pytest.raises(UnsupportedError, match="activations forward and backward"):
                read_weights(tmp_path / "w")
        else:
            assert weights_from_state_dict(read_weights(tmp_path / "w")).directions == 2


OLD: dict[str, Any] = {"recurrent_activation": "hard_sigmoid"}


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (lstm(go_backwards=True), "model_config: lstm: is backward-only"),
        (lstm(**OLD), "activation 'hard_sigmoid'"),
        ({"class_name": "Bidirectional", "config": {"layer": lstm(), "name": "lstm",
          "merge_mode": "sum"}}, "merge_mode 'sum'"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("listed", [False, True])
def test_the_description_in_a_whole_model_of_hdf5_counts(
    tmp_path: Path, entry: dict[str, Any], message: str, listed: bool
) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for name, shape in (("kernel", (3, 8)), ("recurrent_kernel", (2, 8)), ("bias", (8,))):
            file[f"model_weights/lstm/lstm/{name}:0"] = np.ones(shape, np.float32)
        config: Any = [entry] if listed else {"layers": [entry]}
        file.attrs["model_config"] = json.dumps({"class_name": "Sequential", "config": config})
    with pytest.raises(UnsupportedError, match=message):
        read_weights(tmp_path / "w.h5")
    with h5py.File(tmp_path / "w.h5", "a") as file:
        file.attrs["model_config"] = "{"
    with pytest.raises(DamagedFileError, match="model_config: is not JSON"):
        read_weights(tmp_path / "w.h5")


def test_a_dense_layer_beside_an_lstm_is_left_out(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for name, shape in (("kernel", (3, 8)), ("recurrent_kernel", (2, 8)), ("bias", (8,))):
            file[f"model_weights/lstm/lstm/{name}:0"] = np.ones(shape, np.float32)
        for name, shape in (("kernel", (2, 5)), ("bias", (5,))):
            file[f"model_weights/dense/dense/{name}:0"] = np.ones(shape, np.float32)
    assert not any("dense" in name for name in read_weights(tmp_path / "w.h5"))


def test_a_zip_of_something_else_is_reported(tmp_path: Path) -> None:
    np.savez(tmp_path / "w.npz", weight_ih_l0=np.ones((8, 3)))
    with pytest.raises(NotThisFormatError, match=r"is not a weights file: .* safetensors\.numpy"):
        read_weights(tmp_path / "w.npz")
