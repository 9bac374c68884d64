"""`lod run-rnn`: options to weights, batches to batches."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
import safetensors.numpy

from lodcli.commands.run_rnn.command import command
from lodcli.commands.run_rnn.given import RunOptions
from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.engine.amx.availability import amx_problem
from lodcli.kernels.rnn.stack.run import run_rnn
from lodcli.kernels.rnn.stack.stack import RNNWeights, seeded_weights
from lodcli.kernels.rnn.stack.state_dict import state_dict
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import NO_MARKS, Decimals, Marks
from lodcli.shell import device, options
from tests.lodcli.conftest import Lod, articles, tensor

# float32, sums of a handful of products, in another order.
TOLERANCE = 1e-6
GRU = ("--cell", "gru", "--hidden", "1", "--seed", "0")


def weights(cell: str = "lstm", **more: int) -> RNNWeights:
    return seeded_weights(cell, 2, 3, rng=np.random.default_rng(7), layers=more.get("layers", 1))


@pytest.mark.parametrize("cell", CELLS)
def test_seeded_weights_give_the_states_of_the_kernel(lod: Lod, folder: Path, cell: str) -> None:
    args = ["--cell", cell, "--hidden", "3", "--seed", "7", "--emit", "both"]
    done = lod("run-rnn", "words.lod.h5", "-o", "out.lod.h5", *args)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    expected = run_rnn(articles(), weights(cell))
    for name, wanted in (("all", expected.all), ("last", expected.last)):
        found = tensor("out.lod.h5", name)
        np.testing.assert_allclose(found.data, wanted.data, rtol=0, atol=TOLERANCE)
        assert found.lod == wanted.lod


@pytest.mark.parametrize(
    ("emit", "lengths", "rows"),
    [("all", [[3, 1, 2], [3, 2, 4, 1, 2, 3]], 15), ("last", [[3, 1, 2]], 6)],
)
def test_emit_chooses_rows(
    lod: Lod, folder: Path, emit: str, lengths: list[list[int]], rows: int
) -> None:
    args = ["--cell", "gru", "--hidden", "4", "--seed", "1", "--emit", emit]
    assert lod("run-rnn", "words.lod.h5", "-o", "out.lod.h5", *args).code == 0
    found = tensor("out.lod.h5")
    assert (found.rows, found.row_shape) == (rows, (4,))
    assert found.recursive_sequence_lengths() == lengths


def test_an_upper_level_runs_over_whole_articles(lod: Lod, folder: Path) -> None:
    args = ["--cell", "gru", "--hidden", "3", "--seed", "7", "--emit", "last"]
    assert lod("run-rnn", "words.lod.h5", "-o", "o.npz", *args, "--level", "article").code == 0
    expected = run_rnn(articles(), weights("gru"), level=0).last
    found = tensor("o.npz")
    assert found.lod.n_levels == 0
    np.testing.assert_allclose(found.data, expected.data, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    "more", [[*GRU, "--emit", "both"], [*GRU, "--grad"], ["--step", "model:step"]]
)
def test_decimals_are_computed_with_their_values(lod: Lod, folder: Path, more: list[str]) -> None:
    Path("model.py").write_text("def step(inputs, memory):\n    return inputs, memory\n")
    digits, marks = np.array([150, 275, 12345678901234567]), Marks(unit=Decimals(18, 2))
    for name, rows in (("decimals", digits), ("floats", digits / 100)):
        kept = marks if name == "decimals" else NO_MARKS
        io.write(f"{name}.lod.h5", LoDTensor(rows, [[2, 1]], marks=kept))
        io.write(f"{name}_h0.lod.h5", LoDTensor(rows[:2].reshape(2, 1), marks=kept))
        args = [*more, "--h0", f"{name}_h0.lod.h5"]
        assert lod("run-rnn", f"{name}.lod.h5", "-o", f"{name}.npz", *args).code == 0
    assert Path("decimals.npz").read_bytes() == Path("floats.npz").read_bytes()


def test_reverse_runs_from_the_last_row_to_the_first(lod: Lod, folder: Path) -> None:
    args = ["--cell", "gru", "--hidden", "3", "--seed", "7"]
    assert lod("run-rnn", "words.lod.h5", "-o", "out.npz", *args, "--reverse").code == 0
    expected = run_rnn(articles(), weights("gru"), reverse=True).all
    np.testing.assert_allclose(tensor("out.npz").data, expected.data, rtol=0, atol=TOLERANCE)
    assert lod("run-rnn", "words.lod.h5", "-o", "there.npz", *args).code == 0
    assert not np.allclose(tensor("there.npz").data, expected.data, rtol=0, atol=1e-3)


def test_trained_weights_come_from_safetensors(lod: Lod, folder: Path) -> None:
    entries = {f"rnn.{name}": array for name, array in state_dict(weights(layers=2)).items()}
    safetensors.numpy.save_file(entries, "model.safetensors")
    done = lod("run-rnn", "words.lod.h5", "-o", "out.npz", "--weights", "model.safetensors")
    assert (done.code, done.complaints) == (0, "")
    expected = run_rnn(articles(), weights(layers=2)).all
    np.testing.assert_allclose(tensor("out.npz").data, expected.data, rtol=0, atol=TOLERANCE)


def test_results_do_not_depend_on_the_batches(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    states = np.random.default_rng(3).standard_normal((6, 3)).astype("f4")
    io.write("h0.npz", LoDTensor(states))
    io.write("c0.npz", LoDTensor(states[::-1] * 2))
    args = ["--cell", "lstm", "--hidden", "3", "--seed", "7", "--h0", "h0.npz", "--c0", "c0.npz"]
    assert lod("run-rnn", "words.lod.h5", "-o", "whole.npz", *args).code == 0
    seen = _one_article_a_batch(monkeypatch)
    assert lod("run-rnn", "words.lod.h5", "-o", "parts.npz", *args).code == 0
    assert len(seen) == 3
    np.testing.assert_allclose(
        tensor("parts.npz").data, tensor("whole.npz").data, rtol=0, atol=TOLERANCE
    )
    expected = run_rnn(
        articles(), weights(), initial_hidden=states, initial_cell=states[::-1] * 2
    ).all
    np.testing.assert_allclose(tensor("whole.npz").data, expected.data, rtol=0, atol=TOLERANCE)


def _one_article_a_batch(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Have words.lod.h5 read in the smallest batches there can be; return a list that they join."""
    source = type(_open_kind())
    whole = source.batches_of
    seen: list[Any] = []

    def small(self: base.Source, names: Iterable[str], limit_bytes: int = 1) -> Any:
        for batch in whole(self, names, 1):
            item = batch["data"]
            if isinstance(item, LoDTensor) and item.lod.n_levels:  # not h0.npz and c0.npz
                seen.append(batch)
            yield batch

    monkeypatch.setattr(source, "batches_of", small)
    return seen


def _open_kind() -> base.Source:
    with io.open_file("words.lod.h5") as file:
        return file.source


@pytest.mark.parametrize("rows", [5, 7])
def test_initial_states_must_be_one_a_sequence(lod: Lod, folder: Path, rows: int) -> None:
    io.write("h0.npz", LoDTensor(np.zeros((rows, 3), "f4")))
    io.write("c0.npz", LoDTensor(np.zeros((6, 3), "f4")))
    args = ["--cell", "lstm", "--hidden", "3", "--seed", "1", "--h0", "h0.npz", "--c0", "c0.npz"]
    done = lod("run-rnn", "words.lod.h5", "-o", "out.npz", *args)
    assert done.code == 1
    assert f"lod run-rnn: words.lod.h5: --h0 h0.npz has {rows} rows" in done.stderr
    assert sorted(path.name for path in folder.iterdir() if "out" in path.name) == []


def test_initial_states_of_many_layers_have_an_axis_for_them(lod: Lod, folder: Path) -> None:
    states = np.random.default_rng(3).standard_normal((6, 2, 3)).astype("f4")
    io.write("h0.npz", LoDTensor(states))
    args = ["--cell", "gru", "--hidden", "3", "--seed", "7", "--layers", "2", "--h0", "h0.npz"]
    assert lod("run-rnn", "words.lod.h5", "-o", "out.npz", *args).code == 0
    expected = run_rnn(
        articles(), weights("gru", layers=2), initial_hidden=states.swapaxes(0, 1)
    ).all
    np.testing.assert_allclose(tensor("out.npz").data, expected.data, rtol=0, atol=TOLERANCE)


def test_the_arithmetic_can_be_chosen(lod: Lod, folder: Path) -> None:
    args = ["--cell", "gru", "--hidden", "3", "--seed", "1", "--dtype", "float64"]
    assert lod("run-rnn", "words.lod.h5", "-o", "out.npz", *args).code == 0
    assert tensor("out.npz").dtype == np.float64


def test_an_elman_cell_takes_its_nonlinearity_and_others_refuse_it(lod: Lod, folder: Path) -> None:
    args = ["--hidden", "3", "--seed", "1", "--nonlinearity", "relu", "-o", "out.npz"]
    assert lod("run-rnn", "words.lod.h5", "--cell", "elman", *args).code == 0
    assert tensor("out.npz").data.min() >= 0
    assert lod("run-rnn", "words.lod.h5", "--cell", "gru", *args, "-f").code == 4


def test_heads_divide_the_hidden_size_of_cells_that_have_them(lod: Lod, folder: Path) -> None:
    args = ["words.lod.h5", "--hidden", "6", "--seed", "7", "--emit", "last", "-o", "o.npz"]
    assert lod("run-rnn", *args, "--cell", "rglru", "--heads", "3").code == 0
    rng = np.random.default_rng(7)
    wanted = run_rnn(articles(), seeded_weights("rglru", 2, 6, heads=3, rng=rng)).last
    np.testing.assert_allclose(tensor("o.npz").data, wanted.data, rtol=0, atol=TOLERANCE)
    assert lod("run-rnn", *args, "-f", "--cell", "slstm", "--heads", "2").code == 0
    rng = np.random.default_rng(7)
    wanted = run_rnn(articles(), seeded_weights("slstm", 2, 6, heads=2, rng=rng)).last
    np.testing.assert_allclose(tensor("o.npz").data, wanted.data, rtol=0, atol=TOLERANCE)
    for cell, heads, code, said in (
        ("slstm", "4", 2, "divisor of 6 values, found 4"),
        ("gru", "2", 4, "cell gru: has no heads"),
    ):
        done = lod("run-rnn", *args, "-f", "--cell", cell, "--heads", heads)
        assert done.code == code
        assert said in done.stderr


def test_initial_cell_states_of_a_cell_without_them_are_unsupported(lod: Lod, folder: Path) -> None:
    io.write("c0.npz", LoDTensor(np.zeros((6, 3), "f4")))
    args = ["--cell", "gru", "--hidden", "3", "--seed", "1", "--c0", "c0.npz", "-o", "o.npz"]
    done = lod("run-rnn", "words.lod.h5", *args)
    assert (done.code, done.stdout) == (4, "")
    assert done.stderr.endswith("initial cell: a cell of kind gru has no cell state\n")


def test_an_output_that_is_no_state_cannot_be_booted(lod: Lod, folder: Path) -> None:
    nested = ["--nested", "article:gru:4/sentence:lru:4:boot", "--seed", "1"]
    done = lod("run-rnn", "words.lod.h5", "-o", "o.npz", *nested)
    assert done.code == 2
    assert ": sentence: boot sets the hidden state; this lru continues" in done.stderr
    nested[1] = "article:gru:4/sentence:lru:3"
    assert lod("run-rnn", "words.lod.h5", "-o", "o.npz", *nested).code == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--cell", "gru", "--hidden", "3"], "either --seed N"),
        (["--seed", "1", "--weights", "w.safetensors"], "either --seed N"),
        (["--seed", "1", "--cell", "gru"], "--seed needs --cell and --hidden"),
        (["--seed", "1", "--cell", "gru", "--hidden", "0"], "--hidden"),
        (["--seed", "1", "--cell", "gru", "--hidden", "3", "--level", "x"], "no level named 'x'"),
        (["--weights", "w.safetensors", "--heads", "2"], "--heads is for --seed"),
        (
            ["--seed", "1", "--cell", "gru", "--hidden", "3", "--precision", "tf32"],
            "--precision tf32 needs --device cuda",
        ),
        (["--step", "m:f", "--precision", "tf32", "--device", "cuda"], "--step does not take"),
        (["--nested", "article:gru:3", "--seed", "1", "--reverse"], "--nested defines the reverse"),
        (["--nested", "article:lstm:3", "--seed", "1", "--coupled"], "--nested does not take"),
        (
            ["--nested", "article:elman:3", "--seed", "1", "--nonlinearity", "relu"],
            "--nested does not take --nonlinearity",
        ),
    ],
)
def test_options_that_leave_something_open_are_usage_errors(
    lod: Lod, folder: Path, args: list[str], said: str
) -> None:
    done = lod("run-rnn", "words.lod.h5", "-o", "out.npz", *args)
    assert done.code == 2
    assert said in done.stderr


def test_reverse_of_bidirectional_weights_names_the_option(lod: Lod, folder: Path) -> None:
    options = "--cell gru --hidden 3 --seed 1 --bidirectional --reverse -o out.npz"
    done = lod("run-rnn", "words.lod.h5", *options.split())
    assert done.code == 4
    assert ": --reverse: these weights are bidirectional" in done.stderr
    assert done.stderr.endswith("; leave it out\n")


@pytest.mark.skipif(amx_problem() is not None, reason=f"needs AMX: {amx_problem()}")
def test_precision_bfloat16_rounds_on_the_cpu(lod: Lod, folder: Path) -> None:
    found = {}
    for precision in ("float32", "bfloat16"):
        options = f"--cell lstm --hidden 40 --seed 1 --dtype float32 --precision {precision}"
        assert lod("run-rnn", "words.lod.h5", *options.split(), "-o", f"{precision}.npz").code == 0
        found[precision] = tensor(f"{precision}.npz").data
    assert found["bfloat16"].dtype == np.float32
    assert 0 < np.abs(found["bfloat16"] - found["float32"]).max() < 1e-2


def test_a_precision_of_float32_for_float64_is_an_error(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "require_amx", lambda: None)
    options = "--cell lstm --hidden 4 --seed 1 --dtype float64 --precision bfloat16 -o out.npz"
    done = lod("run-rnn", "words.lod.h5", *options.split())
    assert done.code != 0
    assert "rounds products of float32, and this is computed in float64" in done.stderr
    assert not Path("out.npz").exists()


def test_precision_bfloat16_without_amx_is_an_error_and_writes_nothing(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOD_NATIVE", "off")
    options = "--cell lstm --hidden 4 --seed 1 --dtype float32 --precision bfloat16 -o out.npz"
    done = lod("run-rnn", "words.lod.h5", *options.split())
    assert done.code == 4
    assert "needs AMX: no compiled kernels: LOD_NATIVE=off; use float32, or a GPU" in done.stderr
    assert not Path("out.npz").exists()
    assert lod("run-rnn", "gone.lod.h5", *options.split()).stderr == done.stderr


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"PK\x03\x04 a zip of something", 1, "the zip directory"),
        (b"\x80\x02 a pickle", 4, "safetensors.torch.save_file"),
        (b"", 1, "is empty; expected weights"),
        (b"not weights at all", 1, "is not a weights file"),
        (b"\x10\x00\x00\x00\x00\x00\x00\x00{ broken", 1, "the header: claims 16 bytes"),
    ],
)
def test_files_that_are_no_weights_are_refused(
    lod: Lod, folder: Path, content: bytes, code: int, said: str
) -> None:
    Path("w.pt").write_bytes(content)
    done = lod("run-rnn", "words.lod.h5", "-o", "out.npz", "--weights", "w.pt")
    assert done.code == code
    assert said in done.stderr
    assert "w.pt" in done.stderr


def test_weights_in_bfloat16_are_read_exactly(folder: Path) -> None:
    import ml_dtypes

    from lodcli.formats.weights import read_weights

    # 1.5 and -2 in bfloat16; the file is made by hand, for safetensors' own layout is known.
    header = b'{"w":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}'
    values = np.array([1.5, -2.0], ml_dtypes.bfloat16)
    content = len(header).to_bytes(8, "little") + header + values.tobytes()
    Path("w.safetensors").write_bytes(content)
    found = read_weights("w.safetensors")
    assert found["w"].dtype == np.float32
    assert found["w"].tolist() == [1.5, -2.0]


def test_a_tensor_without_levels_is_refused(lod: Lod, folder: Path) -> None:
    io.write("plain.npz", LoDTensor(np.zeros((3, 2), "f4"), LoD()))
    args = ["--cell", "gru", "--hidden", "3", "--seed", "1", "-o", "out.npz"]
    done = lod("run-rnn", "plain.npz", *args)
    assert done.code == 1
    assert "at least one level" in done.stderr


@pytest.mark.parametrize(
    ("how", "count"),
    [
        (["--cell", "gru", "--hidden", "3"], 2),
        (["--nested", "article:gru:3/sentence:gru:3"], 4),
    ],
)
def test_weights_are_put_in_order_once_for_all_batches(
    lod: Lod, folder: Path, monkeypatch: pytest.MonkeyPatch, how: list[str], count: int
) -> None:
    pytest.importorskip("numba")
    from lodcli.kernels.rnn.engine.native import packing

    monkeypatch.setattr("lodcli.kernels.rnn.engine.engine.COMPILED_WORK", 0)
    seen, packed = _one_article_a_batch(monkeypatch), packing._pack_transposed
    widths = []

    class Counted(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            def call(first: int, last: int, weight: Any, *rest: Any) -> int:
                widths.append(rest[3])
                return packed[key].call(first, last, weight, *rest)

            return SimpleNamespace(call=call)

    monkeypatch.setattr(packing, "_pack_transposed", Counted())
    # The weights are made in float32, the arithmetic is in float64.
    args = [*how, "--seed", "7", "--dtype", "float64", "-o", "out.lod.h5"]
    assert lod("run-rnn", "words.lod.h5", *args).code == 0
    assert len(seen) == 3
    assert len([width for width in widths if width > 1]) == count  # biases are one wide


@click.command()
@options.source
@options.target
@options.shard_jobs
def shared(**given: object) -> None:
    """Take the options that other commands have as well."""


def test_the_types_of_the_options_are_those_of_the_command() -> None:
    names, others = (
        {option.name for option in one.params if option.expose_value} for one in (command, shared)
    )
    assert names - others == RunOptions.__annotations__.keys()
