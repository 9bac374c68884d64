"""`lod run-rnn --emit class` and `scores`: against torch, `lod train`, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import opened
from tests.lodcli.conftest import Lod, read_jsonl, tensor, write_jsonl

# float32, a dozen steps, against another library.
TOLERANCE = 1e-5
WORDS = ["no", "yes", "maybe"]


@pytest.fixture
def rows(folder: Path) -> LoDTensor:
    """Return 40 sequences that are written with a label for each."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(1, 12, 40)
    found = LoDTensor(rng.normal(size=(int(lengths.sum()), 3)).astype("f4"), [lengths])
    labels = LoDTensor(rng.integers(0, 3, 40)).as_categories(WORDS)
    io.write(folder / "rows.lod.h5", {"data": found, "label": labels})
    return found


@pytest.mark.parametrize("pool", ["last", "mean"])
def test_scores_and_classes_are_those_of_a_torch_module(
    lod: Lod, folder: Path, rows: LoDTensor, pool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    args = ("--hidden", "5", "--bidirectional", "--epochs", "20", "--pool", pool)
    done = lod("train", "rows.lod.h5", "-o", "m", *args, "--json")
    trained = json.loads(done.stdout)
    monkeypatch.setattr(base, "BATCH_BYTES", 1 << 10)
    monkeypatch.setattr(opened, "BATCH_BYTES", 1 << 10)
    for kind in ("scores", "class"):
        assert lod(
            "run-rnn", "rows.lod.h5", "--weights", "m", "--emit", kind, "-o", f"{kind}.lods"
        ).clean
    module = torch.nn.Module()
    module.rnn = torch.nn.LSTM(3, 5, bidirectional=True)
    module.out = torch.nn.Linear(10, 3)
    module.load_state_dict(load_file("m"))
    pooled = torch.zeros(40, 10)
    for number, part in enumerate(rows):
        outputs, (hidden, _) = module.rnn(torch.from_numpy(part.data))
        pooled[number] = hidden.reshape(-1) if pool == "last" else outputs.mean(0)
    wanted = module.out(pooled).detach()
    found = tensor("scores.lods")
    np.testing.assert_allclose(found.data, wanted, rtol=0, atol=TOLERANCE)
    classes = io.read("class.lods", "predicted")
    assert (classes.categories, found.lod.n_levels, classes.lod.n_levels) == (tuple(WORDS), 0, 0)
    assert classes.data.tolist() == wanted.argmax(1).tolist()
    probability = io.read("class.lods", "probability").data
    best = wanted.softmax(1).max(1).values
    np.testing.assert_allclose(probability, best, rtol=0, atol=TOLERANCE)
    right = classes.data == io.read("rows.lod.h5", "label").data
    assert right.mean() == trained["training_accuracy"] > 0.5


def test_classes_of_text_can_be_joined_with_it(lod: Lod, folder: Path) -> None:
    texts = [{"text": text, "label": text[0] == "a"} for text in ("ab", "ba", "aab", "bb")]
    write_jsonl("texts.jsonl", texts)
    args = ("--embedding", "4", "--epochs", "60", "--cell", "gru", "--pool", "mean", "-q")
    assert lod("train", "texts.jsonl::text", "-o", "m", *args).code == 0
    assert lod(
        "run-rnn", "texts.jsonl::text", "--weights", "m", "--emit", "class", "-o", "class.lod.h5"
    ).clean
    assert lod("merge", "texts.jsonl", "class.lod.h5", "-q", "-o", "merged.jsonl").code == 0
    found = read_jsonl("merged.jsonl")
    assert [one["text"] for one in found] == ["ab", "ba", "aab", "bb"]
    assert [bool(one["predicted"]) for one in found] == [one["label"] for one in found]


def test_an_outer_level_has_a_class_for_each_of_its_sequences(
    lod: Lod, folder: Path, rows: LoDTensor
) -> None:
    nested = LoDTensor(rows.data, [[15, 1, 24], rows.recursive_sequence_lengths()[0]])
    io.write("nested.lod.h5", {"data": nested, "label": LoDTensor(np.array([1, 0, 1]))})
    at = ("--level", "0")
    assert lod("train", "nested.lod.h5", "-o", "m", *at, "--epochs", "2", "-q").code == 0
    run = ("run-rnn", "nested.lod.h5", "--weights", "m", "--emit", "class")
    assert lod(*run, *at, "-o", "outer.lod.h5").code == 0
    assert lod(*run, "-o", "inner.lod.h5").code == 0
    assert io.read("outer.lod.h5", "predicted").lod.n_levels == 0
    assert len(io.read("outer.lod.h5", "predicted").data) == 3
    assert io.read("inner.lod.h5", "predicted").recursive_sequence_lengths() == [[15, 1, 24]]


def test_invalid_uses_of_a_classifier_are_errors(
    lod: Lod, folder: Path, rows: LoDTensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lod("train", "rows.lod.h5", "-o", "m", "--epochs", "1", "-q").code == 0
    for option in (("--seed", "1"), ("--grad", "--weights", "m"), ("--step", "a:b")):
        done = lod("run-rnn", "rows.lod.h5", "-o", "o.npz", "--emit", "class", *option)
        assert done.code == 2
        assert f"is for --weights MODEL of lod train, without {option[0]}" in done.stderr
    arrays = safetensors.numpy.load_file("m")
    del arrays["out.bias"]
    safetensors.numpy.save_file(arrays, "bare")
    done = lod("run-rnn", "rows.lod.h5", "-o", "o.npz", "--emit", "scores", "--weights", "bare")
    assert done.code == 2
    assert "bare: --emit scores needs out.weight and out.bias beside the RNN" in done.stderr
    layers = {
        "fc.weight": arrays.pop("out.weight"),
        "fc.bias": np.zeros(2, "f"),
        **arrays,
    }
    safetensors.numpy.save_file(layers, "other")
    done = lod("run-rnn", "rows.lod.h5", "-o", "o.npz", "--emit", "scores", "--weights", "other")
    assert done.code == 2
    remedy = "rename FILE fc.weight=out.weight fc.bias=out.bias -o NEW.safetensors"
    assert f"; if fc is that layer, lod {remedy}" in done.stderr
    monkeypatch.setattr(base, "BATCH_BYTES", 1 << 10)
    monkeypatch.setattr(opened, "BATCH_BYTES", 1 << 10)
    data, lengths = rows.data.copy(), rows.recursive_sequence_lengths()[0]
    data[-1, 1] = np.nan
    io.write("nan.lod.h5", LoDTensor(data, [lengths]))
    io.write("empty.lod.h5", LoDTensor(rows.data, [[*lengths, 0]]))
    for name, said in (
        ("nan.lod.h5", "sequence 39: its scores are not finite"),
        ("empty.lod.h5", "sequence 40 has no rows to predict from"),
    ):
        done = lod("run-rnn", name, "-o", "o.npz", "--emit", "class", "--weights", "m")
        assert (done.code, f"{name}: {said}" in done.stderr) == (1, True), done.stderr
        assert not Path("o.npz").exists()


@pytest.mark.parametrize(
    ("changed", "kind", "said"),
    [
        ({"out.weight": np.full((3, 4), np.nan, "f4")}, "scores", "out.weight: expected finite"),
        ({"out.weight": np.ones((3, 4), "c8")}, "class", "out.weight: expected finite"),
        ({"rnn.bias_ih_l0": np.full(16, np.inf, "f4")}, "class", "rnn.bias_ih_l0: expected finite"),
        (
            {"out.weight": np.ones((1, 4), "f4")},
            "class",
            "out.weight: expected at least 2 classes, found 1; train with labels of several",
        ),
        ({"out.weight": np.ones((0, 4), "f4")}, "class", "out.weight: expected at least 2 classes"),
        ({"classes": ["a", "b", "b"]}, "class", "categories: word 2 is the same as word 1: 'b'"),
        ({"classes": ["a", "b"]}, "scores", "has 3 classes, and names of 2"),
    ],
)
def test_damaged_classifiers_are_refused_by_their_name(
    changed: dict[str, Any], kind: str, said: str, lod: Lod, rows: LoDTensor
) -> None:
    args = ("--hidden", "4", "--epochs", "1", "-q")
    assert lod("train", "rows.lod.h5", "-o", "m", *args).code == 0
    with safetensors.safe_open("m", "np") as file:
        metadata = file.metadata()
    about = json.loads(metadata["lod.classifier"])
    about["classes"] = changed.pop("classes", [] if changed else about["classes"])
    metadata["lod.classifier"] = json.dumps(about)
    arrays = safetensors.numpy.load_file("m") | changed
    arrays["out.bias"] = arrays["out.bias"][: len(arrays["out.weight"])]
    safetensors.numpy.save_file(arrays, "damaged", metadata)
    done = lod("run-rnn", "rows.lod.h5", "-o", "o.npz", "--emit", kind, "--weights", "damaged")
    assert (done.code, f"damaged: {said}" in done.stderr) == (1, True), done.stderr


def test_arrays_that_are_not_part_of_the_classifier_are_noted(lod: Lod, rows: LoDTensor) -> None:
    assert lod("train", "rows.lod.h5", "-o", "m", "--epochs", "1", "-q").code == 0
    arrays = safetensors.numpy.load_file("m") | {"norm.weight": np.ones(64, "f4")}
    safetensors.numpy.save_file(arrays, "more")
    done = lod("run-rnn", "rows.lod.h5", "-o", "o.npz", "--emit", "class", "--weights", "more")
    assert done.code == 0
    assert "more: not part of the classifier, and left out: norm.weight" in done.stderr
