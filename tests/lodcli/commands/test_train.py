"""`lod train`: real speech, the model in torch, interrupts, and errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.commands.train.command import command
from lodcli.commands.train.given import TrainOptions
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.engine import products
from lodcli.kernels.rnn.engine.amx.availability import amx_problem
from lodcli.kernels.runtime.precision import current_precision
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Decimals, Marks
from lodcli.shell import device
from tests.hanging import HANG_SECONDS, wait_for
from tests.launchers import handling
from tests.lodcli.conftest import Lod, environment, tensor, tensors

SAMPLES = Path(__file__).parents[3] / "samples"
TRAIN, TEST = SAMPLES / "japanese_vowels.ts", SAMPLES / "japanese_vowels_test.ts"
# float32, two dozen steps, against another library: the bound that is promised.
TOLERANCE = 1e-5


@pytest.fixture
def torch() -> Iterator[Any]:
    """torch with one thread: two that wait for each other take ten times as long here."""
    module = pytest.importorskip("torch")
    before = module.get_num_threads()
    module.set_num_threads(1)
    yield module
    module.set_num_threads(before)


@pytest.fixture
def signs(folder: Path) -> Path:
    """A file of 40 sequences whose class is the sign of the last value."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 7, 40)
    data = rng.normal(size=(int(lengths.sum()), 2)).astype(np.float32)
    labels = (data[np.cumsum(lengths) - 1, 0] > 0).astype(np.int64)
    path = folder / "signs.lod.h5"
    io.write(
        path, {"data": LoDTensor(data, LoD.from_lengths([lengths])), "label": LoDTensor(labels)}
    )
    return path


def test_decimals_are_trained_on_with_their_values(lod: Lod, signs: Path) -> None:
    items = io.read_all(signs)
    digits = np.round(items["data"].data * 100).astype(np.int64)
    decimals = Marks(unit=Decimals(6, 2))
    for name, rows, marks in (("a", digits, decimals), ("b", digits / 100, NO_MARKS)):
        data = LoDTensor(rows, items["data"].lod, marks=marks)
        io.write(f"{name}.lod.h5", {"data": data, "label": items["label"]})
        assert (
            lod("train", f"{name}.lod.h5", "-o", name, "--epochs", "1", "--hidden", "2").code == 0
        )
    assert Path("a").read_bytes() == Path("b").read_bytes()
    digits = items["label"].data * 10
    tenths = Marks(unit=Decimals(2, 1))
    for name, rows in (("c", digits), ("d", np.where(np.arange(digits.size) == 3, 15, digits))):
        io.write(f"{name}.lod.h5", {**items, "label": LoDTensor(rows, marks=tenths)})
    assert lod("train", "c.lod.h5", "-o", "c", "--epochs", "1").code == 0
    assert lod("train", signs, "-o", "e", "--epochs", "1").code == 0
    assert Path("c").read_bytes() == Path("e").read_bytes()
    done = lod("train", "d.lod.h5", "-o", "d", "--epochs", "1")
    said = "lod train: d.lod.h5: label: position 3: expected whole numbers, found 1.5; lod cast "
    said += "label=float64 --dtype-unsafe makes numbers to predict\n"
    assert (done.code, done.stderr) == (1, said)
    cast = "label=float64", "--dtype-unsafe", "-o", "f.lod.h5"
    assert lod("cast", "d.lod.h5", *cast).code == 0
    assert lod("train", "f.lod.h5", "-o", "f", "--epochs", "1").code == 0
    # Where other labels are floating-point numbers, decimals are as well.
    done = lod("train", "d.lod.h5", "--weights", "f", "--epochs", "0", "--json")
    assert json.loads(done.stdout)["values"] == 1


def torch_model(path: str, torch: Any, **rnn: Any) -> Any:
    """Return a torch module with the model that is in a file."""
    from safetensors.torch import load_file

    module = torch.nn.Module()
    entries = load_file(path)
    hidden = entries["rnn.weight_hh_l0"].shape[1]
    module.rnn = torch.nn.LSTM(entries["rnn.weight_ih_l0"].shape[1], hidden, **rnn)
    module.out = torch.nn.Linear(*entries["out.weight"].shape[::-1])
    module.load_state_dict(entries)
    return module


def torch_right(module: Any, path: Path, torch: Any) -> int:
    """Return how many sequences of a file torch scores right, one at a time."""
    items = tensors(path)
    data, labels = items["data"], items["label"]
    right = 0
    for part, label in zip(data, labels.data, strict=True):
        _, (hidden, _) = module.rnn(torch.from_numpy(part.data.astype(np.float32)))
        last = hidden[-2:].reshape(-1) if module.rnn.bidirectional else hidden[-1]
        right += int(module.out(last).argmax()) == label
    return right


@pytest.mark.slow
def test_real_speech_is_classified_and_torch_has_the_same_accuracy(
    lod: Lod, shell: Lod, torch: Any
) -> None:
    line = f"lod train {TRAIN} -o m.safetensors --test {TEST} --json"
    # One thread of NumPy's: two that wait for each other take ten times as long here.
    done = shell(f"{line} --bidirectional --hidden 32 --dropout 0.3", OPENBLAS_NUM_THREADS="1")
    assert (done.code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["schema_version"] == 1
    assert (report["classes"], report["training_sequences"], report["test_sequences"]) == (
        9,
        270,
        370,
    )
    assert report["test_accuracy"] >= 0.95
    module = torch_model("m.safetensors", torch, bidirectional=True)
    right = torch_right(module, TEST, torch)
    assert right == round(report["test_accuracy"] * 370)
    # The saved model, scored again.
    again = lod("train", TEST, "--weights", "m.safetensors", "--epochs", "0")
    assert again.stdout == f"training accuracy {right / 3.7:.1f} % ({right} of 370)\n"
    # Its states, by the other command.
    args = ["--weights", "m.safetensors", "--dtype", "float32", "--emit", "last"]
    assert lod("run-rnn", TEST, "-o", "last.npz", *args).code == 0
    scores = tensor("last.npz").data @ module.out.weight.detach().numpy().T
    scores += module.out.bias.detach().numpy()
    labels = tensor(TEST, "label")
    assert int((scores.argmax(axis=1) == labels.data).sum()) == right


def test_a_model_trained_in_torch_runs_here_equal(lod: Lod, folder: Path, torch: Any) -> None:
    from safetensors.torch import save_file

    torch.manual_seed(0)
    items = tensors(TRAIN)
    data, labels = items["data"], items["label"]
    module = torch.nn.Module()
    module.rnn = torch.nn.LSTM(12, 24)
    module.out = torch.nn.Linear(24, 9)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    rows = [torch.from_numpy(part.data.astype(np.float32)) for part in data]
    packed = torch.nn.utils.rnn.pack_sequence(rows, enforce_sorted=False)
    for _ in range(10):
        optimizer.zero_grad()
        last = module.rnn(packed)[1][0][-1]
        loss = torch.nn.functional.cross_entropy(module.out(last), torch.from_numpy(labels.data))
        loss.backward()
        optimizer.step()
    save_file(module.state_dict(), "torch.safetensors")
    args = ["--weights", "torch.safetensors", "--dtype", "float32", "--emit", "both"]
    assert lod("run-rnn", TRAIN, "-o", "out.npz", *args).code == 0
    outputs, (hidden, _) = module.rnn(packed)
    unpacked, _ = torch.nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True)
    lengths = data.lod.lengths(0)
    wanted = np.concatenate(
        [part[:n].detach().numpy() for part, n in zip(unpacked, lengths, strict=True)]
    )
    np.testing.assert_allclose(tensor("out.npz", "all").data, wanted, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(
        tensor("out.npz", "last").data, hidden[-1].detach().numpy(), rtol=0, atol=TOLERANCE
    )
    right = torch_right(module, TRAIN, torch)
    assert 0 < right < 270
    scored = lod("train", TRAIN, "--weights", "torch.safetensors", "--epochs", "0", "--json")
    assert round(json.loads(scored.stdout)["training_accuracy"] * 270) == right


def test_the_same_seed_gives_the_same_file(lod: Lod, signs: Path) -> None:
    args = ["--hidden", "4", "--epochs", "3", "--dropout", "0.2"]
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert lod("train", signs, "-o", name, *args, "--seed", seed).code == 0
    contents = [Path(name).read_bytes() for name in "abc"]
    assert contents[0] == contents[1]
    assert contents[0] != contents[2]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("m.pt", ", then lod weights MODEL.safetensors -o m.pt converts its RNN to torch"),
        ("m.npz", ""),
        ("m.lod.h5", ""),
        ("m.safetensors.gz", ""),
        ("m.gz", ""),
    ],
)
def test_a_name_of_another_format_is_refused(lod: Lod, signs: Path, name: str, remedy: str) -> None:
    done = lod("train", signs, "-o", name, "--epochs", "1")
    assert (done.code, done.stdout) == (2, "")
    said = f"{name}: a model is written as safetensors; name it MODEL.safetensors{remedy};"
    assert said in done.stderr
    assert not Path(name).exists()


def test_training_goes_on_from_a_saved_model(lod: Lod, signs: Path) -> None:
    args = ["--epochs", "8", "--lr", "0.05", "--json", "--pool", "mean"]
    first = lod("train", signs, "-o", "a", "--hidden", "8", "--cell", "gru", *args)
    more = lod("train", signs, "-o", "b", "--weights", "a", *args)
    assert (first.code, more.code) == (0, 0)
    assert json.loads(more.stdout)["loss"] < json.loads(first.stdout)["loss"]
    # What the arrays do not say is in the file: the mean is taken again.
    scored = lod("train", signs, "--weights", "a", "--epochs", "0", "--json")
    assert (
        json.loads(scored.stdout)["training_accuracy"]
        == json.loads(first.stdout)["training_accuracy"]
    )


def test_the_summary_has_the_best_epoch_and_accuracies(lod: Lod, signs: Path) -> None:
    done = lod("train", signs, "-o", "m", "--hidden", "8", "--epochs", "12", "--lr", "0.05")
    assert done.code == 0
    assert done.stdout.startswith("best epoch 12 of 12, loss 0.")
    assert done.stdout.endswith("of 40)\n")


@pytest.mark.skipif(amx_problem() is not None, reason=f"needs AMX: {amx_problem()}")
def test_precision_bfloat16_rounds_products_of_training_and_of_scores(
    lod: Lod, signs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.rnn.engine import layer_native

    asked = []

    def products_for(dtype: np.dtype[Any]) -> Any:
        asked.append(current_precision())
        return products.products_for(dtype)

    monkeypatch.setattr(layer_native, "products_for", products_for)
    rounded = ["--precision", "bfloat16"]
    args = ["--hidden", "40", "--epochs", "4", "--json"]
    losses = []
    for name, options in (("exact", []), ("rounded", rounded)):
        done = lod("train", signs, "-o", name, "--test", signs, *args, *options)
        assert done.code == 0, done.stderr
        losses.append(json.loads(done.stdout)["loss"])
    # Forward and backward over 3 batches in each of 4 epochs, 4 scores of the test set, and two.
    assert asked.count("bfloat16") == 2 * 3 * 4 + 4 + 2
    assert 0 < abs(losses[0] - losses[1]) < 1e-2
    assert lod("train", signs, "--weights", "rounded", "--epochs", "0", *rounded).code == 0
    assert asked[-1] == "bfloat16"
    assert safetensors.numpy.load_file("rounded")["rnn.weight_hh_l0"].dtype == np.float32


def test_precision_bfloat16_without_amx_is_an_error_and_saves_nothing(
    lod: Lod, signs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOD_NATIVE", "off")
    done = lod("train", signs, "-o", "m", "--precision", "bfloat16")
    assert (done.code, done.stdout) == (4, "")
    assert "needs AMX: no compiled kernels: LOD_NATIVE=off; use float32, or a GPU" in done.stderr
    assert not Path("m").exists()
    # Before anything is read.
    unread = lod("train", "gone.lod.h5", "-o", "m", "--precision", "bfloat16")
    assert unread.code == 4
    assert unread.stderr == done.stderr


def test_a_precision_of_float32_for_a_model_of_float64_is_an_error(
    lod: Lod, signs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "require_amx", lambda: None)
    assert lod("train", signs, "-o", "m", "--hidden", "3", "--epochs", "1").code == 0
    arrays = safetensors.numpy.load_file("m")
    wide = {name: array.astype(np.float64) for name, array in arrays.items()}
    safetensors.numpy.save_file(wide, "wide", {"format": "pt"})
    done = lod("train", signs, "--weights", "wide", "--epochs", "0", "--precision", "bfloat16")
    assert done.code == 2
    assert "this is computed in float64; use --precision float32" in done.stderr


def test_a_cell_without_bfloat16_is_an_error(
    lod: Lod, signs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "require_amx", lambda: None)
    done = lod("train", signs, "-o", "m", "--precision", "bfloat16", "--cell", "mingru")
    assert (done.code, done.stdout) == (4, "")
    assert "this mingru has no kernel for it, only a plain lstm" in done.stderr
    assert not Path("m").exists()


def test_a_model_may_go_to_a_pipe(signs: Path) -> None:
    done = subprocess.run(
        ["lod", "train", signs, "-o", "-", "--epochs", "1", "--hidden", "3"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert safetensors.numpy.load(done.stdout)["out.weight"].shape == (2, 3)
    assert done.stderr.startswith(b"lod train: best epoch 1 of 1, ")


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_the_best_model_so_far(signs: Path, signum: int, code: int) -> None:
    model = signs.parent / "m.safetensors"
    process = subprocess.Popen(
        [*handling([signal.SIGINT]), "lod", "train", signs, "-o", model, "--epochs", "100000"],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        # The first save, after some seconds.
        wait_for(lambda: model.exists() or process.poll() is not None)
        safetensors.numpy.load_file(model)
        process.send_signal(signum)
        stdout, stderr = process.communicate(timeout=HANG_SECONDS)
    finally:
        process.kill()
    assert (process.returncode, stdout, stderr) == (code, b"", b"")
    assert "rnn.weight_ih_l0" in safetensors.numpy.load_file(model)
    assert not [name for name in os.listdir(signs.parent) if "partial" in name]


def test_progress_is_shown_on_a_terminal(signs: Path) -> None:
    import pty

    leader, follower = pty.openpty()
    process = subprocess.Popen(
        ["lod", "train", signs, "-o", signs.parent / "m", "--epochs", "3", "--hidden", "3"],
        env=environment(TERM="xterm", COLUMNS="120"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 4096):
            shown += part
    except OSError:  # what Linux answers when nobody has the other end any more
        pass
    os.close(leader)
    assert process.stdout is not None
    assert process.stdout.read().startswith(b"best epoch ")
    process.stdout.close()
    assert process.wait(timeout=HANG_SECONDS) == 0
    for number in (b"1", b"2", b"3"):
        assert b"epoch " + number + b" of 3" in shown


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LoDTensor.from_lists([["a"], ["b"]] * 20), "label: expected one text for each sequence"),
        (LoDTensor.from_lists([b"a", b"b"] * 20), "label: expected whole numbers or words, found"),
        (
            LoDTensor(np.linspace(0, 1e12, 40).astype(int)),
            "labels, position 39: 1000000000000 makes 1000000000001 classes (numbered from 0; lod "
            "cast label=float64 makes numbers to predict)",
        ),
    ],
)
def test_labels_that_are_no_classes_are_refused(
    lod: Lod, signs: Path, labels: LoDTensor, said: str
) -> None:
    data = tensor(signs, "data")
    io.write("other.lod.h5", {"data": data, "label": labels})
    done = lod("train", "other.lod.h5", "-o", "m")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"lod train: other.lod.h5: {said}")
    assert not Path("m").exists()


def test_labels_may_be_booleans(lod: Lod, signs: Path) -> None:
    items = io.read_all(signs)
    labels = items["label"].data
    io.write("bool.lod.h5", {**items, "label": LoDTensor(labels.astype(bool))})
    for name, source in (("a", signs), ("b", "bool.lod.h5")):
        assert lod("train", source, "-o", name, "--epochs", "2", "--hidden", "3").code == 0
    assert Path("a").read_bytes() == Path("b").read_bytes()


def test_labels_of_one_class_are_noted(lod: Lod, signs: Path) -> None:
    zeros = LoDTensor(np.zeros(40, np.int64))
    io.write("one.lod.h5", {**io.read_all(signs), "label": zeros})
    done = lod("train", "one.lod.h5", "-o", "m", "--epochs", "1", "--hidden", "3")
    said = "lod train: one.lod.h5: all labels are 0: one class leaves nothing to learn\n"
    assert (done.code, done.stderr) == (0, said)
    texts = LoDTensor.from_lists(["busy"] * 40)
    io.write("texts.lod.h5", {**io.read_all(signs), "label": texts})
    done = lod("train", "texts.lod.h5", "-o", "n", "--epochs", "1", "--hidden", "3")
    said = "lod train: texts.lod.h5: all labels are 'busy': one class leaves nothing to learn\n"
    assert (done.code, done.stderr) == (0, said)
    # A report is about the classes of the model, not about those in the data.
    assert lod("train", signs, "-o", "two", "--epochs", "1", "--hidden", "3").code == 0
    again = lod("train", "one.lod.h5", "--weights", "two", "--epochs", "0", "--json")
    assert json.loads(again.stdout)["classes"] == 2


def test_labels_of_another_level_name_that_level(lod: Lod, folder: Path) -> None:
    rows = LoDTensor(np.ones((6, 2), np.float32), LoD.from_lengths([[1, 2], [1, 2, 3]]))
    io.write("two.lod.h5", {"data": rows, "label": LoDTensor([0, 1])})
    args = ("two.lod.h5", "-o", "m", "--epochs", "1", "--hidden", "3")
    done = lod("train", *args)
    assert (done.code, done.stderr) == (
        1,
        "lod train: two.lod.h5: label: expected 3 labels, one for each sequence of level 1, "
        "found 2; --level 0 has as many sequences\n",
    )
    assert lod("train", *args, "--level", "0").code == 0


def test_labels_of_rows_are_not_for_this_command(lod: Lod, folder: Path) -> None:
    words = LoDTensor(np.arange(6), [[1, 2, 3]])
    io.write("tags.lod.h5", {"words": words, "tags": LoDTensor(words.data % 2, words.lod)})
    args = ("tags.lod.h5::words", "-o", "m", "--labels", "tags", "--embedding", "3")
    done = lod("train", *args)
    said = (
        "tags.lod.h5: tags: expected 3 labels, one for each sequence of level 0, found one for "
        "each row; lod train classifies sequences: to classify rows, train a module of torch with "
        "the layers of lodcli.torch\n"
    )
    assert (done.code, done.stderr) == (1, f"lod train: {said}")


def test_a_hidden_size_beyond_memory_is_named(lod: Lod, signs: Path) -> None:
    done = lod("train", signs, "-o", "m", "--hidden", str(10**11))
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"lod train: cell lstm: random weights of {10**11} hidden values")


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_value_that_is_not_finite_is_named(lod: Lod, signs: Path, value: float) -> None:
    items = tensors(signs)
    data = items["data"]
    rows = data.data.copy()
    rows[data.lod.levels[-1][3], -1] = value
    io.write("far.lod.h5", {"data": data.with_data(rows), "label": items["label"]})
    row = f"row {data.lod.levels[-1][3]} (of sequence 3): expected finite values, found {value}"
    for args in (["far.lod.h5", "-o", "m"], [signs, "--test", "far.lod.h5", "-o", "m"]):
        done = lod("train", *args, "--epochs", "1")
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr == f"lod train: far.lod.h5: data: {row}; " + (
            "replace it, or leave the sequence out\n"
        )


def test_a_row_too_large_for_float32_is_infinite_without_a_warning(lod: Lod, folder: Path) -> None:
    rows = LoDTensor(np.array([1.0, 1e300, 2.0]), LoD.from_lengths([[2, 1]]))
    io.write("far.lod.h5", {"data": rows, "label": LoDTensor(np.array([0, 1]))})
    done = lod("train", "far.lod.h5", "-q", "-o", "m", "--epochs", "1")
    assert (done.code, Path("m").exists()) == (1, False)
    assert done.stderr.startswith(
        "lod train: epoch 1: rnn.weight_ih_l0 has values that are not fin"
    )
    assert done.stderr.count("\n") == 1
    run = ("run-rnn", "far.lod.h5::data", "-q", "--seed", "1", "--hidden", "2", "--cell", "elman")
    for args in (["--dtype", "float32"], ["--dtype", "float32", "--grad"]):
        assert lod(*run, *args, "-f", "-o", "states.npz").clean


def test_the_sequences_are_those_beside_the_labels(lod: Lod, signs: Path) -> None:
    items = io.read_all(signs)
    speakers = LoDTensor(np.arange(len(items["label"].data)))
    io.write("named.lod.h5", {"x": items["data"], "speaker": speakers, "y": items["label"]})
    args = ("-o", "m", "--labels", "y", "--epochs", "1", "--test", "named.lod.h5", "-f")
    done = lod("train", "named.lod.h5", *args)
    assert done.stdout == lod("train", "named.lod.h5::x", *args).stdout != ""
    io.write("two.lod.h5", {"x": items["data"], "z": items["data"], "label": items["label"]})
    done = lod("train", "two.lod.h5", "-o", "m", "-f")
    assert done.code == 2
    assert done.stderr == (
        "lod train: two.lod.h5: holds 2 tensors; choose one: two.lod.h5::x two.lod.h5::z\n"
    )


def test_a_null_is_an_error_that_names_its_tensor(lod: Lod, folder: Path) -> None:
    rows = LoDTensor.from_lists([[1.0], [2.0, 3.0]])
    io.write("null.lod.h5", {"data": rows, "label": LoDTensor.from_lists([0, None])})
    done = lod("train", "null.lod.h5", "-o", "m")
    assert (done.code, done.stdout) == (4, "")
    assert done.stderr.startswith("lod train: null.lod.h5: label: row <1> is null;")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--epochs", "2"], 2, "give -o MODEL"),
        (["--epochs", "0"], 2, "give --weights, and no -o"),
        (["-o", "m", "--labels", "nothing"], 2, "no tensor named 'nothing'"),
        (["-o", "m", "--labels", "data"], 1, "data: expected 40 labels"),
        (["-o", "m", "--lr", "-1"], 2, "invalid value for '--lr': -1.0 is not in the range"),
        (["-o", "m", "--lr", "inf"], 2, "invalid value for '--lr': expected a finite number"),
        (["-o", "m", "--lr", "nan"], 2, "invalid value for '--lr': expected a finite number"),
        (["-o", "m", "--clip", "0"], 2, "invalid value for '--clip': 0.0 is not in the range"),
        (["-o", "m", "--dropout", "1"], 2, "invalid value for '--dropout': 1.0 is not in"),
        (["-o", "m", "--dropout", "nan"], 2, "invalid value for '--dropout': expected a number"),
        (["-o", "m", "--precision", "tf32"], 2, "--precision tf32 needs --device cuda"),
        (["-o", "m", "--weights", "gone"], 3, "gone: no such file"),
        (["-o", "there"], 3, "exists already"),
        (["-o", "signs.lod.h5"], 2, "signs.lod.h5: a model is written as safetensors"),
        (
            ["-o", "m", "--test", "words.lod.h5"],
            2,
            "words.lod.h5: no tensor named 'label'; lod merge adds one from another file\n",
        ),
    ],
)
def test_invalid_arguments_are_errors(
    lod: Lod, signs: Path, args: list[str], code: int, said: str
) -> None:
    Path("there").touch()
    before = sorted(os.listdir(signs.parent))
    done = lod("train", signs.name, *args)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr
    assert sorted(os.listdir(signs.parent)) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "; lod merge adds one from another file"),
        (("sign",), "; --labels NAME names another tensor of labels: sign"),
    ],
)
def test_without_labels_the_other_tensors_are_named(
    lod: Lod, folder: Path, more: tuple[str, ...], said: str
) -> None:
    values = LoDTensor([1.5, 2.5], [[2]])
    io.write("one.lod.h5", {"data": values, **{name: LoDTensor([1]) for name in more}})
    done = lod("train", "one.lod.h5", "-o", "m")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr == f"lod train: one.lod.h5: no tensor named 'label'{said}\n"


@pytest.mark.parametrize(
    ("model", "code", "said"),
    [
        ("gone/m", 3, "gone/m: cannot be written: its folder does not exist"),
        ("https://example.org/m", 4, "https://example.org/m: lod writes no URLs"),
        ("/proc/m", 3, "/proc/m: cannot be written"),
        ("words.lod.h5/m", 3, "words.lod.h5/m: cannot be written: a part of its path"),
    ],
)
def test_a_model_that_cannot_be_written_is_refused_before_anything_is_read(
    lod: Lod, signs: Path, model: str, code: int, said: str
) -> None:
    done = lod("train", "not_there.lod.h5", "-o", model)
    assert (done.code, done.stdout, done.stderr.count("\n")) == (code, "", 1)
    assert said in done.stderr


def test_a_test_set_of_other_rows_or_classes_is_refused(lod: Lod, signs: Path) -> None:
    rows, lod_of_2 = np.zeros((3, 5), np.float32), LoD.from_lengths([[1, 2]])
    other = {"data": LoDTensor(rows, lod_of_2), "label": LoDTensor(np.array([0, 1]))}
    io.write("wide.npz", other)
    io.write(
        "many.npz",
        {**other, "data": LoDTensor(rows[:, :2], lod_of_2), "label": LoDTensor(np.array([0, 7]))},
    )
    io.write(
        "none.npz",
        {"data": LoDTensor(rows[:0, :2], [[]]), "label": LoDTensor(np.zeros(0, np.int64))},
    )
    for name, said in (
        ("wide", "expected rows of 2 values"),
        ("many", "has label 7"),
        ("none", "data: no sequences"),
    ):
        done = lod("train", signs, "-o", "m", "--test", f"{name}.npz", "--epochs", "1")
        assert done.code == 1
        assert said in done.stderr
        assert f"{name}.npz" in done.stderr


def test_a_model_that_does_not_fit_is_refused(lod: Lod, signs: Path) -> None:
    assert lod("train", TRAIN, "-o", "vowels", "--epochs", "1", "--hidden", "2").code == 0
    done = lod("train", signs, "-o", "m", "--weights", "vowels")
    assert done.code == 1
    assert "vowels: takes rows of 12 values" in done.stderr


@pytest.mark.parametrize(
    ("dtype", "value", "found"), [("f4", np.nan, "values that are not"), ("i8", 1, "int64")]
)
@pytest.mark.parametrize("args", [["--epochs", "0"], ["-o", "m"]])
def test_weights_that_are_not_finite_or_whole_are_named(
    lod: Lod, signs: Path, dtype: str, value: float, found: str, args: list[str]
) -> None:
    assert lod("train", signs, "-o", "a", "--hidden", "2", "--epochs", "1").code == 0
    arrays = {**safetensors.numpy.load_file("a"), "out.bias": np.full(2, value, dtype)}
    safetensors.numpy.save_file(arrays, "b")
    done = lod("train", signs, "--weights", "b", *args)
    said = f"lod train: b: out.bias: expected finite floating-point values, found {found}\n"
    assert (done.code, done.stdout, done.stderr) == (1, "", said)


def test_a_model_that_numbers_the_classes_otherwise_is_refused(lod: Lod, signs: Path) -> None:
    items = io.read_all(signs)
    for name, words in (("one", ["yes", "no"]), ("two", ["no", "yes"])):
        io.write(f"{name}.lod.h5", {**items, "label_names": LoDTensor.from_lists(words)})
    shape = ["--epochs", "1", "--hidden", "2"]
    assert lod("train", "one.lod.h5", "-o", "m", *shape).code == 0
    for args in (["--epochs", "0"], ["-o", "again", *shape]):
        assert lod("train", "one.lod.h5", "--weights", "m", *args).code == 0
        args = ["other" if word == "again" else word for word in args]
        done = lod("train", "two.lod.h5", "--weights", "m", *args)
        assert (done.code, done.stdout) == (1, "")
        assert "m: calls class 0 yes, two.lod.h5 calls it no" in done.stderr
    assert lod("train", signs, "--weights", "m", "--epochs", "0").code == 0


def test_labels_of_words_are_compared_by_words(lod: Lod, signs: Path) -> None:
    items = io.read_all(signs)
    codes = tensor(str(signs), "label").data
    words = [("below", "above")[code] for code in codes]
    categories = {
        "ordered": LoDTensor(1 - codes).as_categories(["above", "below"]),
        "other": LoDTensor(codes + 1).as_categories(["none", "below", "above"]),
        "text": LoDTensor.from_lists(words),
    }
    for name, labels in categories.items():
        io.write(f"{name}.lod.h5", {**items, "label": labels})
    shape = ["-o", "ordered.safetensors", "-f", "--epochs", "4", "--hidden", "4", "--json"]
    for name in ("other", "text"):
        args = ["ordered.lod.h5", "--test", f"{name}.lod.h5", *shape]
        report = json.loads(lod("train", *args).stdout)
        assert report["test_accuracy"] == report["training_accuracy"] != 0.5
        args = [f"{name}.lod.h5", "--weights", "ordered.safetensors", "--epochs", "0", "--json"]
        again = json.loads(lod("train", *args).stdout)
        assert again["training_accuracy"] == report["training_accuracy"]
    io.write("more.lod.h5", {**items, "label": LoDTensor.from_lists([*words[:-1], "zero"])})
    for args in (
        ["ordered.lod.h5", "--test", "more.lod.h5", "-o", "m"],
        ["more.lod.h5", "--weights", "ordered.safetensors", "--epochs", "0"],
    ):
        done = lod("train", *args)
        assert (done.code, done.stdout) == (1, "")
        assert "more.lod.h5: labels, position 39: expected a class of " in done.stderr
        assert "(above, below), found 'zero'" in done.stderr
    done = lod("train", signs, "--test", "text.lod.h5", "-o", "m")
    assert "text.lod.h5: labels: expected numbers as in " in done.stderr


def test_a_saved_model_says_which_cell_it_has(lod: Lod, signs: Path) -> None:
    # The arrays of a gru_paddle have the names of a gru's: only the metadata distinguishes them.
    args = ["--cell", "gru_paddle", "--epochs", "1", "--hidden", "3"]
    assert lod("train", signs, "-o", "m.safetensors", *args).code == 0
    assert "gru_paddle" in lod("weights", "m.safetensors").stdout
    for name, more in (("a", []), ("b", ["--cell", "gru_paddle"])):
        args = ["--weights", "m.safetensors", "-o", f"{name}.npz", *more]
        assert lod("run-rnn", signs, *args).code == 0
    assert np.array_equal(tensor("a.npz").data, tensor("b.npz").data)
    assert lod("train", signs, "--weights", "m.safetensors", "--epochs", "0").code == 0


def test_the_types_of_the_options_are_those_of_the_command() -> None:
    names = {option.name for option in command.params if option.expose_value}
    assert names - {"source", "from_format"} == TrainOptions.__annotations__.keys()
