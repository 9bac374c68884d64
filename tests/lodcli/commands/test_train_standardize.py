"""`lod train --standardize`, and `lod run-rnn` with the model: against torch, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import opened
from tests.lodcli.conftest import Lod, tensor

MEAN, STD = "standardize.mean", "standardize.std"
ARGS = ("--hidden", "6", "--lr", "0.05", "--epochs", "25")
# float32, a dozen steps, against another library.
TOLERANCE = 1e-5


@pytest.fixture
def tracks(folder: Path) -> LoDTensor:
    """Return 40 tracks of latitude, longitude and seconds; the class is where they end."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 12, 40)
    count = int(lengths.sum())
    steps = rng.normal(size=(count, 2))
    seconds = 1_700_000_000 + rng.integers(0, 3600, count)
    rows = np.column_stack([52.5 + 1e-3 * steps[:, 0], 13.4 + 1e-3 * steps[:, 1], seconds])
    ends = np.cumsum(lengths) - 1
    found = LoDTensor(rows, [lengths])
    labels = LoDTensor((steps[ends, 0] > 0).astype(np.int64))
    io.write(folder / "tracks.lod.h5", {"track": found, "label": labels})
    return found


def module_of(path: str, torch: Any) -> Any:
    """Return the model of a file as a module of torch, whose rows are float64."""
    from safetensors.torch import load_file

    class Standardize(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, width: int) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
            self.register_buffer("std", torch.ones(width, dtype=torch.float64))

        def forward(self, rows: Any) -> Any:
            return (rows - self.mean) / self.std

    module = torch.nn.Module()
    module.standardize = Standardize(3)
    module.rnn = torch.nn.LSTM(3, 6)
    module.out = torch.nn.Linear(6, 2)
    module.load_state_dict(load_file(path))
    return module


def test_the_model_standardizes_rows_as_a_module_of_torch_does(
    lod: Lod, tracks: LoDTensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    bare = json.loads(lod("train", "tracks.lod.h5", "-o", "bare", *ARGS, "--json").stdout)
    done = lod("train", "tracks.lod.h5", "-o", "m", *ARGS, "--standardize", "--json")
    assert (done.code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["training_accuracy"] > 0.95 > 0.8 > bare["training_accuracy"]
    monkeypatch.setattr(base, "BATCH_BYTES", 1 << 10)
    monkeypatch.setattr(opened, "COMPUTED_BYTES", 1 << 10)
    module = module_of("m", torch)
    rows = [torch.from_numpy(track.data) for track in tracks]
    last = torch.stack([module.rnn(module.standardize(one).float())[1][0][-1] for one in rows])
    scores = module.out(last).detach()
    for kind, wanted in (("last", last.detach()), ("scores", scores)):
        run = ("run-rnn", "tracks.lod.h5::track", "--weights", "m", "--dtype", "float32")
        assert lod(*run, "--emit", kind, "-o", f"{kind}.lods").clean
        np.testing.assert_allclose(tensor(f"{kind}.lods").data, wanted, rtol=0, atol=TOLERANCE)
    again = lod("train", "tracks.lod.h5", "--weights", "m", "--epochs", "0", "--json")
    assert json.loads(again.stdout)["training_accuracy"] == report["training_accuracy"]
    labels = io.read("tracks.lod.h5", "label").data
    assert (scores.argmax(1).numpy() == labels).mean() == report["training_accuracy"]


def test_gradients_of_raw_rows_are_torchs(lod: Lod, tracks: LoDTensor) -> None:
    torch = pytest.importorskip("torch")
    assert lod("train", "tracks.lod.h5", "-o", "m", *ARGS, "--standardize", "-q").code == 0
    assert lod("run-rnn", "tracks.lod.h5::track", "--weights", "m", "--grad", "-o", "g.npz").clean
    module = module_of("m", torch).double()
    rows = [torch.from_numpy(track.data.copy()).requires_grad_() for track in tracks]
    sum(module.rnn(module.standardize(one))[0].sum() for one in rows).backward()
    wanted = np.concatenate([one.grad.numpy() for one in rows])
    # float64, relative to gradients of up to 1e3: divided by deviations of 1e-3.
    np.testing.assert_allclose(tensor("g.npz", "input").data, wanted, rtol=1e-9, atol=1e-9)
    weight = tensor("g.npz", "weight_ih_l0").data
    np.testing.assert_allclose(weight, module.rnn.weight_ih_l0.grad.numpy(), rtol=1e-9, atol=1e-9)


def test_a_nested_rnn_standardizes_the_rows_of_its_inner_rnn(lod: Lod, tracks: LoDTensor) -> None:
    assert lod("train", "tracks.lod.h5", "-o", "m", *ARGS, "--standardize", "-q").code == 0
    arrays = safetensors.numpy.load_file("m")
    nested = {name.replace("rnn.", "trip."): one for name, one in arrays.items()}
    rng = np.random.default_rng(1)
    nested |= {f"day.weight_{of}_l0": rng.normal(size=(18, 6)).astype("f4") for of in ("ih", "hh")}
    safetensors.numpy.save_file(nested, "nested")
    scale = nested.pop(MEAN), nested.pop(STD)
    safetensors.numpy.save_file(nested, "bare")
    lengths = [[15, 25], tracks.recursive_sequence_lengths()[0]]
    raw = LoDTensor(tracks.data, LoD.from_lengths(lengths, ["day", "trip"]))
    io.write("raw.lod.h5", raw)
    io.write("scaled.lod.h5", raw.with_data((raw.data - scale[0]) / scale[1]))
    for file, weights in (("raw", "nested"), ("scaled", "bare")):
        run = ("run-rnn", f"{file}.lod.h5", "--weights", weights, "--nested", "day/trip:boot")
        assert lod(*run, "--emit", "last", "-o", f"{file}.npz").code == 0
    np.testing.assert_array_equal(tensor("raw.npz").data, tensor("scaled.npz").data)


def test_a_training_continues_and_a_model_is_trained_further(lod: Lod, tracks: LoDTensor) -> None:
    args = ("--hidden", "6", "--standardize", "--epochs", "4", "-q")
    assert lod("train", "tracks.lod.h5", "-o", "whole", *args).code == 0
    for until, more in ((1, ()), (4, ("--force",))):
        state = ("--state", "s", "--until", until)
        assert lod("train", "tracks.lod.h5", "-o", "part", *args, *state, *more).code == 0
    assert Path("part").read_bytes() == Path("whole").read_bytes()
    done = lod("train", "tracks.lod.h5", "-o", "b", *args[:2], *args[3:], "--state", "s")
    assert (done.code, "s: is the state of a training with --standardize" in done.stderr) == (
        2,
        True,
    )
    # The means stay those of the first file.
    io.write("far.lod.h5", {"track": tracks + 0.002, "label": io.read("tracks.lod.h5", "label")})
    assert lod(
        "train", "far.lod.h5", "-o", "more", "--weights", "whole", "--epochs", "1", "-q"
    ).clean
    before, after = (safetensors.numpy.load_file(name) for name in ("whole", "more"))
    for name in (MEAN, STD):
        np.testing.assert_array_equal(before[name], after[name])
    assert not np.array_equal(before["out.weight"], after["out.weight"])


def test_whole_numbers_keep_their_digits(lod: Lod, folder: Path) -> None:
    """Seconds since 1970: float32 would make all of them one number."""
    seconds = 1_700_000_000 + np.tile([0, 9, 5, 2], 20)
    labels = np.tile([1, 0], 20)
    io.write("a.lod.h5", {"s": LoDTensor(seconds, [[2] * 40]), "label": LoDTensor(labels)})
    args = ("--standardize", "--hidden", "4", "--lr", "0.1", "--json")
    done = lod("train", "a.lod.h5", "-o", "m", "--test", "a.lod.h5", *args)
    report = json.loads(done.stdout)
    assert (done.stderr, report["training_accuracy"], report["test_accuracy"]) == ("", 1, 1)
    run = ("run-rnn", "a.lod.h5::s", "--weights", "m", "--emit", "class", "-o", "c.lod.h5")
    assert lod(*run).code == 0
    assert io.read("c.lod.h5", "predicted").data.tolist() == labels.tolist()


def test_a_note_names_values_far_from_0(lod: Lod, tracks: LoDTensor) -> None:
    once = ("--epochs", "1", "--hidden", "2")
    done = lod("train", "tracks.lod.h5", "-o", "a", *once)
    assert done.stderr == (
        "lod train: tracks.lod.h5: track: value 0 of a row has mean 52.5 and standard deviation "
        "0.00101; --standardize makes them 0 and 1\n"
    )
    label, rng = io.read("tracks.lod.h5", "label"), np.random.default_rng(0)
    for name, rows, noted in (
        ("usual", 4 * rng.normal(size=tracks.data.shape), False),
        ("far", tracks.data[:, 2:], True),
        ("alike", tracks.data % 1e-4, True),
        ("constant", tracks.data * 0, False),
    ):
        io.write(f"{name}.lod.h5", {"track": LoDTensor(rows, tracks.lod), "label": label})
        done = lod("train", f"{name}.lod.h5", "-o", name, *once)
        assert ("--standardize" in done.stderr) == noted, name
        more = ("--weights", name, "--epochs", "0")
        assert lod("train", f"{name}.lod.h5", *more).stderr == ""


def test_invalid_uses_of_standardize_are_errors(lod: Lod, tracks: LoDTensor) -> None:
    once = ("tracks.lod.h5", "-o", "o", "--epochs", "1")
    done = lod("train", *once, "--standardize", "--embedding", "3")
    assert (done.code, "--standardize is for values, --embedding for ids" in done.stderr) == (
        2,
        True,
    )
    assert lod("train", "tracks.lod.h5", "-o", "bare", "--epochs", "1", "-q").code == 0
    done = lod("train", *once, "--standardize", "--weights", "bare")
    said = f"bare: has no {MEAN}; leave --standardize out"
    assert (done.code, said in done.stderr) == (2, True)
    assert lod("train", "tracks.lod.h5", "-o", "m", "--epochs", "1", "--standardize").code == 0
    arrays = safetensors.numpy.load_file("m")
    one = np.ones(3)
    for changed, said in (
        ({STD: None}, f"state dict: {STD} is missing"),
        ({STD: one - 1}, f"{STD}: expected values above 0"),
        ({MEAN: one[:2], STD: one[:2]}, f"{MEAN}: expected (3,), found (2,)"),
        ({MEAN: one * np.nan}, f"{MEAN}: expected finite floating-point values"),
        ({"embedding.weight": np.ones((5, 3))}, f"{MEAN}: expected none beside embedding.weight"),
    ):
        damaged = {name: array for name, array in (arrays | changed).items() if array is not None}
        safetensors.numpy.save_file(damaged, "damaged")
        for command in (
            ("run-rnn", "tracks.lod.h5::track", "-o", "o.npz", "--emit", "class"),
            ("train", "tracks.lod.h5", "--epochs", "0"),
        ):
            done = lod(*command, "--weights", "damaged")
            assert done.code == 1, done.stderr
            if "embedding" not in said or command[0] == "run-rnn":
                assert f"damaged: {said}" in done.stderr
    io.write("two.lod.h5", LoDTensor(tracks.data[:, :2], tracks.lod))
    done = lod("run-rnn", "two.lod.h5", "-o", "o.npz", "--weights", "m")
    assert (done.code, done.stderr.count("two.lod.h5: ")) == (1, 1)
    assert "expected rows of 3 values for m, found 2" in done.stderr
    assert not Path("o.npz").exists()
