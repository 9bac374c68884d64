"""`lod train --embedding`, and `lod run-rnn` with the model: against torch, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.formats.weights import read_weights
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.shell import opened
from tests.lodcli.conftest import Lod, tensor

NAME = "embedding.weight"
ARGS = ("--embedding", "3", "--hidden", "4", "--batch", "8", "--lr", "0.1")
# float32, two dozen steps, against another library: the bound that is promised.
TOLERANCE = 1e-5


def ids_and_labels(seed: int = 0) -> tuple[LoDTensor, LoDTensor]:
    """Return sequences of ids below 9 whose class is whether the last id is odd."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 6, 24)
    ids = rng.integers(0, 9, int(lengths.sum()))
    ids[0] = 8
    labels = ids[np.cumsum(lengths) - 1] % 2
    return LoDTensor(ids, [lengths]), LoDTensor(labels)


@pytest.fixture
def tokens(folder: Path) -> Path:
    ids, labels = ids_and_labels()
    io.write(folder / "tokens.lod.h5", {"ids": ids, "label": labels})
    return folder / "tokens.lod.h5"


@pytest.fixture
def model(lod: Lod, tokens: Path) -> str:
    assert lod("train", tokens, "-o", "m", "--epochs", "8", "--cell", "gru", *ARGS).clean
    return "m"


def test_a_model_of_ids_is_that_of_a_torch_module(lod: Lod, tokens: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    args = (*ARGS, "--epochs", "12", "--bidirectional", "--vocabulary", "11", "--json")
    done = lod("train", tokens, "-o", "m", "--test", tokens, *args)
    report = json.loads(done.stdout)
    assert (report["vocabulary"], report["classes"]) == (11, 2)
    assert report["test_accuracy"] == report["training_accuracy"] > 0.9
    module = torch.nn.Module()
    module.embedding = torch.nn.Embedding(11, 3)
    module.rnn = torch.nn.LSTM(3, 4, bidirectional=True)
    module.out = torch.nn.Linear(8, 2)
    module.load_state_dict(load_file("m"))
    ids, labels = (io.read(tokens, name) for name in ("ids", "label"))
    states, right = [], 0
    for part, label in zip(ids, labels.data, strict=True):
        _, (hidden, _) = module.rnn(module.embedding(torch.from_numpy(part.data)))
        states.append(hidden.reshape(-1).detach().numpy())
        right += int(module.out(hidden.reshape(-1)).argmax()) == label
    assert right == round(report["training_accuracy"] * 24)
    assert (
        lod("run-rnn", f"{tokens}::ids", "--weights", "m", "--emit", "last", "-o", "o.npz").code
        == 0
    )
    np.testing.assert_allclose(tensor("o.npz").data, states, rtol=0, atol=TOLERANCE)
    again = lod("train", tokens, "--weights", "m", "--epochs", "0", "--json")
    assert json.loads(again.stdout)["training_accuracy"] == report["training_accuracy"]


@pytest.mark.parametrize("more", [[], ["--checkpoint", "2"], ["--reverse", "--emit", "last"]])
def test_gradients_of_many_batches_are_torchs(
    lod: Lod, tokens: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    torch.manual_seed(0)
    module = torch.nn.Module()
    module.embedding = torch.nn.Embedding(10, 3, dtype=torch.float64)
    module.rnn = torch.nn.GRU(3, 4, dtype=torch.float64)
    save_file(module.state_dict(), "m.safetensors")
    total: Any = 0
    for part in io.read(tokens, "ids"):
        ids = part.data[::-1].copy() if "--reverse" in more else part.data
        outputs, last = module.rnn(module.embedding(torch.from_numpy(ids)))
        total += last.sum() if "last" in more else outputs.sum()
    total.backward()
    # Batches of a few sequences, though ids are small and the rows looked up are not.
    monkeypatch.setattr(opened, "COMPUTED_BYTES", 500)
    monkeypatch.setattr(base, "BATCH_BYTES", 500)
    args = ("--weights", "m.safetensors", "--grad", "-o", "g.npz", *more)
    assert lod("run-rnn", f"{tokens}::ids", *args).clean
    for name, wanted in (
        (NAME, module.embedding.weight),
        ("weight_ih_l0", module.rnn.weight_ih_l0),
    ):
        found = tensor("g.npz", name).data
        # float64, the sums in another order.
        np.testing.assert_allclose(found, wanted.grad.numpy(), rtol=0, atol=1e-12, err_msg=name)
    assert tensor("g.npz", "input").data.shape[1] == 3


def test_ids_are_looked_up_a_batch_at_a_time(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.commands.run_rnn import runners

    rng = np.random.default_rng(0)
    ids = LoDTensor(rng.integers(0, 200, 6000).astype(np.uint8), [[20] * 300])
    io.write("bytes.lod.h5", ids)
    table = rng.normal(size=(200, 16)).astype(np.float32)
    arrays = {"rnn.weight_ih_l0": (12, 16), "rnn.weight_hh_l0": (12, 4)}
    named = {name: rng.normal(size=shape).astype(np.float32) for name, shape in arrays.items()}
    safetensors.numpy.save_file({NAME: table, **named}, "m.safetensors")
    largest = 0

    def embed(ids: Any, table: Any) -> Any:
        nonlocal largest
        largest = max(largest, len(ids))
        return table[ids]

    monkeypatch.setattr(runners, "embed", embed)
    args = ("--weights", "m.safetensors", "--cell", "gru", "--emit", "last", "-f", "-o", "o.npz")
    assert lod("run-rnn", "bytes.lod.h5", *args).code == 0
    whole = tensor("o.npz").data
    assert largest == 6000
    # The rows looked up are 64 times as large as the ids.
    largest = 0
    monkeypatch.setattr(opened, "COMPUTED_BYTES", 64 * 1000)
    assert lod("run-rnn", "bytes.lod.h5", *args).code == 0
    assert 0 < largest <= 1000
    # Products of other sizes, in float32.
    np.testing.assert_allclose(tensor("o.npz").data, whole, rtol=0, atol=1e-6)


def test_nested_rnns_look_ids_up(lod: Lod, folder: Path) -> None:
    rng = np.random.default_rng(0)
    shapes = {
        NAME: (16, 3),
        **{"sentence.weight_ih_l0": (12, 3), "sentence.weight_hh_l0": (12, 4)},
        **{"article.weight_ih_l0": (15, 4), "article.weight_hh_l0": (15, 5)},
    }
    arrays = {name: rng.normal(size=shape) for name, shape in shapes.items()}
    safetensors.numpy.save_file(arrays, "m.safetensors")
    index = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], names=["article", "sentence"])
    io.write("ids.lod.h5", LoDTensor(np.arange(15), index))
    io.write("rows.lod.h5", LoDTensor(arrays.pop(NAME)[:15], index))
    safetensors.numpy.save_file(arrays, "alone.safetensors")
    nested = ("--nested", "article:gru/sentence:gru", "--emit", "both")
    for name, weights in (("ids", "m"), ("rows", "alone")):
        args = ("--weights", f"{weights}.safetensors", *nested)
        done = lod("run-rnn", f"{name}.lod.h5", *args, "-o", f"{name}.npz")
        assert (done.code, done.complaints) == (0, "")
    for part in ("article", "sentence", "last"):
        np.testing.assert_array_equal(tensor("ids.npz", part).data, tensor("rows.npz", part).data)


@pytest.mark.parametrize("cell", ["lstm", "minlstm"])
def test_a_training_of_ids_continues_with_the_same_bits(lod: Lod, tokens: Path, cell: str) -> None:
    args = (*ARGS, "--cell", cell, "--dropout", "0.2", "--epochs", "6", "-f")
    assert lod("train", tokens, "-o", "whole", *args).code == 0
    for until in ("2", "6"):
        assert lod("train", tokens, "-o", "m", "--state", "s", "--until", until, *args).code == 0
    assert Path("m").read_bytes() == Path("whole").read_bytes()
    other = lod("train", tokens, "-o", "m", "--state", "s", *args, "--embedding", "5")
    assert other.stderr.startswith(
        "lod train: s: is the state of another model: last.embedding.weight: expected shape (9, 5)"
    )


def test_training_goes_on_from_a_model_with_its_embedding(
    lod: Lod, tokens: Path, model: str
) -> None:
    done = lod("train", tokens, "-o", "n", "--weights", model, "--epochs", "1", "--lr", "1e-9")
    assert done.code == 0
    before, after = (read_weights(path)[NAME] for path in (model, "n"))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-7)


def test_text_has_256_ids(lod: Lod, folder: Path) -> None:
    texts = LoDTensor.from_lists(["good", "bad", "fine", "poor"] * 3)
    io.write("texts.lod.h5", {"text": texts, "label": LoDTensor(np.array([1, 0, 1, 0] * 3))})
    report = lod("train", "texts.lod.h5", "-o", "m", "--epochs", "9", *ARGS, "--json")
    assert json.loads(report.stdout)["vocabulary"] == 256
    umlauts = LoDTensor.from_lists(["grün"])
    io.write("more.lod.h5", {"text": umlauts, "label": LoDTensor([1])})
    assert lod("train", "more.lod.h5", "--weights", "m", "--epochs", "0").code == 0
    assert lod("run-rnn", "more.lod.h5::text", "--weights", "m", "-o", "o.npz").code == 0
    assert tensor("o.npz").data.shape == (5, 4)


def test_categories_are_the_same_ids_in_another_order(lod: Lod, folder: Path) -> None:
    ids, labels = ids_and_labels()
    words = [f"w{number}" for number in range(9)]
    order = np.random.default_rng(1).permutation(9)
    files = {
        "one": ids.as_categories(words),
        "two": ids.with_data(np.argsort(order)[ids.data]).as_categories([words[i] for i in order]),
        "new": ids.as_categories([*words[:8], "other"]),
        "more": ids.as_categories([*words, "unused"]),
    }
    for name, data in files.items():
        io.write(f"{name}.lod.h5", {"ids": data, "label": labels})
    args = ("--test", "two.lod.h5", "--epochs", "12", "--json", *ARGS)
    report = json.loads(lod("train", "one.lod.h5", "-o", "m", *args).stdout)
    assert report["vocabulary"] == 9
    assert report["test_accuracy"] == report["training_accuracy"] > 0.9
    for name in ("two", "more"):
        scored = lod("train", f"{name}.lod.h5", "--weights", "m", "--epochs", "0", "--json")
        assert json.loads(scored.stdout)["training_accuracy"] == report["training_accuracy"]
    for name in ("one", "two", "more"):
        assert (
            lod("run-rnn", f"{name}.lod.h5::ids", "--weights", "m", "-o", f"{name}.npz").code == 0
        )
    for name in ("two", "more"):
        np.testing.assert_array_equal(tensor("one.npz").data, tensor(f"{name}.npz").data)
    said = "new.lod.h5: ids: category 8 is 'other', which the embedding does not have"
    for command in (
        ("train", "new.lod.h5", "--weights", "m", "--epochs", "0"),
        ("run-rnn", "new.lod.h5::ids", "--weights", "m", "-o", "new.npz"),
    ):
        done = lod(*command)
        assert (done.code, done.stdout) == (1, "")
        assert said in done.stderr
    io.write("plain.lod.h5", {"ids": ids, "label": labels})
    done = lod("train", "plain.lod.h5", "--test", "two.lod.h5", "-o", "n", *ARGS)
    said = "two.lod.h5: ids: expected ids without words as in plain.lod.h5, found categories"
    assert (done.code, said in done.stderr) == (1, True)


def test_a_state_with_other_words_is_refused(lod: Lod, folder: Path) -> None:
    ids, labels = ids_and_labels()
    words = [f"w{number}" for number in range(9)]
    named = labels.as_categories(["even", "odd"])
    for name, data, classes in (
        ("one", ids.as_categories(words), named),
        ("two", ids.as_categories(words[::-1]), named),
        ("three", ids.as_categories(words), labels.as_categories(["no", "yes"])),
    ):
        io.write(f"{name}.lod.h5", {"ids": data, "label": classes})
    args = (*ARGS, "--epochs", "2", "--state", "s", "-f")
    assert lod("train", "one.lod.h5", "-o", "m", *args).code == 0
    for name in ("two", "three"):
        done = lod("train", f"{name}.lod.h5", "-o", "m", *args)
        assert "s: is the state of a training with other examples" in done.stderr


def test_a_model_is_read_from_a_pipe_too(lod: Lod, shell: Lod, tokens: Path, model: str) -> None:
    again = lod("train", tokens, "--weights", model, "--epochs", "0").stdout
    done = shell(f"cat {model} | lod train {tokens} --weights - --epochs 0")
    assert (done.code, done.stdout, done.stderr) == (0, again, "")
    assert shell(f"cat {model} | lod run-rnn {tokens}::ids --weights - --emit last -o o.npz").clean


def test_whole_numbers_without_an_embedding_are_noted(lod: Lod, tokens: Path) -> None:
    done = lod("train", tokens, "-o", "m", "--epochs", "1", "--hidden", "2")
    assert done.code == 0
    assert done.stderr.endswith(
        "ids: whole numbers are taken as values; --embedding D takes them as ids\n"
    )
    # A model without an embedding says what it takes.
    assert lod("train", tokens, "--weights", "m", "--epochs", "0").stderr == ""


@pytest.mark.parametrize("value", [9, -1, 1 << 40])
def test_an_id_that_the_embedding_lacks_is_named(
    lod: Lod, tokens: Path, model: str, monkeypatch: pytest.MonkeyPatch, value: int
) -> None:
    monkeypatch.setattr(opened, "COMPUTED_BYTES", 100)  # batches of a sequence or two
    ids, labels = ids_and_labels(seed=3)
    rows = ids.data.copy()
    rows[ids.lod.levels[0][5]] = value
    io.write("far.lod.h5", {"ids": ids.with_data(rows), "label": labels})
    said = f"sequence 5, position 0: expected an id from 0 to 8, found {value}: the embedding has 9"
    for command in (
        ("train", "far.lod.h5", "--weights", model, "--epochs", "0"),
        ("train", "far.lod.h5", "--weights", model, "-o", "n"),
        ("train", tokens, "--test", "far.lod.h5", "-o", "n", *ARGS),
        ("run-rnn", "far.lod.h5::ids", "--weights", model, "-o", "o.npz"),
    ):
        done = lod(*command)
        assert (done.code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"lod {command[0]}: far.lod.h5: ids: {said}")
        assert not Path("n").exists()
        assert not Path("o.npz").exists()


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--vocabulary", "9"], 2, "--vocabulary is for --embedding D"),
        ([*ARGS, "--vocabulary", "8"], 1, "expected an id from 0 to 7, found 8"),
        ([*ARGS, "--vocabulary", str(10**12)], 1, f"tokens.lod.h5: ids: an embedding of {10**12}"),
        ([*ARGS, "--weights", "m"], 2, "m: has no embedding.weight; leave --embedding out"),
    ],
)
def test_options_that_do_not_fit_the_tokens_are_refused(
    lod: Lod, tokens: Path, args: list[str], code: int, said: str
) -> None:
    assert lod("train", tokens, "-o", "m", "--epochs", "1", "--hidden", "2").code == 0
    done = lod("train", tokens.name, "-o", "n", *args)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr
    assert not Path("n").exists()


def test_rows_and_ids_are_told_apart(lod: Lod, tokens: Path, model: str) -> None:
    ids, labels = ids_and_labels()
    rows = ids.with_data(np.ones((ids.rows, 3), np.float32))
    io.write("rows.lod.h5", {"rows": rows, "label": labels})
    assert lod("weights", model, "-o", "alone.safetensors").code == 0
    assert (
        lod("run-rnn", "rows.lod.h5::rows", "--weights", "alone.safetensors", "-o", "o.npz").code
        == 0
    )
    expected = "rows.lod.h5: rows: expected ids, one whole number a row, for "
    for command, said in (
        (
            ("run-rnn", "rows.lod.h5::rows", "--weights", model, "-o", "p.npz"),
            f"{expected}embedding.weight of m; found rows of shape (3,) of float32; for other "
            "rows, lod weights m -o RNN.safetensors writes the RNN alone\n",
        ),
        (("train", "rows.lod.h5", "--weights", model, "--epochs", "0"), expected),
        (("train", "rows.lod.h5", "-o", "n", *ARGS), f"{expected}--embedding"),
        (
            ("run-rnn", f"{tokens}::ids", "--weights", "alone.safetensors", "-o", "p.npz"),
            f"{tokens}: ids: expected rows of 3 values for alone.safetensors, found one whole "
            "number a row; for ids the model needs embedding.weight, as lod train --embedding "
            "makes\n",
        ),
    ):
        done = lod(*command)
        assert (done.code, done.stdout) == (1, "")
        assert f"lod {command[0]}: {said}" in done.stderr
    arrays = safetensors.numpy.load_file(model)
    arrays["emb.weight"] = arrays.pop(NAME)
    safetensors.numpy.save_file(arrays, "other.safetensors")
    done = lod("run-rnn", f"{tokens}::ids", "--weights", "other.safetensors", "-o", "p.npz")
    assert done.code == 1
    remedy = f"rename FILE emb.weight={NAME} -o NEW.safetensors"
    assert f"makes; if emb is that layer, lod {remedy}\n" in done.stderr
    shape = {**safetensors.numpy.load_file(model), NAME: np.ones((9, 4), np.float32)}
    safetensors.numpy.save_file(shape, "odd.safetensors")
    done = lod("run-rnn", f"{tokens}::ids", "--weights", "odd.safetensors", "-o", "p.npz")
    said = "odd.safetensors: embedding.weight: expected (ids, 3), found (9, 4)"
    assert (done.code, said in done.stderr) == (1, True)


def test_the_memory_of_training_counts_every_copy_of_the_table(lod: Lod, tokens: Path) -> None:
    # 640 KB: the budget holds the table, but not its gradient, moments and copies as well.
    args = (tokens, "-o", "m", "--embedding", "16", "--vocabulary", "10000", "--epochs", "1")
    done = lod("train", *args, "--memory", "4M")
    assert done.code == 1
    assert (
        "tokens.lod.h5: ids: an embedding of 10000 ids (numbered from 0) and 16 values: "
        "640000 bytes, of which memory holds up to 12 copies; the budget is 4M, --memory 8M is "
        "enough\n"
    ) in done.stderr
    assert lod("train", *args, "--memory", "8M").code == 0
