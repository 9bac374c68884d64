"""Options that agree with the file of --weights are accepted; different ones are an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.weights import write_weights
from lodcli.formats.weights.model_file import write_model
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.nested.state_dict import LevelShape, nested_state_dict, seeded_nested
from lodcli.kernels.rnn.stack.stack import seeded_weights
from lodcli.kernels.rnn.training.classifier import seeded_classifier
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor

# Each option as the file has it, and otherwise, with what is said of that.
GRU = [
    (["--cell", "gru"], ["--cell", "lstm"], "it names the cell gru, not lstm"),
    (["--hidden", "4"], ["--hidden", "3"], "expected a hidden size of 3, found 4"),
    (["--layers", "2"], ["--layers", "1"], "expected a number of layers of 1, found 2"),
]
ELMAN = [
    (["--cell", "elman"], ["--cell", "gru"], "it names the cell elman, not gru"),
    (
        ["--nonlinearity", "relu"],
        ["--nonlinearity", "tanh"],
        "it stores nonlinearity=relu, not tanh",
    ),
    ([], ["--bidirectional"], "expected a number of directions of 2, found 1"),
]
LSTM = [
    (["--cell", "lstm"], ["--cell", "gru_paddle"], "it names the cell lstm"),
    (["--coupled"], ["--nonlinearity", "relu"], "no option 'nonlinearity'"),
    (["--hidden", "4", "--layers", "1"], ["--layers", "2"], "layers of 2, found 1"),
]


@pytest.fixture
def files(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    gru = seeded_weights("gru", 2, 4, layers=2, bidirectional=True, rng=rng)
    write_weights("gru.safetensors", gru)
    elman = seeded_weights("elman", 2, 4, rng=rng).with_options(nonlinearity="relu")
    write_weights("elman.safetensors", elman)
    lstm = seeded_weights("lstm", 2, 4, rng=rng).with_options(coupled=True)
    write_weights("lstm.safetensors", lstm)
    return folder


@pytest.mark.parametrize(
    ("name", "same", "other", "said"),
    [
        *(("gru", *case) for case in [*GRU, (["--bidirectional"], ["--hidden", "8"], "found 4")]),
        *(("elman", *case) for case in ELMAN),
        *(("lstm", *case) for case in LSTM),
    ],
)
def test_run_rnn_refuses_only_what_differs(
    lod: Lod, files: Path, name: str, same: list[str], other: list[str], said: str
) -> None:
    args = ["run-rnn", "words.lod.h5", "--weights", f"{name}.safetensors", "-o", "out.npz"]
    assert lod(*args).code == 0
    plain = tensor("out.npz")
    done = lod(*args, *same, "--force")
    assert (done.code, done.complaints) == (0, "")
    again = tensor("out.npz")
    assert again.identical(plain)
    done = lod(*args[:-1], "other.npz", *other)
    assert done.code == (4 if "no option" in said else 2)
    assert done.stderr.startswith(f"lod run-rnn: {name}.safetensors: ")
    assert said in done.stderr
    assert not Path("other.npz").exists()


def test_a_nonlinearity_that_the_file_does_not_store_can_be_set(lod: Lod, files: Path) -> None:
    pytest.importorskip("torch")  # a state dict of torch says no nonlinearity
    assert lod("weights", "elman.safetensors", "-o", "elman.pt").code == 0
    for nonlinearity in ("relu", "tanh"):
        args = ["--weights", "elman.pt", "--nonlinearity", nonlinearity, "-f", "-o", "out.npz"]
        assert lod("run-rnn", "words.lod.h5", *args).code == 0


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("article/sentence", ""),
        ("article:gru:5/sentence:elman:3:layers=2", ""),
        ("article:gru:4/sentence", "expected a hidden size of 4, found 5"),
        ("article/sentence:layers=1", "expected a number of layers of 1, found 2"),
        ("article:bidirectional/sentence", "directions of 2, found 1"),
        ("article/sentence:gru", "expected rows for a hidden size of 3: 9 (gru); found 3"),
    ],
)
def test_a_nested_spec_may_agree_with_its_weights(
    lod: Lod, files: Path, spec: str, said: str
) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    shapes = [LevelShape(0, "article", "gru", 5), LevelShape(1, "sentence", "elman", 3, layers=2)]
    nested = seeded_nested(shapes, 2, rng=np.random.default_rng(1))
    safetensors.save_file(
        nested_state_dict(nested.levels, ("article", "sentence")), "nested.safetensors"
    )
    args = ["run-rnn", "words.lod.h5", "--weights", "nested.safetensors", "-o", "out.npz"]
    done = lod(*args, "--nested", spec)
    assert done.code == (0 if not said else 1 if "rows" in said else 2)
    assert said in done.stderr


@pytest.mark.parametrize(
    ("same", "other", "said"),
    [*GRU, (["--pool", "mean"], ["--pool", "last"], "was trained with --pool mean, not last")],
)
def test_train_refuses_only_what_differs(
    lod: Lod, folder: Path, same: list[str], other: list[str], said: str
) -> None:
    model = seeded_classifier("gru", 2, 4, 3, layers=2, pool="mean", rng=np.random.default_rng(0))
    write_model("m.safetensors", model.arrays(), {"pool": "mean"}, overwrite=False)
    rows = LoDTensor(np.ones((4, 2), np.float32), LoD.from_lengths([[2, 1, 1]]))
    io.write("x.npz", {"data": rows, "label": LoDTensor(np.array([0, 1, 2]))})
    args = ["train", "x.npz", "--weights", "m.safetensors", "--epochs", "0"]
    done = lod(*args, *same)
    assert (done.code, done.complaints) == (0, "")
    done = lod(*args, *other)
    assert done.code == 2
    assert said in done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [("nonlinearity=relu", ""), ("nonlinearity=tanh", "it stores nonlinearity=relu, not tanh")],
)
def test_weights_refuses_only_settings_that_differ(
    lod: Lod, files: Path, setting: str, said: str
) -> None:
    done = lod("weights", "elman.safetensors", "--set", setting)
    assert done.code == (2 if said else 0)
    assert said in done.stderr
