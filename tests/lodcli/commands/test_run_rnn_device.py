"""lod run-rnn --device cuda: the same files as on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from lodcli.formats.core import io
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod, tensor, tensors

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

STEP = """
import numpy as np

def smooth(inputs, memory):
    assert type(inputs).__module__.startswith("cupy")
    memory = inputs if memory is None else 0.5 * memory + 0.5 * inputs
    return memory, memory
"""
# Sums of a few float32 products in another order.
TOLERANCE = 1e-5


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lod: Lod) -> Path:
    rng = np.random.default_rng(0)
    io.write(tmp_path / "h0.lod.h5", LoDTensor(rng.normal(size=(3, 4)).astype(np.float32)))
    for name, prefixes in (("ids", ["rnn"]), ("levels", ["article", "sentence"])):
        arrays = {"embedding.weight": rng.normal(size=(16, 3)).astype(np.float32)}
        for number, prefix in enumerate(reversed(prefixes)):
            shapes = {"weight_ih_l0": (12, 4 if number else 3), "weight_hh_l0": (12, 4)}
            for key, shape in shapes.items():
                arrays[f"{prefix}.{key}"] = rng.normal(size=shape).astype(np.float32)
        arrays["out.weight"] = rng.normal(size=(2, 4)).astype(np.float32)
        arrays["out.bias"] = np.zeros(2, np.float32)
        safetensors.numpy.save_file(arrays, tmp_path / f"{name}.safetensors")
    (tmp_path / "model_on_device.py").write_text(STEP)
    (tmp_path / "words.jsonl").write_text("[[1,2,3],[4,5],[6,7,8,9]]\n[[10]]\n[[11,12],[13]]\n")
    monkeypatch.chdir(tmp_path)
    names = "article,sentence"
    assert lod("convert", "words.jsonl", "words.lod.h5", "--levels", names).code == 0
    return tmp_path


@pytest.mark.parametrize(
    "options",
    [
        "--cell lstm --hidden 4 --layers 2 --bidirectional --seed 1 --emit both",
        "--cell gru --hidden 4 --seed 1 --level article --h0 h0.lod.h5 --emit last",
        "--cell gru_paddle --hidden 4 --seed 1 --reverse --stats",
        "--cell lstm --coupled --hidden 4 --seed 1 --grad --emit both",
        "--cell gru --hidden 4 --seed 1 --grad --checkpoint 2",
        "--nested article:gru:4/sentence:lstm:3:boot --seed 1 --emit both",
        "--nested article:gru:4/sentence:lstm:3:boot --seed 1 --emit both --grad",
        "--nested article:lstm:4/sentence:elman:3:bidirectional --seed 1 --grad",
        "--nested article:gru:4/sentence:gru:4:boot --seed 1 --emit both --grad",
        "--weights ids.safetensors --cell gru --emit both",
        "--weights ids.safetensors --cell gru --grad --dtype float64",
        "--weights ids.safetensors --cell gru --emit class",
        "--weights ids.safetensors --cell gru --emit scores --level article",
        "--weights levels.safetensors --nested article:gru/sentence:gru --grad",
        "--step model_on_device:smooth --emit both --dtype float64",
    ],
)
def test_a_gpu_gives_the_same_files(lod: Lod, folder: Path, options: str) -> None:
    for device in ("cpu", "cuda"):
        if device == "cpu" and "--step" in options:
            text = STEP.replace('"cupy"', '"numpy"')
            (folder / "model_on_host.py").write_text(text)
            chosen = options.replace("on_device", "on_host")
        else:
            chosen = options
        done = lod(
            "run-rnn", "words.lod.h5", *chosen.split(), "--device", device, "-o", f"{device}.npz"
        )
        assert done.code == 0, done.stderr
    found, wanted = (tensors(f"{device}.npz") for device in ("cuda", "cpu"))
    assert found.keys() == wanted.keys()
    for name, one in wanted.items():
        there = found[name]
        assert there.lod == one.lod
        assert there.dtype == one.dtype
        np.testing.assert_allclose(
            there.data, one.data, rtol=TOLERANCE, atol=TOLERANCE, err_msg=name
        )


def test_a_gpu_that_is_not_there_is_reported(lod: Lod, folder: Path) -> None:
    args = ["words.lod.h5", "--cell", "gru", "--hidden", "3", "--seed", "1", "-o", "o.npz"]
    done = lod("run-rnn", *args, "--device", "cuda:99")
    assert done.code == 4
    assert "no GPU cuda:99; there is cuda:0" in done.stderr
    assert not (folder / "o.npz").exists()


def test_products_are_rounded_where_that_is_asked_for(lod: Lod, folder: Path) -> None:
    found = {}
    for precision in ("float32", "tf32", "bfloat16"):
        options = f"--cell lstm --hidden 4 --seed 1 --device cuda --precision {precision}"
        assert lod("run-rnn", "words.lod.h5", *options.split(), "-o", f"{precision}.npz").code == 0
        rows = tensor(f"{precision}.npz").data
        assert rows.dtype == np.float32
        found[precision] = rows
    errors = [np.abs(found[name] - found["float32"]).max() for name in ("tf32", "bfloat16")]
    assert 0 < errors[0] < 4e-3
    assert errors[0] < errors[1] < 4e-2
