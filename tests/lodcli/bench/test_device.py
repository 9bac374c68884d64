"""`lod bench --device cuda`, small: every candidate computes the same as ours in main memory.

So does torch, where it finds a GPU; tests/cuda/host/torch_on_gpu.py gives it one.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.bench.measure.errors import DisagreementError
from lodcli.bench.measure.machine import NotEnoughMemoryError
from lodcli.bench.measure.peer_set import PeerSet, chosen_peers
from lodcli.bench.report.text_table import notes, time_text
from lodcli.bench.runner import run_task
from lodcli.bench.suites.kernels import kernel_task
from lodcli.bench.suites.ops import BENCH_OPS
from lodcli.bench.suites.rnn import ON_FLOAT32, ON_PADDED, STEP_BY_STEP, rnn_task
from tests.benchmarks import measure
from tests.lodcli.bench.small import QUICK, small_case, small_layer
from tests.lodcli.conftest import Lod

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

ATTENTION = [op for op in BENCH_OPS if op.startswith("attention")]
# What torch does each by.
WAYS = {
    "sum": (
        *("segment_reduce", "index_add", "index_add out=", "scatter_add", "nested jagged"),
        *("embedding_bag", "csr product"),
    ),
    "mean": (
        *("segment_reduce", "index_add", "index_add out=", "nested jagged"),
        *("embedding_bag", "csr product"),
    ),
    "max": ("segment_reduce", "scatter_reduce", "scatter_reduce out=", "embedding_bag"),
    "min": ("segment_reduce", "scatter_reduce", "scatter_reduce out="),
    "softmax": ("composed", "nested jagged"),
    "log_softmax": ("composed",),
    **dict.fromkeys(ATTENTION, ("nested jagged", "padded")),
    "pad": ("pad_sequence", "nested jagged"),
    "unpad": ("mask", "index_select", "index_select out="),
    "expand": ("repeat_interleave", "index_select", "index_select out="),
    "concat": ("cat, index_select", "cat, index_select out="),
    "reverse": ("index_select", "index_select out="),
    "first": ("index_select", "index_select out="),
    "last": ("index_select", "index_select out="),
    "slice": ("index_select", "index_select out="),
    "sort_by_length": ("index_select", "index_select out="),
    "pick": ("index_select", "index_select out="),
    "add": ("add", "add out="),
    "conv": ("im2col, mm", "im2col, mm out=", "3 mm out="),
    "lstm forward": ("packed", "packing included", "padded", "4 buckets"),
    "gru forward": ("packed", "packing included", "padded", "4 buckets"),
    "elman forward": ("packed", "packing included", "padded", "4 buckets"),
    "lstm training": ("padded", "packed", "4 buckets"),
}


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small sizes: the limits of the machine are measured, but not accurately."""
    monkeypatch.setattr("lodcli.bench.measure.gpu_cupy.GEMM_SIZES", (64,))
    monkeypatch.setattr("lodcli.bench.measure.gpu_cupy.TRIES", 1)
    monkeypatch.setattr("lodcli.bench.runner.WARM_CALLS", 1)
    monkeypatch.setattr("lodcli.bench.runner.WARM_SECONDS", 0)


@pytest.fixture(scope="module")
def peers() -> PeerSet:
    return PeerSet("kernels", chosen_peers("kernels", None, "cuda"), 1, {}, "cuda")


def require_torch(op: str, peers: PeerSet, rows: Sequence[Mapping[str, Any]]) -> None:
    """Fail if torch takes part and one of its ways does not."""
    if "torch" not in peers.versions:
        return
    theirs = [row["label"] for row in rows if row["library"] == "torch"]
    assert sorted(theirs) == sorted(WAYS.get(op, ()))


@pytest.mark.parametrize("op", BENCH_OPS)
def test_every_op_runs_on_the_device_and_agrees(op: str, peers: PeerSet) -> None:
    task = kernel_task(op, small_case(5, rows=200), peers)
    assert task.title.endswith(" on cuda")
    found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    ours = [row for row in found["rows"] if row["ours"]]
    assert {row["device"] for row in found["rows"]} == {"cuda"}
    assert {row["limit"] for row in found["rows"]} == {
        "gemm" if op in ("attention", "conv") else "copy"
    }
    assert all(row["fraction_of_limit"] > 0 for row in ours)
    assert all(len(row["limit_times"]) == 1 for row in ours)
    alone = ("cumsum", "max_index", "add", "sort_by_length", "pick", "conv", "shift", "diff")
    if op not in (*alone, *ATTENTION):
        assert "cupy" in {row["library"] for row in found["rows"]}
    require_torch(op, peers, found["rows"])


@pytest.mark.parametrize(
    ("cell", "which"), [("lstm", "training"), ("gru", "forward"), ("elman", "forward")]
)
def test_every_cell_runs_on_the_device_and_agrees(cell: str, which: str) -> None:
    with PeerSet("rnn", chosen_peers("rnn", None, "cuda"), 1, {}, "cuda") as others:
        found = run_task(rnn_task(cell, which, small_layer(), others), QUICK, threads=1)
    assert not found["skipped"]
    assert [row["label"] for row in found["rows"][:3]] == ["", STEP_BY_STEP, ON_PADDED]
    assert {(row["device"], row["limit"]) for row in found["rows"]} == {("cuda", "gemm")}
    require_torch(f"{cell} {which}", others, found["rows"])
    if "torch" in others.versions:
        assert not sys.modules["torch"].backends.cudnn.allow_tf32
        assert not sys.modules["torch"].backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("precision", ["tf32", "float16", "bfloat16"])
def test_products_may_be_rounded_by_both(precision: Any) -> None:
    case = small_layer(rows=30, sequences=4)
    with PeerSet("rnn", ["torch"], 1, {}, "cuda") as peers:
        task = rnn_task("gru", "training", case, peers, precision)
        found = run_task(task, QUICK, threads=1)
    assert not found["skipped"]
    assert found["rows"][0]["parameters"]["precision"] == precision
    # So that nobody takes it for the exact one.
    assert found["rows"][0]["case"] == f"custom {precision}"
    assert {row["limit"] for row in found["rows"]} == {None}
    # Rows of two bytes, as torch's; and those of float32.
    ways = [row["label"] for row in found["rows"] if row["ours"]]
    assert ways[0] == ""
    assert (ON_FLOAT32 in ways) == (precision != "tf32")
    if "torch" in peers.versions:
        assert sys.modules["torch"].backends.cudnn.allow_tf32 == (precision == "tf32")


def test_the_way_a_layer_is_run_is_reported_with_its_times() -> None:
    alone = PeerSet("rnn", [], 1, {}, "cuda")
    row = run_task(rnn_task("lstm", "training", small_layer(), alone), QUICK, threads=1)["rows"][0]
    way = row["parameters"]["way"]
    assert "steps in one launch (" in way.split("; back: ")[0]
    assert "steps in one launch (" in way.split("; back: ")[1]
    report = {"results": [row], "machine": {"cpu": "X", "usable_cores": 1}, "versions": {}}
    (line,) = [line for line in notes(report) if "estimated" in line]
    assert line.startswith(f"lstm training custom: {way}; estimated ")
    assert line.endswith(f", measured {time_text(row['median'])}")


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lodcli.kernels.ops.slicing.reverse_cupy.move_runs", lambda *_, **__: None)
    alone = PeerSet("kernels", [], 1, {}, "cuda")
    with pytest.raises(DisagreementError, match="lod in main memory computed different results"):
        run_task(kernel_task("reverse", small_case(2, rows=200), alone), QUICK, threads=1)


def test_cases_that_do_not_fit_the_device_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cupy.cuda.runtime, "memGetInfo", lambda: (1000, 10**9))
    alone = PeerSet("kernels", [], 1, {}, "cuda")
    with pytest.raises(NotEnoughMemoryError, match=r"kernels sum custom needs about .* on the GPU"):
        kernel_task("sum", small_case(2, rows=200), alone)


def test_the_script_keeps_a_report_of_each_part_and_names_those_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = "kernels --op sum,reverse --features 2 --against cupy,torch --device cuda"
    parts = {"gpu-one": one, "gpu-two": f"{one} --sequences 1e15"}
    monkeypatch.setattr(measure, "PARTS", parts)
    monkeypatch.setattr(measure, "QUICK_ROWS", 40)
    monkeypatch.setattr(sys, "argv", ["measure", "--quick", "--folder", str(tmp_path), "gpu-*"])
    assert measure.main() == 1
    said = capsys.readouterr().out.splitlines()
    assert re.match(r" +\d+ s  gpu-one: \d+ rows", said[0])
    assert said[-1] == "failed, in whole or in part: gpu-two"
    assert "needs about" in said[1]
    assert [path.name for path in tmp_path.iterdir()] == ["gpu-one.json"]
    found = json.loads((tmp_path / "gpu-one.json").read_bytes())
    assert (found["failed"], found["skipped"]) == ({}, {})
    assert {row["device"] for row in found["results"]} == {"cuda"}
    present = {"lod", "cupy", "torch"} - found["missing"].keys()
    assert {row["library"] for row in found["results"]} == present
    assert set(found["limits"]) == {"cuda"}
    assert found["limits"]["cuda"]["copy"] > 0
    assert found["machine"]["gpu"]
    assert {"cupy", "CUDA", "CUDA driver"} <= set(found["versions"])
    best = [row for row in found["results"] if row["ours"]]
    assert all(np.isfinite(row["ratio_to_best_peer"]) for row in best)


def test_suites_and_peers_without_a_gpu_are_refused(lod: Lod) -> None:
    done = lod("bench", "io", "--device", "cuda")
    assert (done.code, done.stdout) == (4, "")
    assert "only kernels and rnn are measured on a GPU; use --device cpu" in done.stderr
    done = lod("bench", "kernels", "--device", "cuda", "--against", "numpy")
    assert done.code == 2
    assert "no such peer of kernels on a GPU; there are: torch" in done.stderr
