"""`lod train --state`: a training that stops and continues gives the bits of one that does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy

from lodcli.formats.core import io
from lodcli.formats.storage import interrupts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod

ARGS = ("--hidden", "3", "--batch", "8", "--dropout", "0.2", "--lr", "0.1")
STATE = (*ARGS, "-f", "--state", "s")


@pytest.fixture
def signs(folder: Path) -> Path:
    """A file of 20 sequences whose class is the sign of the first value."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 4, 20)
    data = rng.normal(size=(int(lengths.sum()), 2)).astype(np.float32)
    labels = LoDTensor((data[np.cumsum(lengths) - lengths, 0] > 0).astype(np.int64))
    io.write(folder / "signs.lod.h5", {"data": LoDTensor(data, [lengths]), "label": labels})
    return folder / "signs.lod.h5"


def test_five_epochs_and_five_more_are_ten(lod: Lod, signs: Path) -> None:
    whole = lod("train", signs, "-o", "whole", "--epochs", "10", "--test", signs, *ARGS)
    parts = ("train", signs, "-o", "m", "--epochs", "10", "--test", signs, *STATE)
    first = lod(*parts, "--until", "5")
    assert (first.code, first.stderr) == (0, "")
    assert first.stdout.startswith("best epoch 5 of 10, ")
    more = lod(*parts)
    assert (more.code, more.stdout) == (0, whole.stdout)
    assert more.stderr == "lod train: s: continuing after epoch 5 of 10\n"
    assert Path("m").read_bytes() == Path("whole").read_bytes()
    # Nothing is left to train, but the best model is written again if it is missing.
    Path("m").unlink()
    assert lod(*parts).stdout == whole.stdout
    assert Path("m").read_bytes() == Path("whole").read_bytes()


def test_the_best_model_of_an_earlier_part_is_kept(lod: Lod, signs: Path) -> None:
    parts = ("train", signs, "-o", "m", "--epochs", "4", *STATE)
    assert lod(*parts, "--until", "2").code == 0
    about = json.loads(header("s")["lod.classifier"])
    about["state"]["epochs"][1] = [1, 0.0, 1.0]  # no later epoch has a lower loss
    arrays = safetensors.numpy.load_file("s")
    arrays["best.out.bias"] = np.array([1, 2], np.float32)
    save("s", arrays, about)
    assert lod(*parts).stdout.startswith("best epoch 1 of 4, loss 0.0000")
    assert safetensors.numpy.load_file("m")["out.bias"].tolist() == [1, 2]


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_an_interrupted_training_continues_exactly(
    lod: Lod, signs: Path, monkeypatch: pytest.MonkeyPatch, dtype: Any
) -> None:
    start = ["--epochs", "1", "--hidden", "2", "--cell", "gru", "--bidirectional", "--pool", "mean"]
    assert lod("train", signs, "-o", "start", *start).code == 0
    arrays = safetensors.numpy.load_file("start")
    wide = {name: array.astype(dtype) for name, array in arrays.items()}
    safetensors.numpy.save_file(wide, "start", {"format": "pt"})
    args = ("--weights", "start", "--pool", "mean", "--epochs", "4", "--batch", "8", "--seed", "3")
    assert lod("train", signs, "-o", "whole", *args).code == 0
    calls: list[None] = []

    def interrupt() -> None:
        calls.append(None)
        if len(calls) == 8:  # the second step of the third epoch
            raise interrupts.Interrupted(2)

    with monkeypatch.context() as patched:
        patched.setattr("lodcli.formats.storage.interrupts.check", interrupt)
        assert lod("train", signs, "-o", "m", *args, "--state", "s").code == 130
    before = Path("m").read_bytes()
    more = lod("train", signs, "-o", "m", "-f", *args, "--state", "s")
    assert more.stderr == "lod train: s: continuing after epoch 2 of 4\n"
    assert Path("m").read_bytes() == Path("whole").read_bytes() != before


def header(path: str) -> dict[str, str]:
    with safetensors.safe_open(path, framework="np") as opened:
        metadata: dict[str, str] = opened.metadata()
    return metadata


def save(path: str, arrays: dict[str, Any], about: Any) -> None:
    safetensors.numpy.save_file(arrays, path, {"lod.classifier": json.dumps(about)})


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--lr", "0.2"], "s: is the state of a training with --lr 0.1, not 0.2; use the same,"),
        (["--cell", "gru"], "s: is the state of a training with --cell lstm, not gru"),
        (["--hidden", "4"], "s: is the state of another model: last.rnn.weight_ih_l0: expected"),
        (["--layers", "1"], "s: is the state of another model: last.rnn.weight_ih_l1: expected n"),
        (["--epochs", "1"], "s: is the state after 2 epochs, --epochs is 1"),
        (["--state", "./m"], "--state needs -o MODEL, and a named file other than MODEL"),
        (["--state", "-"], "--state needs -o MODEL, and a named file other than MODEL"),
        (["--state", "new/s"], "new/s: cannot be written: its folder does not exist"),
        (["--state", "whole"], "whole: expected a file that lod train --state has written"),
        (["--labels", "other"], "s: is the state of a training with other examples"),
    ],
)
def test_a_state_of_another_training_is_refused(
    lod: Lod, signs: Path, args: list[str], said: str
) -> None:
    items = io.read_all(signs)
    io.write("two.lod.h5", {**items, "other": LoDTensor(1 - items["label"].data)})
    parts = ("train", "two.lod.h5::data", "-o", "m", "--epochs", "2", "--layers", "2", *STATE)
    assert lod(*parts).code == 0
    assert lod("train", signs, "-o", "whole", "--epochs", "1", *ARGS).code == 0
    before = {name: Path(name).read_bytes() for name in ("m", "s", "whole")}
    done = lod(*parts, *args)
    assert (done.code > 0, done.stdout, done.stderr.count("\n")) == (True, "", 1)
    assert f"lod train: {said}" in done.stderr
    assert {name: Path(name).read_bytes() for name in before} == before


def test_a_state_of_another_precision_is_refused(lod: Lod, signs: Path) -> None:
    assert lod("train", signs, "-o", "m", "--epochs", "2", "--until", "1", *STATE).code == 0
    arrays = safetensors.numpy.load_file("s")
    about = json.loads(header("s")["lod.classifier"])
    assert about["state"]["run"].pop("--precision") == "float32"
    save("old", arrays, about)  # as an earlier version wrote it
    about["state"]["run"]["--precision"] = "bfloat16"
    save("s", arrays, about)
    done = lod("train", signs, "-o", "m", "--epochs", "2", *STATE)
    said = "s: is the state of a training with --precision bfloat16, not float32; use the same,"
    assert (done.code, said in done.stderr) == (2, True)
    assert lod("train", signs, "-o", "m", "--epochs", "2", *STATE, "--state", "old").code == 0


def test_a_state_of_a_cell_with_other_options_is_refused(lod: Lod, signs: Path) -> None:
    relu = {"rnn.": {"cell": "elman", "nonlinearity": "relu"}}
    start = ("train", signs, "-o", "start", "--epochs", "1", "--cell", "elman", *ARGS)
    assert lod(*start).code == 0
    parts = ("train", signs, "-o", "m", "--weights", "start", "--epochs", "2", *STATE[2:])
    assert lod(*parts, "--until", "1").code == 0
    arrays = safetensors.numpy.load_file("start")
    safetensors.numpy.save_file(arrays, "start", {**header("start"), "lod.rnn": json.dumps(relu)})
    said = "s: is the state of a training with --cell elman, not elman, nonlinearity=relu;"
    done = lod(*parts)
    assert (done.code, said in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": [[2, 0.5, 1], [0, 0.5, 1]]},
        {"epochs": [[2, "low", 1], [1, 0.5, 1]]},
        {"epochs": [[2, 0.5]]},
        {"epochs": [[1e999, 0.5, 1], [1, 0.5, 1]]},
        {"steps": None},
        {"run": {}},
        {"run": 3},
    ],
)
def test_a_damaged_state_is_an_error(lod: Lod, signs: Path, change: dict[str, Any]) -> None:
    parts = ("train", signs, "-o", "m", "--epochs", "2", *STATE)
    assert lod(*parts).code == 0
    about = json.loads(header("s")["lod.classifier"])
    about["state"] |= change
    save("s", safetensors.numpy.load_file("s"), about)
    done = lod(*parts)
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("lod train: s: expected a file that lod train --state has writ")
