"""Labels of `lod train` that do not fit the sequences, or are neither classes nor numbers."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Categories, Marks, TimeKind, Times
from tests.lodcli.conftest import Done, Lod, tensor

NEW = ("-o", "m", "--epochs", "1", "--hidden", "3")
PREDICTED = "floating-point numbers are predicted as values"
CAST = "lod cast label=float64 makes numbers to predict"
ROWS = np.arange(5.0)


@pytest.fixture
def train(lod: Lod, folder: Path) -> Any:
    """Train on labels of sequences of 2, 1 and 2 rows, or of other levels."""

    def run(labels: LoDTensor, levels: Any = ((2, 1, 2),), *args: str) -> Done:
        items = {"x": LoDTensor(ROWS, [list(one) for one in levels]), "label": labels}
        io.write("t.lod.h5", items, overwrite=True)
        return lod("train", "t.lod.h5::x", *NEW, "--force", "--json", *args)

    return run


def said(done: Done) -> str:
    assert (done.code, done.stdout) == (1, "")
    return str(json.loads(done.stderr)["error"]["message"])


def test_lists_of_one_label_are_labels(train: Any, folder: Path) -> None:
    arrays = []
    for labels in (
        LoDTensor(np.array([0, 2, 1])),
        LoDTensor(np.array([0, 2, 1]), [[1, 1, 1]]),
        LoDTensor(np.array([[0], [2], [1]])),
    ):
        done = train(labels)
        assert done.code == 0, done.stderr
        arrays.append(Path("m").read_bytes())
    assert arrays[0] == arrays[1] == arrays[2]


def test_lists_of_equal_length_are_several_numbers(lod: Lod, train: Any) -> None:
    numbers = np.array([1.5, 2, 3, 4, 5, 6])
    assert json.loads(train(LoDTensor(numbers, [[2, 2, 2]])).stdout)["values"] == 2
    lists = Path("m").read_bytes()
    # They cannot be classes, so no note names a cast to whole numbers.
    assert train(LoDTensor(np.arange(6.0), [[2, 2, 2]])).stderr == ""
    # Nor are more numbers than sequences too many classes.
    assert train(LoDTensor(np.arange(12) / 8, [[4, 4, 4]])).stderr == ""
    assert json.loads(train(LoDTensor(numbers.reshape(3, 2))).stdout)["values"] == 2
    assert Path("m").read_bytes() == lists
    # JSON lines have such lists, those that lod run-rnn writes as well.
    args = "--weights", "m", "--emit", "value", "-o"
    assert lod("run-rnn", "t.lod.h5::x", *args, "q.jsonl").code == 0
    predictions = tensor("q.jsonl", "data")
    assert predictions.lod.n_levels == 1
    io.write("again.lod.h5", {"x": io.read_all("t.lod.h5")["x"], "label": predictions})
    done = lod("train", "again.lod.h5::x", "--weights", "m", "--epochs", "0", "--json")
    np.testing.assert_allclose(json.loads(done.stdout)["training_rmse"], 0, atol=1e-5)


def test_lists_of_other_lengths_are_refused(train: Any) -> None:
    floats = np.array([1.5, 2.0, 3.0])
    end = "; several numbers to predict need lists of equal length"
    assert said(train(LoDTensor(floats, [[2, 0, 1]]))) == (
        "t.lod.h5: label: expected 3 labels, one for each sequence of level 0, found lists of 0 to "
        f"2{end}"
    )
    nested = ((2, 1), (2, 1, 2))
    for values in (floats, np.array([0, 1, 2])):
        assert said(train(LoDTensor(values, [[1, 2]]), nested)) == (
            "t.lod.h5: label: expected 3 labels, one for each sequence of level 1, found 1 for the "
            "2 sequences of item 0"
        )
        for labels in (LoDTensor(values, [[2, 1]]), LoDTensor(values)):
            assert train(labels, nested).code == 0
    pairs = LoDTensor(np.arange(6) / 4, [[2, 1], [2, 2, 2]])
    assert json.loads(train(pairs, nested).stdout)["values"] == 2
    codes = LoDTensor(np.zeros(6, np.int8), [[2] * 3], marks=Marks(unit=Categories(("a", "b"))))
    assert said(train(codes)).endswith("level 0, found 2 for each")


def test_whole_numbers_that_are_no_classes_name_the_cast(lod: Lod, train: Any) -> None:
    for labels, found in (
        (
            LoDTensor(np.array([3, -3, 1])),
            "label: position 1: expected class numbers, from 0, found",
        ),
        (
            LoDTensor(np.arange(6).reshape(3, 2)),
            "label: expected 3 labels, one for each sequence of level 0, found 2 for each;",
        ),
    ):
        message = said(train(labels))
        assert message.startswith(f"t.lod.h5: {found}")
        assert message.endswith(f"; {CAST}")
        args = "label=float64", "-o", "f.lod.h5", "--force"
        assert lod("cast", "t.lod.h5", *args).code == 0
        assert lod("train", "f.lod.h5::x", *NEW, "--force").code == 0
    done = train(LoDTensor(np.array([3, 7, 1])))
    assert done.code == 0
    note = f"t.lod.h5: label: whole numbers are classes, 8 for 3 sequences; {CAST}"
    assert json.loads(done.stderr)["note"] == note


@pytest.mark.parametrize(
    ("kind", "unit", "zone", "scale"),
    [
        ("duration", "ms", None, 1e-3),
        ("timestamp", "us", None, 1e-6),
        ("timestamp", "s", "UTC", 1),
        ("date", "D", None, 1),
        ("date", "ms", None, 1 / 86_400_000),
        ("time", "s", None, 1),
    ],
)
def test_times_are_no_classes(
    lod: Lod, train: Any, kind: TimeKind, unit: str, zone: str | None, scale: float
) -> None:
    times = Times(kind, unit, zone)
    numbers = np.array([2, 7, 5]) * (86_400_000 if (kind, unit) == ("date", "ms") else 1)
    labels = LoDTensor(numbers, marks=Marks(unit=times))
    message = said(train(labels))
    found, apply, cast = message.split("; ")[0], *message.split("; ")[1].split(", lod ")
    assert found == f"t.lod.h5: label: expected numbers or words, found {times}"
    assert apply.endswith(" makes numbers to predict")
    assert cast == "cast label=text makes classes"
    words = shlex.split(apply.removesuffix(" makes numbers to predict"))[1:]
    args = ["t.lod.h5" if word == "SOURCE" else word for word in words]
    assert lod(*args, "-o", "n.lod.h5").code == 0
    np.testing.assert_allclose(tensor("n.lod.h5", "label").data, numbers * scale)
    done = lod("train", "n.lod.h5::x", *NEW)
    assert (done.code, PREDICTED in done.stderr) == (0, scale in (1, 1 / 86_400_000))
    # As another set they are refused, too, not taken for numbers of their unit.
    done = lod("train", "n.lod.h5::x", *NEW, "--force", "--test", "t.lod.h5::x")
    assert done.code == 1
    assert f"t.lod.h5: label: expected numbers or words, found {times}" in done.stderr


def test_complex_labels_are_refused(train: Any) -> None:
    labels = LoDTensor(np.array([1, 2j, 3]))
    wanted = "t.lod.h5: label: expected real numbers or words, found complex128"
    assert said(train(labels)) == wanted
