"""lod train --device cuda: the model that the CPU makes, but for the order of sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.core import io
from lodcli.formats.weights import read_weights
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.lodcli.conftest import Lod

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "options",
    [
        "--cell lstm --dropout 0.2",
        "--cell gru --pool mean",
        "--cell gru --bidirectional --embedding 3 --vocabulary 8",
        "--cell gru --labels value --standardize",
    ],
)
def test_a_gpu_makes_the_same_model(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 12)
    rows = rng.normal(size=(lengths.sum(), 3)).astype(np.float32)
    if "--embedding" in options:
        rows = rng.integers(0, 7, lengths.sum())
    labels, values = LoDTensor(np.arange(12) % 3), LoDTensor(rng.normal(size=(12, 2)))
    items = {"rows": LoDTensor(rows, [lengths.tolist()]), "label": labels, "value": values}
    io.write("some.lod.h5", items)
    reports = {}
    for device in ("cpu", "cuda"):
        chosen = f"--hidden 4 --epochs 2 --batch 5 --seed 1 --json --device {device} {options}"
        args = ("some.lod.h5::rows", "-o", f"{device}.safetensors", "--test", "some.lod.h5::rows")
        done = lod("train", *args, *chosen.split())
        assert done.code == 0, done.stderr
        reports[device] = json.loads(done.stdout)
    # Two epochs of Adam: what differs in the seventh digit may differ in the fifth.
    assert reports["cuda"]["loss"] == pytest.approx(reports["cpu"]["loss"], rel=1e-4)
    found, wanted = (read_weights(f"{device}.safetensors") for device in ("cuda", "cpu"))
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=2e-4, err_msg=name)
