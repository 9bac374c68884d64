"""lod apply --device cuda: the same files as on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times
from tests.lodcli.conftest import Lod, tensors

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

# A device adds in another order.
TOLERANCE = 1e-12


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng, index = np.random.default_rng(0), LoD.from_lengths([[2, 1], [3, 0, 2]])
    io.write(tmp_path / "x.lod.h5", LoDTensor(rng.normal(size=(5, 2)), index))
    io.write(tmp_path / "ids.lod.h5", LoDTensor(np.array([3, 1, 3, 2, 1]), index))
    io.write(tmp_path / "weight.lod.h5", LoDTensor(rng.normal(size=(4, 3))))
    io.write(tmp_path / "lengths.lod.h5", LoDTensor(np.array([1, 0, 2])))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        "sum x.lod.h5",
        "softmax x.lod.h5 --then reverse --then last",
        "conv x.lod.h5 --weight weight.lod.h5 --context-length 2 --context-start 0 --level -1",
        "layer_norm x.lod.h5 --weight 2,3 --then pad --level -1 --pad-value 7",
        "concat x.lod.h5 x.lod.h5 --then cumsum --then mean --level 0",
        "topk x.lod.h5 --k 1,0,2",
        "slice x.lod.h5 --offset lengths.lod.h5 --length 0,0,0 --level -1",
        "erase ids.lod.h5 --tokens 3 --then unique",
        "attention x.lod.h5 x.lod.h5 x.lod.h5 --causal",
        "rank_table x.lod.h5",
        "max_sequence_len table.lod.h5",
        "interleave x.lod.h5 x.lod.h5",
        "to_steps x.lod.h5 --table table.lod.h5",
        "unpad boxes.lod.h5 --lengths 2,1",
        "mask lengths.lod.h5",
    ],
)
def test_a_gpu_gives_the_same_files(lod: Lod, folder: Path, words: str) -> None:
    io.write(folder / "table.lod.h5", LoDTensor(np.array([[0, 2], [1, 1]])))
    io.write(folder / "boxes.lod.h5", LoDTensor(np.arange(12.0).reshape(2, 3, 2)))
    found = []
    for device in ("cpu", "cuda"):
        done = lod("apply", *words.split(), "--device", device, "-o", f"{device}.npz")
        assert (done.code, done.complaints) == (0, "")
        found.append(tensors(folder / f"{device}.npz"))
    wanted, found_there = found
    assert wanted.keys() == found_there.keys()
    for name, tensor in wanted.items():
        there = found_there[name]
        assert there.lod == tensor.lod
        np.testing.assert_allclose(there.data, tensor.data, rtol=TOLERANCE, atol=TOLERANCE)


def test_times_that_become_null_before_an_op_are_refused_on_a_gpu(lod: Lod, folder: Path) -> None:
    waits = LoDTensor(np.array([4, 6, 8]), [[2, 1]], marks=Marks(unit=Times("duration", "s")))
    io.write("waits.lod.h5", waits)
    args = ("waits.lod.h5", "--device", "cuda", "-o", "out.npz")
    done = lod("apply", "first(data / 0)", *args)
    assert done.code > 0
    assert "column 1: a tensor on a GPU holds no nulls; fill or drop them first" in done.stderr
    assert lod("apply", "mean(data / 2)", *args).code == 0


@pytest.mark.parametrize("text", ["a == b", "a < b", "c != a", "a in tags", "first(c) == d"])
def test_texts_are_compared_on_a_gpu(lod: Lod, folder: Path, text: str) -> None:
    found: dict[str, list[Any]] = {"a": ["x", "é"], "b": ["x", "y"], "tags": [["x"], ["y", "é"]]}
    tensors = {name: LoDTensor.from_lists(texts) for name, texts in found.items()}
    tensors["c"] = LoDTensor(np.array([1, 0, 1]), [[1, 2]]).as_categories(["y", "x"])
    tensors["d"] = LoDTensor(np.array([2, 0])).as_categories(["é", "y", "x"])
    io.write("texts.lod.h5", tensors)
    for device in ("cpu", "cuda"):
        assert lod(
            "apply", text, "texts.lod.h5", "--device", device, "-o", f"{device}.lod.h5"
        ).clean
    assert io.read("cuda.lod.h5").identical(io.read("cpu.lod.h5"))


@pytest.mark.parametrize(
    "text",
    [
        *("mean(x)", "x - mean(x)", "reverse(x - max(x))", "mean(x) - n", "n - mean(x)"),
        *("coalesce(mean(x), 0) + n", "mean(mean(d))", "x if x > 0 else n", "x if n > 1 else 0"),
        *("x if x > 0 else None", "mean(x if x > 0 else None)", "1 if x > 0 else 2", "not x"),
        *("floor(t, 'P1M')", "floor(t, 'PT1H') if n > 1 else t", "date(t)", "length(tags)"),
        *("first(tags)", "'a' if x > 0 else 'b'", "tags if n > 1 else 'b'", "x if True else n"),
        *("coalesce(n, 0.5)", "n if n > 1 else 0.5"),
        *("round(x, 1)", "round(mean(x), 1)", "weekday(t) + hour(t)", "month(t)", "day(t)"),
        *("lower(tags)", "tags + 'A'", "chars(tags)", "contains(tags, 'x')", "split(tags, 'x')"),
        *("maximum(x, n, 1)", "any(split(tags, 'x') == '')"),
    ],
)
def test_nulls_and_choices_are_those_of_the_cpu(lod: Lod, folder: Path, text: str) -> None:
    """A sequence is empty, and a GPU has no nulls."""
    seconds = np.array([10**9, 0, -5])
    content = {
        "x": LoDTensor.from_lists([[1.5, -2.0], [], [3.0]]),
        "d": LoDTensor.from_lists([[[1.5], []], [], [[3.0]]]),
        "n": LoDTensor(np.arange(3)),
        "t": LoDTensor(seconds, marks=Marks(unit=Times("timestamp", "s"))),
        "tags": LoDTensor.from_lists([["x", "é"], [], [""]]),
    }
    io.write("in.lod.h5", content)
    for device in ("cpu", "cuda"):
        assert lod("apply", text, "in.lod.h5", "--device", device, "-o", f"{device}.lod.h5").clean
    assert io.read("cuda.lod.h5").identical(io.read("cpu.lod.h5"))


def test_a_backend_of_main_memory_is_refused(lod: Lod, folder: Path) -> None:
    line = "apply sum x.lod.h5 --then reverse --backend numba --device cuda -o y.npz"
    done = lod(*line.split())
    assert done.code == 2
    assert "--backend numba computes in main memory; it goes with --device cpu" in done.stderr


def test_a_gpu_that_is_not_there_is_unsupported(lod: Lod, folder: Path) -> None:
    done = lod("apply", "sum", "x.lod.h5", "--device", "cuda:99", "-o", "y.npz")
    assert done.code == 4
    assert "--device no GPU cuda:99; there is cuda:0; or use --device cpu" in done.stderr
    assert not (folder / "y.npz").exists()
