"""`lod train` with floating-point labels, and `lod run-rnn --emit value`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor

LENGTHS = np.random.default_rng(0).integers(1, 7, 150)
FEW = ("--epochs", "2", "--hidden", "4")


@pytest.fixture
def trips(folder: Path) -> Path:
    """Sequences, a value for each in `label`, a row of two in `both`, ids, and classes."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(LENGTHS.sum(), 2))
    last = rows[np.cumsum(LENGTHS) - 1]
    items = {
        "data": LoDTensor(rows, [LENGTHS]),
        "ids": LoDTensor(rng.integers(0, 5, LENGTHS.sum()), [LENGTHS]),
        "label": LoDTensor(1000 + 50 * last[:, 0]),
        "both": LoDTensor(last * [1e3, 1e-3]),
        "whole": LoDTensor(np.round(last[:, 0])),
        "number": LoDTensor(np.round(5 * last[:, 0]).astype(np.int64)),
        "kind": LoDTensor((last[:, 0] > 0).astype(np.int64)),
    }
    io.write("trips.lod.h5", items)
    return Path("trips.lod.h5")


def errors(wanted: Any, found: Any) -> Any:
    return np.sqrt(np.square(wanted - found).reshape(len(wanted), -1).mean(0))


@pytest.mark.parametrize("labels", ["label", "both"])
def test_predicted_values_have_the_errors_of_the_report(lod: Lod, trips: Path, labels: str) -> None:
    source = f"{trips}::data"
    args = ["--labels", labels, "--epochs", "15", "--hidden", "8", "--test", source]
    done = lod("train", source, "-o", "m.safetensors", *args, "--json")
    assert (done.code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["classes"], report["values"]) == (None, 1 if labels == "label" else 2)
    assert report["training_accuracy"] is report["test_accuracy"] is None
    assert report["validation_rmse"] is None
    wanted = tensor(trips, labels).data
    baseline = errors(wanted, wanted.mean(0))
    np.testing.assert_allclose(report["training_baseline_rmse"], baseline, rtol=1e-6)
    assert (np.array(report["training_rmse"]) < baseline / 2).all()
    assert report["test_rmse"] == report["training_rmse"]
    done = lod("run-rnn", source, "--weights", "m.safetensors", "--emit", "value", "-o", "p.lod.h5")
    assert done.code == 0, done.stderr
    found = tensor("p.lod.h5", "predicted")
    assert found.dtype == np.float64
    assert found.data.shape == wanted.shape
    np.testing.assert_allclose(errors(wanted, found.data), report["training_rmse"], rtol=1e-3)
    again = lod("train", source, "--labels", labels, "--weights", "m.safetensors", "--epochs", "0")
    shown = ", ".join(f"{one:.4g}" for one in report["training_rmse"])
    mean = ", ".join(f"{one:.4g}" for one in report["training_baseline_rmse"])
    assert again.stdout == f"training RMSE {shown} (predicting the mean: {mean})\n"


def test_errors_of_many_values_are_not_all_printed(lod: Lod, trips: Path) -> None:
    items = io.read_all(trips)
    labels = LoDTensor(np.random.default_rng(0).normal(size=(len(LENGTHS), 30)))
    io.write("thirty.lod.h5", {"data": items["data"], "label": labels})
    done = lod("train", "thirty.lod.h5::data", "-o", "m", *FEW)
    assert done.code == 0, done.stderr
    _, errors, mean = done.stdout.replace(" (predicting the mean: ", " RMSE ").split(" RMSE ")
    for shown in (errors, mean.rstrip(")\n")):
        *first, count = shown.split(", ")
        assert (len(first), count) == (8, ".. 30 values")
    done = lod("train", "thirty.lod.h5::data", "--weights", "m", "--epochs", "0", "--json")
    report = json.loads(done.stdout)
    for name in ("rmse", "baseline_rmse"):
        assert len(report[f"training_{name}"]) == 30


def test_a_module_of_torch_predicts_the_same_values(lod: Lod, trips: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    load_file: Any = pytest.importorskip("safetensors.torch").load_file
    source = f"{trips}::data"
    for name in ("m", "p"):
        Path(name).unlink(missing_ok=True)
    assert lod("train", source, "-o", "m", "--labels", "both", "--standardize", *FEW).code == 0
    args = ["--weights", "m", "--emit", "value", "-o", "p.lod.h5"]
    assert lod("run-rnn", source, *args).code == 0

    class Scale(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, size: int) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
            self.register_buffer("std", torch.ones(size, dtype=torch.float64))

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.standardize, self.targets = Scale(2), Scale(2)
            self.rnn, self.out = torch.nn.LSTM(2, 4), torch.nn.Linear(4, 2)

        def forward(self, rows: Any) -> Any:
            scaled = (rows - self.standardize.mean) / self.standardize.std
            _, (hidden, _) = self.rnn(scaled.float())
            return self.out(hidden[-1]).double() * self.targets.std + self.targets.mean

    module = Model()
    module.load_state_dict(load_file("m"))
    with torch.no_grad():
        wanted = [module(torch.tensor(part.data)).numpy() for part in tensor(trips, "data")]
    found = tensor("p.lod.h5", "predicted").data
    np.testing.assert_allclose(found / [1e3, 1e-3], np.array(wanted) / [1e3, 1e-3], atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [["--standardize"], ["--cell", "gru", "--bidirectional", "--pool", "mean", "--dropout", "0.2"]],
)
def test_a_training_in_two_parts_is_that_of_one(lod: Lod, trips: Path, options: list[str]) -> None:
    args = [f"{trips}::data", "--hidden", "4", "--epochs", "4", *options]
    assert lod("train", *args, "-o", "whole").code == 0
    assert lod("train", *args, "-o", "part", "--state", "s", "--until", "2").code == 0
    assert lod("train", *args, "-o", "part", "--state", "s", "--force").code == 0
    assert Path("part").read_bytes() == Path("whole").read_bytes()
    assert b"NaN" not in Path("s").read_bytes()


def test_ids_predict_values_too(lod: Lod, trips: Path) -> None:
    args = [f"{trips}::ids", "--embedding", "3", *FEW]
    assert lod("train", *args, "-o", "m").code == 0
    args = ["--weights", "m", "--emit", "value", "-o", "p.csv"]
    assert lod("run-rnn", f"{trips}::ids", *args).code == 0
    assert Path("p.csv").read_text().startswith("predicted\n")
    assert len(Path("p.csv").read_text().splitlines()) == len(LENGTHS) + 1


def test_whole_numbers_are_values_where_others_are(lod: Lod, trips: Path) -> None:
    items = io.read_all(trips)
    io.write("more.lod.h5", {"data": items["data"], "label": items["number"]})
    done = lod("train", f"{trips}::data", "-o", "m", *FEW, "--validation", "more.lod.h5::data")
    assert (done.code, done.stderr) == (0, "")
    assert "validation RMSE" in done.stdout
    assert lod("train", "more.lod.h5::data", "--weights", "m", "--epochs", "0").clean


def test_floats_that_are_whole_numbers_are_noted(lod: Lod, trips: Path) -> None:
    done = lod("train", f"{trips}::data", "-o", "m", *FEW, "--labels", "whole")
    assert done.code == 0
    assert done.stderr == (
        "lod train: trips.lod.h5: whole: floating-point numbers are predicted as values; lod cast "
        "whole=int64 makes class numbers\n"
    )


def test_invalid_arguments_are_errors(lod: Lod, trips: Path) -> None:
    source, items = f"{trips}::data", io.read_all(trips)
    assert lod("train", source, "-o", "values", *FEW).code == 0
    assert lod("train", source, "-o", "classes", *FEW, "--labels", "kind").code == 0
    bad = np.array(items["label"].data)
    bad[7] = np.nan
    for name, labels in (
        ("nan", LoDTensor(bad)),
        ("rows", LoDTensor(np.ones((150, 0)))),
        ("two", LoDTensor(items["both"].data)),
        ("few", LoDTensor(bad[:5])),
        ("texts", LoDTensor.from_lists(["a"] * 150)),
    ):
        io.write(f"{name}.lod.h5", {"data": items["data"], "label": labels})
    new = ["-o", "m", *FEW]
    evaluating = ["--epochs", "0"]
    for args, said in (
        (["nan.lod.h5::data", *new], "nan.lod.h5: label: position 7: expected a finite value"),
        (["rows.lod.h5::data", *new], "rows.lod.h5: label: expected rows of values, found shape"),
        (["few.lod.h5::data", *new], "labels: expected 150, one per sequence, found shape (5,)"),
        (
            [source, *new, "--test", "two.lod.h5::data"],
            "two.lod.h5: labels: expected 1 values for each sequence as in trips.lod.h5, found 2",
        ),
        (
            [source, *new, "--test", "texts.lod.h5::data"],
            "texts.lod.h5: labels: expected numbers as in trips.lod.h5, found words",
        ),
        (
            [source, *new, "--labels", "kind", "--test", "two.lod.h5::data"],
            "no tensor named 'kind'",
        ),
        (
            ["two.lod.h5::data", *evaluating, "--weights", "values"],
            "values: predicts 1 values for each sequence, the labels of two.lod.h5 have 2",
        ),
        (
            [source, *evaluating, "--weights", "classes"],
            "classes: predicts classes, the labels of trips.lod.h5 are floating-point numbers; lod "
            "cast label=int64 makes class numbers of whole numbers",
        ),
        (
            ["texts.lod.h5::data", *evaluating, "--weights", "values"],
            "values: predicts values, the labels of texts.lod.h5 are classes",
        ),
    ):
        done = lod("train", *args)
        assert done.code != 0
        assert said in done.stderr
        assert not Path("m").exists()
    for model, kind, use in (
        ("values", "class", "the model predicts values; use --emit value"),
        ("values", "scores", "the model predicts values; use --emit value"),
        ("classes", "value", "the model predicts classes; use --emit class or scores"),
    ):
        done = lod("run-rnn", source, "--weights", model, "--emit", kind, "-o", "x.lod.h5")
        assert done.code == 2
        assert f"{model}: --emit {kind}: {use}" in done.stderr
