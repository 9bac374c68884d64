"""Peers on the GPU: the targets of the page, and peers with different results.

Without a GPU torch has the CPU in its place: see tests/cuda/host/torch_on_gpu.py.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.runner import run_task
from lodcli.bench.suites.kernels import kernel_task
from lodcli.bench.suites.rnn import rnn_task
from tests.benchmarks.page import page
from tests.benchmarks.targets import targets
from tests.benchmarks.verdicts import UNMEASURED
from tests.lodcli.bench.small import QUICK, small_case, small_layer

cupy: Any = pytest.importorskip("cupy")
torch: Any = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no GPU"),
]


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small sizes: the limits of the machine are measured, but not accurately."""
    monkeypatch.setattr("lodcli.bench.measure.gpu_cupy.GEMM_SIZES", (64,))
    monkeypatch.setattr("lodcli.bench.measure.gpu_cupy.TRIES", 1)
    monkeypatch.setattr("lodcli.bench.runner.WARM_SECONDS", 0)


def measured(op: str) -> list[dict[str, Any]]:
    """Return the rows of a part that measures an op beside torch."""
    cell, _, which = op.partition(" ")
    with PeerSet("rnn" if which else "kernels", ["torch"], 1, {}, "cuda") as peers:
        if which:
            task = rnn_task(cell, which, small_layer(rows=9, sequences=3), peers)
        else:
            task = kernel_task(op, small_case(3, rows=9), peers)
    rows: list[dict[str, Any]] = run_task(task, QUICK, threads=1)["rows"]
    return rows


def test_every_target_is_on_the_page() -> None:
    on_gpu = [one for one in targets() if one.device == "cuda"]
    # Of all ops that the page may describe.
    measured_rows = {"kernels": measured("reverse"), "rnn": measured("elman forward")}
    rows = [
        {**row, "op": op, "case": case}
        for bench, op, case in dict.fromkeys((one.bench, one.op, one.case) for one in on_gpu)
        for row in measured_rows[bench]
    ]
    machine = {"cpu": "X", "usable_cores": 1, "memory_bytes": 2**30, "system": "Linux"}
    machine |= {"gpu": "Y", "gpu_memory_bytes": 2**31}
    report = {"machine": machine, "versions": {"cupy": "14"}, "limits": {"cuda": {"copy": 4e12}}}
    report |= {"missing": {"fbgemm": "none"}, "skipped": {}, "failed": {"a": "b"}, "command": "c"}
    text = page({"gpu": {**report, "results": rows}}, {})
    table = text.split("### On a GPU")[1].split("\n## ")[0].splitlines()
    lines = [line for line in table if line.count("|") == 8][2:]
    assert len(lines) == len(on_gpu)
    assert not [line for line in lines if UNMEASURED in line]
    assert "Y, 2 GiB." in text
    assert "- copy, the GPU: 4e+03 GB/s" in text
    assert "- a: b" in text


def test_a_peer_that_differs_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "index_select", lambda x, axis, rows, out=None: x + 1)
    with PeerSet("kernels", ["torch"], 1, {}, "cuda") as peers:
        task = kernel_task("reverse", small_case(3, rows=9), peers)
    found = run_task(task, QUICK, threads=1)
    assert {row["library"] for row in found["rows"]} == {"lod"}
    assert list(found["skipped"]) == ["torch index_select", "torch index_select out="]
    assert all("lod in main memory computed different" in why for why in found["skipped"].values())


@pytest.mark.skipif("torch_on_gpu" not in sys.modules, reason="torch has a GPU of its own")
def test_the_stand_in_mixes_no_memories() -> None:
    there, here = torch.zeros(3, device="cuda"), torch.zeros(3)
    assert (there + 1).device == torch.device("cuda:0")
    assert torch.as_tensor(cupy.ones(3)).device.type == "cuda"
    assert there.cpu().numpy().tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="on the same device"):
        there + here
    with pytest.raises(TypeError, match="convert cuda"):
        there.numpy()
