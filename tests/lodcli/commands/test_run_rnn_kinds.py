"""`lod run-rnn --nested` and `--step`: results and options."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from lodcli.commands.run_rnn.nested_spec import parse_nested
from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicRNN
from lodcli.kernels.rnn.nested.run import run_nested
from lodcli.kernels.rnn.nested.state_dict import nested_state_dict, seeded_nested
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod, articles, environment, tensor
from tests.slow import one_in

# float32, sums of a handful of products, in another order.
TOLERANCE = 1e-6
BOOTED = "article:gru:5/sentence:lstm:3:layers=2:boot"

STEP = """
import numpy as np

RATE = 0.5

def step(inputs, memory):
    memory = inputs * 0 if memory is None else memory
    memory = memory + RATE * (inputs - memory)
    return memory * 2, memory

def two(inputs, memory):
    a, b = memory if memory is not None else (inputs[:, 0], inputs[:, 1])
    return inputs, (a + 1, b)

def forgetful(inputs, memory):
    return inputs, None

def sentences(inputs, memory):
    return inputs.lod.lengths(0).astype("f8"), None

class Deep:
    @staticmethod
    def broken(inputs, memory):
        return inputs / len(missing), memory

def exits(inputs, memory):
    raise SystemExit(7)

constant = 3
"""


@pytest.fixture
def model(folder: Path) -> Path:
    path = folder / "model.py"
    path.write_text(STEP)
    return path


def check(found: LoDTensor, wanted: LoDTensor) -> None:
    assert found.lod == wanted.lod
    np.testing.assert_allclose(found.data, wanted.data, rtol=0, atol=TOLERANCE)


# -- nested --------------------------------------------------------------------------


def test_nested_rnns_give_a_tensor_for_each_level(lod: Lod, folder: Path) -> None:
    args = ["--nested", BOOTED, "--seed", "7", "--emit", "both"]
    done = lod("run-rnn", "words.lod.h5", "-o", "out.lod.h5", *args)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    rnn = seeded_nested(parse_nested(BOOTED), 2, rng=np.random.default_rng(7))
    wanted = run_nested(articles(), rnn)
    for name, expected in zip(("article", "sentence"), wanted.states, strict=True):
        check(tensor("out.lod.h5", name), expected)
    check(tensor("out.lod.h5", "last"), wanted.last)


def test_a_level_called_last_is_not_mixed_up_with_the_last_states(lod: Lod, folder: Path) -> None:
    words = articles()
    io.write("last.lod.h5", LoDTensor(words.data, words.lod.with_names(["last", "sentence"])))
    args = ["--nested", "last:gru:3/sentence:gru:2", "--seed", "7", "-o", "out.npz"]
    done = lod("run-rnn", "last.lod.h5", *args, "--emit", "both")
    assert (done.code, done.stdout) == (2, "")
    assert "name the level by its number" in done.stderr
    assert lod("run-rnn", "last.lod.h5", *args, "--emit", "all").code == 0


def test_nested_weights_come_from_a_file_whose_prefixes_are_the_levels(
    lod: Lod, folder: Path
) -> None:
    rnn = seeded_nested(parse_nested(BOOTED), 2, rng=np.random.default_rng(3))
    entries = nested_state_dict(rnn.levels, ["article", "sentence"])
    entries["out.weight"] = np.zeros((2, 2), np.float32)
    safetensors.numpy.save_file(entries, "w.safetensors")
    spec = "article / sentence:boot"
    args = ["--nested", spec, "--weights", "w.safetensors", "--emit", "last"]
    assert lod("run-rnn", "words.lod.h5", "-o", "out.npz", *args).code == 0
    check(tensor("out.npz"), run_nested(articles(), rnn).last)


def test_three_levels_by_number_and_an_initial_state(lod: Lod, folder: Path) -> None:
    lod_of_3 = LoD.from_lengths([[2, 1], [3, 1, 2], [3, 2, 4, 1, 2, 3]])
    data = LoDTensor(articles().data, lod_of_3)
    states = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    io.write("three.lod.h5", data)
    io.write("h0.npz", LoDTensor(states))
    spec = "0:gru:4/1:gru:3:boot:reverse/2:elman:5:bidirectional:boot"
    args = ["--nested", spec, "--seed", "1", "--h0", "h0.npz", "--emit", "last"]
    assert lod("run-rnn", "three.lod.h5", "-o", "out.npz", *args).code == 0
    rnn = seeded_nested(parse_nested(spec), 2, rng=np.random.default_rng(1))
    check(tensor("out.npz"), run_nested(data, rnn, initial_hidden=states[np.newaxis]).last)


def test_nested_rnns_do_not_depend_on_the_batches(lod: Lod, folder: Path) -> None:
    # Far more than one batch's bytes, so that a pipe cuts it.
    lengths = np.random.default_rng(0).integers(0, 4, 30_000)
    inner = np.random.default_rng(1).integers(1, 5, int(lengths.sum()))
    data = np.random.default_rng(2).normal(size=(int(inner.sum()), 96)).astype(np.float32)
    io.write("big.lod.h5", LoDTensor(data, LoD.from_lengths([lengths, inner])))
    assert data.nbytes > 33 << 20
    spec = "0:gru:2/1:gru:2:boot"
    args = ["--nested", spec, "--seed", "1", "--emit", "last"]
    assert lod("run-rnn", "big.lod.h5", "-o", "out.npz", *args).code == 0
    rnn = seeded_nested(parse_nested(spec), 96, rng=np.random.default_rng(1))
    part = slice(29_000, 30_000)
    wanted = run_nested(tensor("big.lod.h5")[part], rnn).last
    np.testing.assert_allclose(tensor("out.npz").data[part], wanted.data, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("article:gru:5/sentence:gru:x", "'x' is not a cell, a hidden size or an option"),
        ("article:gru:5:gru", "article: cell appears twice"),
        ("/sentence:gru:3", "an RNN begins with its level"),
        ("article:gru:5:layers=0", "'layers=0' is not a cell"),
        ("article:gru", "rnn: --nested article:gru: article: needs a cell and a hidden size"),
        ("sentence:gru:5/article:gru:3", "from the outermost down"),
        ("article:gru:5/page:gru:3", "no level named 'page'"),
        ("article:gru:5:boot", "boots from the RNN above, but is the outermost"),
        ("article:gru:5:bidirectional/sentence:gru:3:boot", "which is bidirectional"),
    ],
)
def test_a_wrong_spec_is_reported(lod: Lod, folder: Path, spec: str, said: str) -> None:
    done = lod("run-rnn", "words.lod.h5", "-o", "o.npz", "--nested", spec, "--seed", "1")
    assert (done.code, done.stdout) == (2, "")
    assert said in done.stderr
    assert not Path("o.npz").exists()


def test_an_error_about_the_rows_of_nested_rnns_names_their_file(lod: Lod, folder: Path) -> None:
    io.write("narrow.lod.h5", LoDTensor(np.zeros((3, 4, 0), np.float32), [[2, 1]]))
    done = lod("run-rnn", "narrow.lod.h5", "--nested", "0:gru:5", "--seed", "1", "-o", "o.npz")
    wanted = "lod run-rnn: narrow.lod.h5: input: expected a size of at least 1, found 0\n"
    assert (done.code, done.stderr) == (1, wanted)


def test_a_boot_in_the_file_that_the_spec_does_not_name_is_refused(lod: Lod, folder: Path) -> None:
    rnn = seeded_nested(parse_nested(BOOTED), 2, rng=np.random.default_rng(3))
    safetensors.numpy.save_file(nested_state_dict(rnn.levels, ["article", "sentence"]), "w")
    args = ["--nested", "article/sentence", "--weights", "w", "-o", "o.npz"]
    done = lod("run-rnn", "words.lod.h5", *args)
    assert done.code == 2
    assert "has sentence_boot.weight, but sentence does not boot" in done.stderr


# -- step ----------------------------------------------------------------------------


def test_a_step_of_ones_own_runs_from_the_shell(shell: Lod, model: Path) -> None:
    line = "lod run-rnn - --step model:step --emit both | lod convert - out.lod.h5"
    done = shell(f"cat words.lod.h5 | {line}")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    names: dict[str, object] = {}
    exec(STEP, names)
    wanted = DynamicRNN(names["step"])(articles())  # type: ignore[arg-type]
    out = model.parent / "out.lod.h5"
    check(tensor(out, "all"), wanted.all)
    assert isinstance(wanted.last, np.ndarray)
    check(tensor(out, "last"), LoDTensor(wanted.last, articles().lod.above("sentence")))


def test_a_step_starts_from_the_states_given(shell: Lod, model: Path) -> None:
    states = np.arange(12, dtype=np.float32).reshape(6, 2)
    io.write(model.parent / "h0.npz", LoDTensor(states))
    io.write(model.parent / "ones.npz", LoDTensor(np.ones(6)))
    args = "--step model:step --h0 h0.npz --reverse --emit last"
    assert shell(f"lod run-rnn words.lod.h5 {args} -o out.npz").code == 0
    names: dict[str, object] = {}
    exec(STEP, names)
    run = DynamicRNN(names["step"], reverse=True)  # type: ignore[arg-type]
    wanted = run(articles(), states).last
    np.testing.assert_allclose(tensor(model.parent / "out.npz").data, np.asarray(wanted))
    args = "--step model:two --h0 ones.npz --c0 ones.npz --emit last"
    assert shell(f"lod run-rnn words.lod.h5 {args} -o two.npz").code == 0
    assert tensor(model.parent / "two.npz", "last0").data.tolist() == [4, 3, 5, 2, 3, 4]
    assert tensor(model.parent / "two.npz", "last1").data.tolist() == [1] * 6


def test_a_step_edited_within_a_second_is_read_again(shell: Lod, model: Path) -> None:
    for factor in (2, 3):
        model.write_text(f"def step(x, memory): return x * {factor}, memory")
        os.utime(model, (0, 0))  # the time by which Python knows bytecode to be a file's
        command = f"lod run-rnn words.lod.h5 --step model:step -o out{factor}.npz"
        assert shell(command, PYTHONDONTWRITEBYTECODE="").code == 0
    two, three = (tensor(model.parent / f"out{factor}.npz").data for factor in (2, 3))
    np.testing.assert_allclose(three, two * 1.5, rtol=TOLERANCE)
    assert not (model.parent / "__pycache__").exists()


def test_a_second_command_of_a_process_reads_the_step_of_its_folder(lod: Lod, model: Path) -> None:
    for factor in (2, 3):
        model.write_text(f"def step(x, memory): return x * {factor}, memory")
        out = f"out{factor}.npz"
        assert lod("run-rnn", "words.lod.h5", "--step", "model:step", "-o", out).code == 0
    two, three = (tensor(model.parent / f"out{factor}.npz").data for factor in (2, 3))
    np.testing.assert_allclose(three, two * 1.5, rtol=TOLERANCE)


def test_a_step_over_an_upper_level_gets_whole_items(shell: Lod, model: Path) -> None:
    args = "--step model:sentences --level article"
    assert shell(f"lod run-rnn words.lod.h5 {args} -o out.lod.h5").code == 0
    found = tensor(model.parent / "out.lod.h5")
    assert found.data.tolist() == [3, 2, 4, 1, 2, 3]
    assert found.recursive_sequence_lengths() == [[3, 1, 2]]


@pytest.mark.parametrize(
    ("step", "code", "said"),
    one_in(
        3,
        [
            (
                "model:Deep.broken",
                1,
                "--step model:Deep.broken: NameError: name 'missing' is not defined "
                "(model.py, line 24: return inputs / len(missing), memory)",
            ),
            ("model:forgetful --emit last", 1, "the step returns no memory"),
            ("model:nothing", 2, "model has no function called 'nothing'"),
            ("model:constant", 2, "model has a int, no function called 'constant'"),
            ("gone:step", 2, "no module 'gone' in the current folder or installed"),
            ("model", 2, "expected MODULE:FUNCTION"),
            ("bad:step", 1, "--step bad:step: SyntaxError: "),
            ("needy:step", 1, "--step needy:step: ModuleNotFoundError: No module named 'gone'"),
            ("model:step --cell gru", 2, "--step does not take --cell"),
            ("model:step --grad", 2, "lod computes no gradients of a --step: leave --grad out"),
            ("model:step --upstream words.lod.h5", 2, "--upstream is for --grad"),
            ("model:step --nested a:gru:3", 2, "either --nested or --step"),
        ],
    ),
)
def test_a_step_that_fails_is_reported_in_one_line(
    shell: Lod, model: Path, step: str, code: int, said: str
) -> None:
    (model.parent / "bad.py").write_text("def step(:\n")
    (model.parent / "needy.py").write_text("import gone\n")
    done = shell(f"lod run-rnn words.lod.h5 --step {step} -o out.npz")
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (model.parent / "out.npz").exists()


@pytest.mark.parametrize(
    "args",
    [["--step", "os:nothing"], ["--step", "gone:step"], ["--nested", "0:gru:x", "--seed", "1"]],
)
def test_an_error_in_a_step_or_a_spec_does_not_name_the_source(
    lod: Lod, folder: Path, args: list[str]
) -> None:
    done = lod("run-rnn", "words.lod.h5", "-o", "o.npz", *args)
    assert done.code == 2
    assert done.stderr.startswith(f"lod run-rnn: {args[0]} ")


def test_the_whole_traceback_is_there_for_those_who_ask(shell: Lod, model: Path) -> None:
    done = shell("lod run-rnn words.lod.h5 --step model:Deep.broken -o o.npz", LOD_DEBUG="1")
    assert done.code == 1
    assert "Traceback" in done.stderr
    assert "model.py" in done.stderr


def test_an_installed_lod_finds_the_module_in_the_folder_it_runs_in(model: Path) -> None:
    done = subprocess.run(
        ["lod", "run-rnn", "words.lod.h5", "--step", "model:step", "--to", "jsonl"],
        cwd=model.parent,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=HANG_SECONDS,
    )
    assert done.stdout.count(b"\n") == 3


# -- both kinds, and the plain one ---------------------------------------------------


@pytest.mark.parametrize(
    "args",
    ["--cell gru --hidden 3 --seed 1", "--nested article:gru:3/sentence:gru:2 --seed 1"],
)
def test_stats_tell_the_work_and_what_padding_adds(shell: Lod, folder: Path, args: str) -> None:
    done = shell(f"lod run-rnn words.lod.h5 {args} --stats --emit last -o out.npz")
    assert done.code == 0
    lines = done.complaints.splitlines()
    # 6 sentences of up to 4 words; with articles, 3 more of up to 3 sentences.
    if "nested" in args:
        assert lines[0] == (
            "lod run-rnn: 3 sequences of up to 3 steps, 6 sequences of up to 4 steps: "
            "21 steps useful, 33 if padded (1.57 times as many)"
        )
        # By hand: 6 steps of 2*(9*2 + 9*3), 15 of 2*(6*2 + 6*2) operations.
        assert lines[1].startswith("lod run-rnn: 1.26e-06 GFLOP useful, 1.96e-06 if padded; ")
    else:
        assert lines[0] == (
            "lod run-rnn: 6 sequences of up to 4 steps: 15 steps useful, 24 if padded "
            "(1.60 times as many)"
        )
        # By hand: 2*(9*2 + 9*3) = 90 a step.
        assert lines[1].startswith("lod run-rnn: 1.35e-06 GFLOP useful, 2.16e-06 if padded; ")
    assert lines[1].endswith("GFLOP/s")


def test_a_missing_device_is_reported(lod: Lod, folder: Path) -> None:
    args = ["words.lod.h5", "--cell", "gru", "--hidden", "3", "--seed", "1", "-o", "o.npz"]
    assert lod("run-rnn", *args, "--device", "cpu", "--threads", "1").code == 0
    done = lod("run-rnn", *args, "-f", "--device", "cuda:99")
    assert done.code == 4
    assert done.stderr.startswith("lod run-rnn: --device ")
    assert done.stderr.endswith("; or use --device cpu\n")
    assert lod("run-rnn", *args, "-f", "--device", "tpu").code == 2


def test_a_coupled_lstm_can_be_asked_for(lod: Lod, folder: Path) -> None:
    args = ["words.lod.h5", "--hidden", "3", "--seed", "1"]
    for name, more in (("a", ["--coupled"]), ("b", [])):
        assert lod("run-rnn", *args, "--cell", "lstm", *more, "-o", f"{name}.npz").code == 0
    assert not np.allclose(tensor("a.npz").data, tensor("b.npz").data)
    assert lod("run-rnn", *args, "--cell", "gru", "--coupled", "-o", "c.npz").code == 4
