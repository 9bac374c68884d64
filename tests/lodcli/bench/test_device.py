"""`lod bench --device cuda`, small: every candidate computes the same as ours in main memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.bench.cases import KERNEL_CASES, RNN_CASES, custom_case
from lodcli.bench.errors import DisagreementError
from lodcli.bench.harness import Effort
from lodcli.bench.kernels import kernel_task
from lodcli.bench.lengths import parse_lengths
from lodcli.bench.machine import NotEnoughMemoryError
from lodcli.bench.ops import BENCH_OPS
from lodcli.bench.peer_set import PeerSet, chosen_peers
from lodcli.bench.rnn import ON_PADDED, rnn_task
from lodcli.bench.runner import run_task
from tests.lodcli.conftest import Lod

cupy: Any = pytest.importorskip("cupy", reason="the cupy package is not installed")
pytestmark = pytest.mark.gpu

QUICK = Effort(rounds=1, least_rounds=1, budget_seconds=600, most_rounds=1, sample_seconds=1e-6)


def small_case(features: int) -> Any:
    return custom_case(
        KERNEL_CASES["G2"],
        rows=200,
        features=features,
        sequences=None,
        hidden=None,
        lengths=parse_lengths("lognormal:9,1,0.1"),
        seed=1,
    )


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a machine's limits only the way to them is tried."""
    monkeypatch.setattr("lodcli.bench.gpu_cupy.GEMM_SIZES", (64,))
    monkeypatch.setattr("lodcli.bench.gpu_cupy.TRIES", 1)


@pytest.fixture(scope="module")
def peers() -> PeerSet:
    return PeerSet("kernels", chosen_peers("kernels", None, "cuda"), 1, {}, "cuda")


@pytest.mark.parametrize("op", BENCH_OPS)
def test_every_op_runs_on_the_device_and_agrees(op: str, peers: PeerSet) -> None:
    task = kernel_task(op, small_case(5), peers)
    assert task.title.endswith(" on cuda")
    found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    ours = [row for row in found["rows"] if row["ours"]]
    assert {row["device"] for row in found["rows"]} == {"cuda"}
    assert {row["limit"] for row in found["rows"]} == {"copy"}
    assert all(row["fraction_of_limit"] > 0 for row in ours)
    assert all(len(row["limit_times"]) == 1 for row in ours)
    if op not in ("cumsum", "max_index"):
        assert "cupy" in {row["library"] for row in found["rows"]}


@pytest.mark.parametrize(
    ("cell", "which"), [("lstm", "training"), ("gru", "forward"), ("elman", "forward")]
)
def test_every_cell_runs_on_the_device_and_agrees(cell: str, which: str) -> None:
    case = custom_case(
        RNN_CASES["e"],
        rows=60,
        features=5,
        sequences=7,
        hidden=6,
        lengths=parse_lengths("uniform:1,20"),
        seed=2,
    )
    with PeerSet("rnn", chosen_peers("rnn", None, "cuda"), 1, {}, "cuda") as others:
        found = run_task(rnn_task(cell, which, case, others), QUICK, threads=1)
    assert not found["skipped"]
    assert [row["label"] for row in found["rows"][:2]] == ["", ON_PADDED]
    assert {(row["device"], row["limit"]) for row in found["rows"]} == {("cuda", "gemm")}


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodcli.kernels.on_cupy.reverse.move_runs", lambda *_, **__: None)
    alone = PeerSet("kernels", [], 1, {}, "cuda")
    with pytest.raises(DisagreementError, match="lod in main memory computed different things"):
        run_task(kernel_task("reverse", small_case(2), alone), QUICK, threads=1)


def test_what_does_not_fit_the_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (1000, 10**9))
    alone = PeerSet("kernels", [], 1, {}, "cuda")
    with pytest.raises(NotEnoughMemoryError, match=r"kernels sum custom needs about .* on the GPU"):
        kernel_task("sum", small_case(2), alone)


def test_the_command_gives_a_report(lod: Lod, tmp_path: Path) -> None:
    report = tmp_path / "gpu.json"
    words = "--op sum,reverse --rows 300 --features 2 --against cupy --rounds 1 --budget 0"
    done = lod("bench", "kernels", *words.split(), "--device", "cuda", "-o", str(report), "--json")
    assert (done.code, done.stderr) == (0, "")
    found = json.loads(report.read_bytes())
    assert found["results"] == json.loads(done.stdout)["results"]
    assert {row["device"] for row in found["results"]} == {"cuda"}
    assert {row["library"] for row in found["results"]} == {"lod", "cupy"}
    assert set(found["limits"]) == {"cuda"}
    assert found["limits"]["cuda"]["copy"] > 0
    assert found["machine"]["gpu"]
    assert {"cupy", "CUDA", "CUDA driver"} <= set(found["versions"])
    best = [row for row in found["results"] if row["ours"]]
    assert all(np.isfinite(row["ratio_to_best_peer"]) for row in best)


def test_what_no_gpu_takes_part_in_is_refused(lod: Lod) -> None:
    done = lod("bench", "io", "--device", "cuda")
    assert (done.code, done.stdout) == (4, "")
    assert "on a GPU there are kernels and rnn to measure" in done.stderr
    done = lod("bench", "kernels", "--device", "cuda", "--against", "numpy")
    assert done.code == 2
    assert "no such peer of kernels on a GPU; there are: torch" in done.stderr
