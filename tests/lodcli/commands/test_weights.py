"""`lod weights`, and `lod run-rnn --weights` with every kind of file."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from lodcli.formats.weights import read_weights, write_weights
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import StateDict, state_dict, weights_from_state_dict
from lodcli.shell import output
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod, articles, tensor

ROOT = Path(__file__).parents[3]


def lstm() -> RNNWeights:
    return seeded_weights("lstm", 2, 3, layers=2, bidirectional=True, rng=np.random.default_rng(4))


def gru() -> RNNWeights:
    return seeded_weights("gru", 2, 3, rng=np.random.default_rng(4))


def test_the_content_of_a_file_is_shown(lod: Lod, folder: Path) -> None:
    write_weights("w.safetensors", lstm())
    done = lod("weights", "w.safetensors")
    assert (done.code, done.complaints) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "lstm, 2 layers, 2 directions, input 2, hidden 3, output 6"
    assert lines[2].split() == ["weight_ih_l0", "12", "x", "2", "float32"]
    assert len(lines) == 2 + 16


def test_a_file_may_be_larger_than_memory(lod: Lod, folder: Path) -> None:
    other = 1 << 42
    named = {f"rnn.{name}": array for name, array in state_dict(gru()).items()}
    save_file({name: np.array(array) for name, array in named.items()}, "w.safetensors")
    raw = Path("w.safetensors").read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8:start])
    end = len(raw) - start
    header["table"] = {"dtype": "BF16", "shape": [other // 2], "data_offsets": [end, end + other]}
    text = json.dumps(header).encode()
    with Path("w.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + raw[start:])
        file.truncate(8 + len(text) + end + other)  # the table takes no place on disk
    said = "lod weights: w.safetensors: not part of an RNN, and left out: table\n"
    shown = lod("weights", "w.safetensors")
    assert shown.stdout.startswith("gru, 1 layer, 1 direction, input 2")
    done = lod("weights", "w.safetensors", "-o", "one.safetensors")
    assert (done.code, done.stderr, shown.stderr) == (0, said, said)
    for name, array in read_weights("one.safetensors").items():
        np.testing.assert_array_equal(array, named[f"rnn.{name}"])


def test_the_embedding_beside_an_rnn_is_shown(lod: Lod, folder: Path) -> None:
    arrays = {f"net.rnn.{name}": np.array(array) for name, array in state_dict(gru()).items()}
    table = {"net.embedding.weight": np.ones((5, 2), np.float32)}
    save_file({**arrays, **table, "net.out.bias": np.ones(3, np.float32)}, "w.safetensors")
    shown = lod("weights", "w.safetensors")
    assert shown.stdout.endswith(
        "\n\nembedding\narray                 shape  dtype\nnet.embedding.weight  5 x 2  float32\n"
    )
    assert shown.stderr.endswith("not part of an RNN, and left out: net.out.bias\n")
    found = json.loads(lod("weights", "w.safetensors", "--json").stdout)["embedding"]
    assert found == {"name": "net.embedding.weight", "dtype": "float32", "shape": [5, 2]}
    done = lod("weights", "w.safetensors", "-o", "one.safetensors")
    assert done.stderr.endswith("left out: net.embedding.weight, net.out.bias\n")


def test_json_says_the_same(lod: Lod, folder: Path) -> None:
    gru = seeded_weights("gru_paddle", 2, 3, rng=np.random.default_rng(4))
    write_weights("w.safetensors", gru.with_options(origin_mode=True))
    (found,) = json.loads(lod("weights", "w.safetensors", "--json").stdout)["rnns"]
    arrays = found.pop("arrays")
    assert found == {
        "prefix": "", "cell": "gru_paddle", "options": {"origin_mode": True}, "layers": 1,
        "directions": 1, "input_size": 2, "hidden_size": 3, "output_size": 3,
    }  # fmt: skip
    assert arrays[0] == {"name": "weight_ih_l0", "dtype": "float32", "shape": [9, 2]}


def test_weights_go_to_a_pipe_but_not_to_a_terminal(
    lod: Lod, shell: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_weights("w.safetensors", lstm())
    args = ["weights", "w.safetensors", "-o", "-", "--to", "safetensors"]
    done = shell(f"lod {' '.join(args)} --json | cmp - w.safetensors")
    assert (done.code, done.stdout) == (0, "")
    assert json.loads(done.stderr)["file"] == "-"
    monkeypatch.setattr(output, "is_terminal_output", lambda path: path == "-")
    done = lod(*args)
    assert (done.code, done.stdout) == (2, "")
    assert "cannot be printed to a terminal" in done.stderr


@pytest.mark.parametrize("name", ["w.keras", "w.weights.h5", "w.lodt", "w.onnx", "w.pt"])
def test_run_rnn_takes_every_kind(lod: Lod, folder: Path, name: str) -> None:
    package = {"w.onnx": "onnx", "w.pt": "torch"}.get(name, "numpy")
    pytest.importorskip(package)
    write_weights("w.safetensors", lstm())
    assert lod("weights", "w.safetensors", "-o", name).code == 0
    done = lod("run-rnn", "words.lod.h5", "--weights", name, "-o", "out.npz")
    assert (done.code, done.complaints) == (0, "")
    expected = run_rnn(articles(), lstm()).all
    # float32: the two biases of some kinds are one
    np.testing.assert_allclose(tensor("out.npz").data, expected.data, rtol=0, atol=1e-6)


def test_arrays_of_a_model_are_renamed(lod: Lod, folder: Path) -> None:
    import safetensors.numpy

    write_weights("w.safetensors", lstm())
    found = safetensors.numpy.load_file("w.safetensors")
    arrays = {f"rnn.{name}": array for name, array in found.items()}
    safetensors.numpy.save_file({**arrays, "emb.weight": np.ones((9, 2), "f")}, "m.safetensors")
    done = lod("rename", "m.safetensors", "emb.weight=embedding.weight", "-o", "n.safetensors")
    assert (done.code, done.complaints) == (0, "")
    assert set(safetensors.numpy.load_file("n.safetensors")) == {*arrays, "embedding.weight"}
    assert "embedding.weight" in lod("weights", "n.safetensors").stdout


def test_several_rnns_are_chosen_by_prefix(lod: Lod, folder: Path) -> None:
    import safetensors.numpy

    both = {f"{name}.{key}": a for name in ("a.rnn", "b") for key, a in state_dict(lstm()).items()}
    safetensors.numpy.save_file(both, "two.safetensors")
    done = lod("weights", "two.safetensors")
    assert done.code == 0
    assert "a.rnn: lstm, 2 layers" in done.stdout
    assert "\n\nb: lstm" in done.stdout
    done = lod("weights", "two.safetensors", "-o", "one.keras")
    assert done.code == 2
    assert "holds 2 RNNs, 'a.rnn', 'b'; pick one with --prefix" in done.stderr
    assert lod("weights", "two.safetensors", "-o", "one.keras", "--prefix", "b").code == 0
    assert weights_from_state_dict(read_weights("one.keras")).directions == 2
    assert lod("weights", "two.safetensors", "--prefix", "c").code == 1


@pytest.mark.parametrize(
    ("name", "cell", "option", "value"),
    [
        ("w.lodt", "gru_paddle", "origin_mode", True),
        ("w.lodt", "gru_paddle", "candidate_activation", "relu"),
        ("w.weights.h5", "elman", "nonlinearity", "relu"),
    ],
)
def test_options_that_a_kind_of_file_cannot_store_can_be_set(
    lod: Lod, folder: Path, name: str, cell: str, option: str, value: str | bool
) -> None:
    write_weights(name, seeded_weights(cell, 2, 3, rng=np.random.default_rng(4)))
    assert lod(
        "weights", name, "--set", f"{option}={str(value).lower()}", "-o", "o.safetensors"
    ).clean
    found = read_weights("o.safetensors")
    assert isinstance(found, StateDict)
    assert found.said[""][option] == value


def test_options_that_a_file_does_not_store_can_be_set(lod: Lod, folder: Path) -> None:
    import safetensors.numpy

    gru = seeded_weights("gru_paddle", 2, 3, rng=np.random.default_rng(4))
    safetensors.numpy.save_file(dict(state_dict(gru)), "w.safetensors")
    args = ["--cell", "gru_paddle", "--set", "origin_mode=true", "-o", "said.safetensors"]
    assert lod("weights", "w.safetensors", *args).code == 0
    found = read_weights("said.safetensors")
    assert isinstance(found, StateDict)
    assert found.said == {"": {"cell": "gru_paddle", "origin_mode": True}}
    assert lod("weights", "w.safetensors", "--set", "x=1").code == 4
    for setting in ("x", "x=", "=1"):
        done = lod("weights", "w.safetensors", "--set", setting)
        assert (done.code, f"--set {setting}: expected OPTION=VALUE" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["no.safetensors"], 3, "no.safetensors: no such file"),
        (["words.lod.h5"], 1, "words.lod.h5: holds no weights of an RNN: it is a lod.h5 file of t"),
        (["w.safetensors", "--to", "keras"], 2, "are for -o OUT"),
        (["w.safetensors", "-o", "w.bin"], 2, "w.bin: unknown file extension for weights"),
        (["w.safetensors", "-o", "w.safetensors"], 3, "exists already"),
        (["w.safetensors", "--cell", "gru"], 2, "it names the cell lstm, not gru"),
        (["w.safetensors", "-o", "no/w.keras"], 3, "no/w.keras: cannot be written"),
    ],
)
def test_errors_are_reported_with_their_exit_codes(
    lod: Lod, folder: Path, args: list[str], code: int, said: str
) -> None:
    write_weights("w.safetensors", lstm())
    done = lod("weights", *args)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr


def test_without_onnx_the_remedy_is_reported(folder: Path) -> None:
    made = ROOT / "tests" / "formats" / "made" / "torch_lstm.onnx"
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "from lodcli.main import main\n"
        f"sys.argv = ['lod', 'weights', {str(made)!r}]\nsys.exit(main())"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS)
    assert done.returncode == 4
    assert "an ONNX model needs the package onnx; pip install 'lodcli[onnx]'" in done.stderr


def test_an_unsupported_rnn_is_noted_beside_others(lod: Lod, folder: Path) -> None:
    cell = {f"a.{name.removesuffix('_l0')}": array for name, array in state_dict(gru()).items()}
    arrays = {**cell, "a.norm.weight": np.ones(3), "b.weight_hh_l0": np.ones((12, 3))}
    arrays["b.weight_ih_l0"] = np.ones((12, 2))
    save_file(arrays, "w.safetensors")
    done = lod("weights", "w.safetensors")
    assert (done.code, done.stdout.splitlines()[0][:7]) == (0, "b: lstm")
    assert "w.safetensors: a: is left out: state dict: a.norm.weight is in the" in done.complaints
    done = lod("weights", "w.safetensors", "-o", "b.pt")
    assert (done.code, "holds 2 RNNs, 'a', 'b'" in done.complaints) == (2, True)
    done = lod("weights", "w.safetensors", "--prefix", "a")
    assert (done.code, "a.norm.weight is in the same" in done.complaints) == (1, True)


def test_two_rnns_become_the_layers_of_one(lod: Lod, folder: Path) -> None:
    layers = {f"l{n}.": RNNWeights((layer,)) for n, layer in enumerate(lstm().layers)}
    arrays = {p + name: a for p, rnn in layers.items() for name, a in state_dict(rnn).items()}
    save_file(arrays, "w.safetensors")
    assert lod("weights", "w.safetensors", "--prefix", "l0,l1", "-o", "both.safetensors").code == 0
    expected = state_dict(lstm())
    found = read_weights("both.safetensors")
    assert found.keys() == expected.keys()
    assert all((found[name] == expected[name]).all() for name in expected)
    done = lod("weights", "w.safetensors", "--prefix", "l1,l0")
    assert (done.code, "weight_ih_l1: expected shape" in done.complaints) == (1, True)


def test_initial_states_of_another_layer_are_noted(lod: Lod, folder: Path) -> None:
    write_weights("w.keras", gru())
    with zipfile.ZipFile("w.keras") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    config = json.loads(members["config.json"])
    states = [[["rows", 0, 0, {}], ["encoder", 0, 1, {}]]]
    config["config"]["layers"][1]["inbound_nodes"] = states
    members["config.json"] = json.dumps(config).encode()
    with zipfile.ZipFile("w.keras", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    noted = "w.keras: the model takes initial states from encoder, which is not part of it; "
    assert noted + "lod run-rnn starts" in lod("weights", "w.keras").complaints
    done = lod("run-rnn", "words.lod.h5", "--weights", "w.keras", "-o", "out.npz")
    assert (done.code, noted + "starting from zeros" in done.complaints) == (0, True)
    np.savez("h0.npz", data=np.zeros((articles().lod.count(-1), 3), np.float32))
    done = lod(
        "run-rnn", "words.lod.h5", "--weights", "w.keras", "--h0", "h0.npz", "-o", "out2.npz"
    )
    assert (done.code, done.complaints) == (0, "")
