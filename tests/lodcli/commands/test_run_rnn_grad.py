"""`lod run-rnn --grad` against torch, batch by batch, and larger input in constant memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.commands.run_rnn.nested_spec import parse_nested
from lodcli.formats.core import format as base
from lodcli.formats.core import io
from lodcli.kernels.rnn.nested.backward import nested_backward
from lodcli.kernels.rnn.nested.run import run_nested
from lodcli.kernels.rnn.nested.state_dict import nested_state_dict, seeded_nested
from lodcli.kernels.runtime.buffers import UNMARKED_BYTES
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.hanging import HANG_SECONDS
from tests.lodcli.conftest import Lod, articles, environment, tensor

# float64, a dozen steps; the promise of the gradients.
TOLERANCE = 1e-10
SENTENCES = [3, 2, 4, 1, 2, 3]


@pytest.fixture
def double(folder: Path) -> LoDTensor:
    """words64.lod.h5, the example in float64, small enough not to saturate."""
    made = articles().with_data(articles().data.astype(np.float64) / 30)
    io.write(folder / "words64.lod.h5", made)
    return made


def torch_run(double: LoDTensor, torch: Any, weights: str, h0: Any, c0: Any) -> tuple[Any, ...]:
    """Return leaves, outputs and last states of torch's LSTM with the weights of a file."""
    module = torch.nn.LSTM(2, 3, num_layers=2, bidirectional=True, dtype=torch.float64)
    entries = safetensors.numpy.load_file(weights)
    module.load_state_dict({name: torch.from_numpy(array) for name, array in entries.items()})
    data = torch.from_numpy(double.data.copy()).requires_grad_()
    states = [torch.from_numpy(part.copy()).requires_grad_() for part in (h0, c0)]
    outputs, lasts = [], []
    for number, rows in enumerate(torch.split(data, SENTENCES)):
        given = tuple(part[number] for part in states)
        out, (hidden, _) = module(rows, given)
        outputs.append(out)
        lasts.append(hidden[-2:].reshape(-1))
    return module, data, states, torch.cat(outputs), torch.stack(lasts)


@pytest.mark.parametrize("small", [False, True], ids=["one batch", "many batches"])
@pytest.mark.parametrize("emit", ["all", "last", "both"])
@pytest.mark.parametrize("given", [False, True], ids=["ones", "upstream"])
def test_gradients_are_torchs(
    lod: Lod,
    double: LoDTensor,
    monkeypatch: pytest.MonkeyPatch,
    emit: str,
    given: bool,
    small: bool,
) -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    start = torch.nn.LSTM(2, 3, num_layers=2, bidirectional=True, dtype=torch.float64)
    named = {name: part.detach().numpy() for name, part in start.named_parameters()}
    safetensors.numpy.save_file(named, "w.safetensors")
    rng = np.random.default_rng(0)
    h0, c0 = rng.normal(size=(2, 6, 4, 3))
    up_all, up_last = rng.normal(size=(15, 6)), rng.normal(size=(6, 6))
    io.write("h0.npz", LoDTensor(h0))
    io.write("c0.npz", LoDTensor(c0))
    both = {"all": double.with_data(up_all), "last": LoDTensor(up_last)}
    io.write("up.lod.h5", {name: both[name] for name in ("all", "last") if emit in (name, "both")})
    args = ["--weights", "w.safetensors", "--h0", "h0.npz", "--c0", "c0.npz", "--grad"]
    if given:
        args += ["--upstream", "up.lod.h5"]
    seen = _one_item_a_batch(monkeypatch) if small else []
    done = lod("run-rnn", "words64.lod.h5", "-o", "g.lod.h5", "--emit", emit, *args)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert len(seen) >= 3 * small  # the articles, and what the other option reads

    module, data, states, outputs, lasts = torch_run(double, torch, "w.safetensors", h0, c0)
    loss = torch.zeros((), dtype=torch.float64)
    for result, up, kind in ((outputs, up_all, "all"), (lasts, up_last, "last")):
        if emit in (kind, "both"):
            loss = loss + (result * torch.from_numpy(up if given else np.ones_like(up))).sum()
    loss.backward()
    found = tensor("g.lod.h5", "input")
    assert found.lod == double.lod
    np.testing.assert_allclose(found.data, data.grad.numpy(), rtol=0, atol=TOLERANCE)
    for name, part in zip(("h0", "c0"), states, strict=True):
        got = tensor("g.lod.h5", name).data
        np.testing.assert_allclose(got, part.grad.numpy(), rtol=0, atol=TOLERANCE)
    for name, parameter in module.named_parameters():
        got = tensor("g.lod.h5", name).data
        np.testing.assert_allclose(got, parameter.grad.numpy(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("row", [(3,), (1, 3)])
def test_gradients_of_a_single_state_have_its_form(
    lod: Lod, double: LoDTensor, row: tuple[int, ...]
) -> None:
    states = np.random.default_rng(0).normal(size=(6, *row))
    io.write("h0.npz", LoDTensor(states))
    io.write("c0.npz", LoDTensor(states.reshape(6, 3)))
    args = ["--cell", "lstm", "--hidden", "3", "--seed", "1", "--grad"]
    for name, more in (("given", ["--h0", "h0.npz", "--c0", "c0.npz"]), ("zeros", [])):
        assert lod("run-rnn", "words64.lod.h5", "-o", f"{name}.npz", *args, *more).code == 0
    assert tensor("given.npz", "h0").row_shape == row
    assert tensor("given.npz", "c0").row_shape == (3,)
    assert tensor("zeros.npz", "h0").row_shape == tensor("zeros.npz", "c0").row_shape == (3,)


def _one_item_a_batch(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    with io.open_file("words64.lod.h5") as file:
        kind = type(file.source)
    whole = kind.batches_of
    seen: list[object] = []

    def small(self: base.Source, names: Iterable[str], limit_bytes: int = 1) -> Any:
        for batch in whole(self, names, 1):
            seen.append(batch)
            yield batch

    monkeypatch.setattr(kind, "batches_of", small)
    return seen


def test_checkpoints_change_nothing_and_truncation_does(lod: Lod, double: LoDTensor) -> None:
    args = ["--cell", "gru", "--hidden", "3", "--layers", "2", "--seed", "1", "--grad"]
    for name, more in (
        ("whole", []),
        ("kept", ["--checkpoint", "2"]),
        ("cut", ["--truncate", "2"]),
    ):
        assert lod("run-rnn", "words64.lod.h5", "-o", f"{name}.npz", *args, *more).code == 0
    for name in ("input", "h0", "weight_hh_l0", "bias_ih_l1"):
        whole, kept, cut = (tensor(f"{n}.npz", name).data for n in ("whole", "kept", "cut"))
        np.testing.assert_allclose(kept, whole, rtol=0, atol=1e-13)
        assert not np.allclose(cut, whole)


@pytest.mark.parametrize("given", [False, True], ids=["ones", "upstream"])
def test_gradients_of_nested_rnns_are_those_of_the_kernel(
    lod: Lod, double: LoDTensor, given: bool
) -> None:
    spec = "article:gru:5/sentence:gru:3:boot"
    rng = np.random.default_rng(0)
    ups = {"article": rng.normal(size=(6, 5)), "sentence": rng.normal(size=(15, 3))}
    if not given:
        ups = {name: np.ones_like(array) for name, array in ups.items()}
    io.write("up.lod.h5", {name: LoDTensor(array) for name, array in ups.items()})
    args = ["--nested", spec, "--seed", "7", "--grad", *(["--upstream", "up.lod.h5"] * given)]
    done = lod("run-rnn", "words64.lod.h5", "-o", "g.npz", *args)
    assert (done.code, done.complaints) == (0, "")
    rnn = seeded_nested(parse_nested(spec), 2, rng=np.random.default_rng(7))
    tape = run_nested(double, rnn, keep=True).tape
    assert tape is not None
    wanted = nested_backward(tape, grad_states=(ups["article"], ups["sentence"]))
    named = nested_state_dict(wanted.levels, ["article", "sentence"])
    named |= {"input": wanted.input, "h0": wanted.initial_hidden[0]}
    for name, array in named.items():
        np.testing.assert_allclose(tensor("g.npz", name).data, array, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["--upstream", "words.lod.h5"], 2, "--upstream is for --grad"),
        (["--checkpoint", "2"], 2, "--checkpoint is for --grad"),
        (["--grad", "--upstream", "words.lod.h5"], 1, "expected rows of shape (3,) for all"),
        (["--grad", "--upstream", "words.lod.h5", "--emit", "last"], 1, "shape (3,) for last"),
        (["--grad", "--upstream", "gone.npz"], 3, "gone.npz: no such file"),
        (["--grad", "--truncate", "0"], 2, "--truncate"),
    ],
)
def test_invalid_arguments_are_errors(
    lod: Lod, folder: Path, args: list[str], code: int, said: str
) -> None:
    base_args = ["--cell", "gru", "--hidden", "3", "--seed", "1", "-o", "g.npz"]
    done = lod("run-rnn", "words.lod.h5", *base_args, *args)
    assert (done.code, done.stdout) == (code, "")
    assert said in done.stderr
    assert not Path("g.npz").exists()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["words.lod.h5", "--cell", "gru", "--grad", "--upstream", "complex.npz"], "--upstream"),
        (["complex.npz", "--cell", "gru"], "complex.npz: data"),
        (["complex.npz", "--cell", "mingru"], "complex.npz: data"),
    ],
)
def test_complex_numbers_are_a_wrong_use(
    lod: Lod, folder: Path, args: list[str], said: str
) -> None:
    io.write("complex.npz", LoDTensor(np.ones((15, 3), np.complex64), [[15]]))
    done = lod("run-rnn", *args, "--hidden", "3", "--seed", "1", "-o", "g.npz")
    assert (done.code, done.stdout) == (2, "")
    assert f"{said}: expected real numbers, found complex64" in done.stderr


@pytest.mark.slow
def test_input_larger_than_a_batch_takes_no_more_memory(folder: Path) -> None:
    # A stream of few or of many batches; the reader, the RNN and the writer hold one or two.
    made = """
import sys
import numpy as np
from lodcli.formats.core import io
from lodcli.formats.core.schema import LevelSpec, TensorSpec
from lodcli.kernels.tensor.lod_tensor import LoDTensor

data = np.zeros((8192, 64), np.float32)
part = LoDTensor(data, [[16] * 512])
spec = TensorSpec("data", data.dtype, (64,), (LevelSpec("0", None, None),), None)
io.write_batches("-", (spec,), ({"data": part} for _ in range(int(sys.argv[1]))))
"""
    run = """
import resource, subprocess, sys
line = [*sys.argv[1:]]
subprocess.run(line, check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
    peaks = []
    for batches in ("10", "60"):
        source = subprocess.Popen(
            [sys.executable, "-c", made, batches],
            stdout=subprocess.PIPE,
            env=environment(),
            cwd=folder,
        )
        line = ["lod", "run-rnn", "-", "--cell", "lstm", "--hidden", "32", "--seed", "1"]
        done = subprocess.run(
            [sys.executable, "-c", run, *line],
            stdin=source.stdout,
            env=environment(OPENBLAS_NUM_THREADS="1"),
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=HANG_SECONDS,
        )
        assert source.stdout is not None
        source.stdout.close()
        assert source.wait() == 0
        peaks.append(int(done.stdout))
    # 20 MB and 126 MB of rows; kilobytes of peak memory, 10 % for what allocators do, and what is
    # kept for the next results.
    assert peaks[1] < peaks[0] * 1.1 + UNMARKED_BYTES / 1000
