"""`lod train --validation`: the epoch with the lowest loss there is kept; --patience stops."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from lodcli.formats.core import io
from lodcli.kernels.rnn.training.classifier import classifier_from_arrays, seeded_classifier
from lodcli.kernels.rnn.training.train import Labelled, Recipe, evaluate, train
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensors

# A rate at which the loss on other sequences soon rises.
ARGS = ("--hidden", "6", "--batch", "8", "--lr", "0.1", "--cell", "gru")
EPOCHS = 12


def noisy(seed: int) -> Labelled:
    """Return sequences whose class is the sign of the first value, wrong for some."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, 24)
    data = rng.normal(size=(int(lengths.sum()), 2)).astype(np.float32)
    labels = (data[np.cumsum(lengths) - lengths, 0] > 0) ^ (rng.random(24) < 0.1)
    return Labelled(LoDTensor(data, [lengths]), labels.astype(np.int64))


@pytest.fixture
def files(folder: Path) -> Path:
    for name, seed in (("training", 0), ("valid", 1), ("other", 2)):
        made = noisy(seed)
        items = {"data": made.sequences, "label": LoDTensor(made.labels)}
        io.write(folder / f"{name}.lod.h5", items)
    return folder


def losses() -> list[float]:
    """Return the loss on the validation set after each epoch, computed from Python."""
    start = seeded_classifier("gru", 2, 6, 2, rng=np.random.default_rng(0))
    epochs = train(start, noisy(0), Recipe(epochs=EPOCHS, batch=8, rate=0.1))
    return [evaluate(epoch.model, noisy(1)).loss for epoch in epochs]


def test_the_epoch_of_the_lowest_validation_loss_is_kept(lod: Lod, files: Path) -> None:
    args = ("--epochs", str(EPOCHS), "--json", *ARGS)
    sets = ("--validation", "valid.lod.h5", "--test", "other.lod.h5")
    report = json.loads(lod("train", "training.lod.h5", "-o", "m", *sets, *args).stdout)
    expected = losses()
    best = int(np.argmin(expected))
    assert 0 < best < EPOCHS - 1
    assert (report["best_epoch"], report["stopped_after"]) == (best + 1, None)
    assert report["validation_loss"] == pytest.approx(expected[best], rel=1e-6)
    assert report["validation_sequences"] == report["test_sequences"] == 24
    kept = classifier_from_arrays(safetensors.numpy.load_file("m"))
    for name, seed in (("training", 0), ("validation", 1), ("test", 2)):
        assert report[f"{name}_accuracy"] == evaluate(kept, noisy(seed)).accuracy
    # Without it, the training loss chooses, and the last epochs are best.
    report = json.loads(lod("train", "training.lod.h5", "-o", "n", *args).stdout)
    assert report["best_epoch"] > best + 1
    assert report["validation_loss"] is report["validation_accuracy"] is None


def test_other_sets_have_the_tensor_of_source(lod: Lod, files: Path) -> None:
    for name in ("training", "valid", "other"):
        items = tensors(files / f"{name}.lod.h5")
        rows = items.pop("data")
        io.write(files / f"{name}.npz", {"rows": rows, "squares": rows * rows, **items})
    sets = ("--validation", "valid.npz", "--test", "other.npz")
    args = ("--epochs", "2", "--json", *ARGS)
    done = lod("train", "training.npz::rows", "-o", "m", *sets, *args)
    assert done.code == 0, done.stderr
    named = ("--validation", "valid.lod.h5", "--test", "other.lod.h5")
    other = lod("train", "training.lod.h5", "-o", "n", *named, *args)
    found, expected = json.loads(done.stdout), json.loads(other.stdout)
    for key in ("validation_loss", "validation_accuracy", "test_accuracy"):
        assert found[key] == expected[key]
    done = lod(
        "train", "training.npz::rows", "-o", "o", "--validation", "valid.npz::squares", *args
    )
    assert json.loads(done.stdout)["validation_loss"] != expected["validation_loss"]


def test_a_set_without_the_named_tensor_of_source_is_an_error(lod: Lod, files: Path) -> None:
    """Not its only tensor, which may be another, of rows of the same width."""
    items = dict(io.read_all(files / "other.lod.h5"))
    io.write(files / "chars.lod.h5", {"chars": items["data"], "label": items["label"]})
    args = ("--test", "chars.lod.h5", "--epochs", "1", *ARGS)
    done = lod("train", "training.lod.h5::data", "-o", "m", *args)
    assert done.code == 2
    assert "chars.lod.h5: no tensor named 'data'; there are: chars, label" in done.stderr
    assert not (files / "m").exists()
    named = ("--test", "chars.lod.h5::chars", *args[2:])
    for source, options in (("training.lod.h5", args), ("training.lod.h5::data", named)):
        assert lod("train", source, "-o", "m", "--force", *options).code == 0


@pytest.mark.parametrize("patience", [1, 3])
def test_patience_stops_after_epochs_without_a_lower_loss(
    lod: Lod, files: Path, patience: int
) -> None:
    expected = losses()
    best, stop = 0, EPOCHS
    for number, loss in enumerate(expected):
        best = number if loss < expected[best] else best
        if number - best >= patience:
            stop = number + 1
            break
    assert stop < EPOCHS
    args = ("--epochs", str(EPOCHS), "--validation", "valid.lod.h5", *ARGS)
    parts = ("train", "training.lod.h5", "-o", "m", *args, "--patience", str(patience))
    done = lod(*parts)
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(f"best epoch {best + 1} of {EPOCHS}, stopped after {stop}, loss ")
    assert re.search(
        r"validation loss 0\.\d{4}, training .* validation accuracy .* of 24\)", done.stdout
    )
    # In parts: the same bits, and once it has stopped, no more epochs.
    for until in (2, stop, EPOCHS):
        more = lod(*parts[:3], "n", "-f", *parts[4:], "--state", "s", "--until", str(until))
        assert more.code == 0, more.stderr
    assert more.stdout == done.stdout
    assert Path("n").read_bytes() == Path("m").read_bytes()
    further = lod(*parts[:3], "n", "-f", *args, "--state", "s", "--json")
    assert json.loads(further.stdout)["best_epoch"] >= best + 1


def test_patience_without_a_validation_set_is_about_the_training_loss(
    lod: Lod, files: Path
) -> None:
    start = seeded_classifier("gru", 2, 6, 2, rng=np.random.default_rng(0))
    epochs = train(start, noisy(0), Recipe(epochs=EPOCHS, batch=8, rate=0.9))
    expected = [epoch.loss for epoch in epochs]
    best = int(np.argmin(expected[:8]))
    assert best == 5
    args = ("--epochs", str(EPOCHS), "--patience", "2", "--json", *ARGS, "--lr", "0.9")
    done = lod("train", "training.lod.h5", "-o", "m", *args)
    report = json.loads(done.stdout)
    assert (report["best_epoch"], report["stopped_after"]) == (best + 1, best + 3)
    assert report["loss"] == pytest.approx(expected[best], rel=1e-5)
    assert report["validation_loss"] is None


def test_a_state_of_another_validation_set_is_refused(lod: Lod, files: Path) -> None:
    parts = ("train", "training.lod.h5", "-o", "m", "-f", "--epochs", "4", "--state", "s", *ARGS)
    assert lod(*parts, "--validation", "valid.lod.h5", "--until", "2").code == 0
    for sets in ([], ["--validation", "other.lod.h5"]):
        done = lod(*parts, *sets)
        assert (done.code, done.stdout) == (2, "")
        assert "s: is the state of a training with other examples" in done.stderr


def test_a_loss_that_is_not_finite_is_an_error(lod: Lod, files: Path) -> None:
    far = noisy(1)
    rows = far.sequences.data.astype(np.float64)
    rows[0] = 1e300
    items = {"data": far.sequences.with_data(rows), "label": LoDTensor(far.labels)}
    io.write("far.lod.h5", items)
    done = lod("train", "training.lod.h5", "-o", "m", "--validation", "far.lod.h5", *ARGS)
    assert (done.code, done.stdout) == (1, "")
    said = "lod train: epoch 1: the loss on the validation set is nan; check its data for values"
    assert done.stderr.startswith(said)
    assert not Path("m").exists()


@pytest.mark.parametrize("args", [["--validation", "valid.lod.h5"], ["--patience", "2"]])
def test_an_evaluation_chooses_no_epoch(lod: Lod, files: Path, args: list[str]) -> None:
    assert lod("train", "training.lod.h5", "-o", "m", "--epochs", "1", *ARGS).code == 0
    done = lod("train", "training.lod.h5", "--weights", "m", "--epochs", "0", *args)
    assert (done.code, done.stdout) == (2, "")
    assert "--validation and --patience choose the epoch" in done.stderr


def test_a_validation_set_of_other_rows_is_refused(lod: Lod, files: Path) -> None:
    wide = LoDTensor(np.ones((3, 5), np.float32), [[1, 2]])
    io.write("wide.lod.h5", {"data": wide, "label": LoDTensor([0, 1])})
    done = lod("train", "training.lod.h5", "-o", "m", "--validation", "wide.lod.h5", *ARGS)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("lod train: wide.lod.h5: expected rows of 2 values as in ")
