"""`lod bench kernels` with small cases: it runs, results agree, and reports are complete."""

from __future__ import annotations

import csv
import io
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.bench.measure.errors import DisagreementError
from lodcli.bench.measure.paired import PairedPeer
from lodcli.bench.measure.peer_set import FOLDER, PeerSet, chosen_peers
from lodcli.bench.measure.tasks import Candidate, Task, Work, in_this_process
from lodcli.bench.peers import PEERS
from lodcli.bench.runner import run_task
from lodcli.bench.suites.kernels import KernelPlan, kernel_task
from lodcli.bench.suites.ops import make_inputs, ops_of, ours, sizes_of
from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime import dispatch
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.ops import sequence_sum
from tests.lodcli.bench.small import QUICK, small_case
from tests.lodcli.conftest import Lod
from tests.slow import one_in, slow


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("features", [1, slow(5)])
@pytest.mark.parametrize("op", ops_of(["cpu"]))
def test_every_peer_agrees_with_ours(op: str, features: int) -> None:
    with PeerSet("kernels", chosen_peers("kernels", None), 1, {}) as peers:
        found = run_task(kernel_task(op, small_case(features), peers), QUICK, threads=1)
    rows = found["rows"]
    assert rows[0]["ours"]
    assert {row["digest"] for row in rows} == {rows[0]["digest"]}
    assert not any("peer" in name for name in found["skipped"])
    if op != "cumsum" and not (op == "log_softmax" and features > 1):
        assert {"numpy"} & {row["library"] for row in rows} or op == "max_index"


def test_ours_is_computed_as_by_a_call_that_names_no_backend() -> None:
    case = small_case(3)
    inputs = make_inputs("sum", case, sizes_of(case, case.draw_lengths()))
    tensor = LoDTensor(inputs["data"], LoD([inputs["offsets"]]))
    told: list[tuple[str, str]] = []
    dispatch.when_dispatched(lambda kernel, backend: told.append((kernel, backend)))
    try:
        ours("sum", inputs)[""][0]()
        sequence_sum(tensor)
    finally:
        dispatch.when_dispatched(None)
    assert told[0] == told[-1]


def test_rows_of_two_bytes_are_measured_on_a_gpu_only() -> None:
    plan = KernelPlan(["attention_float16", "sum"], [small_case(2)])
    peers = PeerSet("kernels", [], 1, {})
    tasks = [plan.task(op, case, peers, ExitStack()) for op, case in plan.pieces]
    assert [task and task.op for task in tasks] == [None, "sum"]
    plan.check(["cpu", "cuda"])
    with pytest.raises(SelectionError, match="--op attention_float16 goes with --device cuda"):
        plan.check(["cpu"])


def test_a_peer_in_another_interpreter_computes_the_same() -> None:
    peer = PairedPeer("numpy", sys.executable, FOLDER / "numpy.py", 1)
    try:
        assert peer.version == np.__version__
        data = np.arange(12, dtype=np.float32).reshape(6, 2)
        inputs = {"data": data, "offsets": np.array([0, 2, 6]), "full": np.array([True, True])}
        first = peer.candidates("kernels", "sum", inputs)[0]
        assert first.result is not None
        np.testing.assert_array_equal(first.result()[0], [[2, 4], [28, 32]])
        sample = first.sample(3)
        assert (sample.calls, sample.seconds > 0) == (3, True)
        with pytest.raises(RuntimeError, match="KeyError"):
            peer.candidates("kernels", "sum", {"data": data})
    finally:
        peer.close()


def test_a_peer_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    with PeerSet("kernels", ["numpy", "awkward"], 1, {"awkward": str(broken)}) as peers:
        assert list(peers.versions) == ["numpy"]
        assert "code 3" in peers.missing["awkward"]


def test_unknown_peers_are_refused() -> None:
    assert chosen_peers("kernels", "none") == []
    assert "onnxruntime" not in chosen_peers("kernels", None)
    with pytest.raises(SelectionError, match="there are: numpy, torch"):
        chosen_peers("kernels", "numpy,nonsense")


def test_a_candidate_with_wrong_results_stops_the_run() -> None:
    ways = {"": (lambda: None, lambda _: [np.zeros(2)])}
    lying = {"": (lambda: None, lambda _: [np.ones(2)])}
    task = Task(
        "kernels",
        "sum",
        {"case": "x"},
        [*in_this_process("lod", ways), *in_this_process("liar", lying)],
        Work(1, "B", 1, None),
    )
    with pytest.raises(DisagreementError, match="liar"):
        run_task(task, QUICK, threads=1)


def test_a_peer_that_fails_is_skipped_by_name_and_ours_is_not() -> None:
    def fail() -> Any:
        raise ValueError("cannot do this")

    good = in_this_process("lod", {"": (lambda: None, lambda _: [np.zeros(2)])})
    bad = Candidate("peer", "way", good[0].sample, fail)
    task = Task("kernels", "sum", {}, [*good, bad], Work(1, "B", 1, None))
    assert run_task(task, QUICK, threads=1)["skipped"] == {"peer way": "ValueError: cannot do this"}
    ours = Candidate("lod", "", good[0].sample, fail)
    with pytest.raises(ValueError, match="cannot do this"):
        run_task(Task("kernels", "sum", {}, [ours], Work(1, "B", 1, None)), QUICK, threads=1)


SMALL = ("--rows", "300", "--features", "3", "--rounds", "1", "--budget", "0", "--threads", "1")


@pytest.mark.slow
def test_json_has_the_keys_of_hyperfine_and_ours(shell: Lod) -> None:
    done = shell(f"lod bench kernels --op sum,pad {' '.join(SMALL)} --against numpy --json")
    assert (done.code, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["schema_version"] == 1
    assert report["versions"].keys() >= {"lod", "python", "numpy", "numba"}
    assert report["machine"].keys() >= {"cpu", "cores", "memory_bytes"}
    for row in report["results"]:
        # What hyperfine's own scripts read of each result.
        assert row.keys() >= {
            "command",
            "mean",
            "stddev",
            "median",
            "user",
            "system",
            "min",
            "max",
            "times",
            "exit_codes",
            "parameters",
        }
        assert row["min"] <= row["median"] <= row["max"]
        assert len(row["times"]) == len(row["exit_codes"])
    assert next(row["op"] for row in report["results"] if row["ours"]) == "sum"


@pytest.mark.slow
def test_the_table_and_every_export_show_each_candidate(shell: Lod) -> None:
    line = f"lod bench kernels --op sum {' '.join(SMALL)} --against numpy"
    table = shell(line).stdout
    assert "kernels sum custom, 1 thread" in table
    assert "numpy reduceat out=" in table
    rows = list(csv.DictReader(io.StringIO(shell(f"{line} --export csv").stdout)))
    assert [row["library"] for row in rows][:2] == ["lod", "numpy"] or rows[1]["library"] == "lod"
    assert float(rows[0]["median"]) > 0
    assert "| kernels sum custom | 1 | lod |" in shell(f"{line} --export markdown").stdout
    assert json.loads(shell(f"{line} -o -").stdout)["results"]


def test_pytest_benchmark_reads_its_export(shell: Lod) -> None:
    pytest.importorskip("pytest_benchmark")
    done = shell(
        f"lod bench kernels --op sum {' '.join(SMALL)} --against numpy "
        "--export pytest-benchmark > ours.json && pytest-benchmark compare ours.json"
    )
    assert done.code == 0, done.stderr
    assert "kernels sum custom lod" in done.stdout


def test_an_interpreter_without_numpy_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # no site-packages
    python.chmod(0o755)
    with pytest.raises(RuntimeError, match="python: ModuleNotFoundError: No module named 'numpy'"):
        PairedPeer("numpy", str(python), FOLDER / "numpy.py", 1)
    assert capfd.readouterr() == ("", "")


def test_a_missing_peer_is_named(shell: Lod) -> None:
    done = shell(
        f"lod bench kernels --op sum {' '.join(SMALL)} --against awkward --json "
        "--peer-python awkward=/bin/false"
    )
    assert done.code == 0
    assert "without awkward: /bin/false: its process ended with code 1" in done.stderr
    assert json.loads(done.stdout)["missing"] == {
        "awkward": "/bin/false: its process ended with code 1"
    }


@pytest.mark.parametrize(
    ("options", "code", "message"),
    one_in(
        3,
        [
            ("--op nonsense", 2, "expected one of sum, mean"),
            ("--op sum --case B9", 2, "expected one of B1, B2, B3"),
            ("--op sum --lengths gauss:1", 2, "lognormal:MEAN"),
            ("--op sum --lengths missing.lod.h5", 3, "missing.lod.h5: no such file"),
            ("--op sum --threads 0", 2, "expected numbers of 1 to 1024"),
            ("--op sum --rows 0", 2, "--rows"),
            ("--op sum --against nobody", 2, "no such peer"),
            ("--op sum --device tpu", 2, "expected cpu, cuda"),
            ("--op sum --device cuda", 4, "--device cuda"),
            ("--op sum --rows 1000000000000 --sequences 10", 3, "GB of memory"),
            ("--op sum --sweep rows", 2, "--sweep rows"),
            ("--op sum --json --export csv", 2, "both write to standard output"),
            ("--op sum --peer-python nobody=python", 2, "expected PEER=PYTHON"),
            ("--op sum --peer-python numpy=/no/such", 2, "cannot be run"),
            ("--op sum -o words.lod.h5", 3, "exists already"),
        ],
    ),
)
def test_bad_parameters_are_reported_before_anything_is_measured(
    shell: Lod, options: str, code: int, message: str
) -> None:
    done = shell(f"lod bench kernels {options}")
    assert (done.code, done.stdout) == (code, "")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_lengths_of_a_file_are_those_measured(shell: Lod) -> None:
    done = shell(
        "lod bench kernels --op sum --lengths words.lod.h5 --against none --features 2 "
        "--rounds 1 --budget 0 --threads 1 --json -o kept.json"
    )
    report = json.loads(done.stdout)
    assert report["results"][0]["parameters"]["rows"] == "15"
    assert report["results"][0]["parameters"]["sequences"] == "6"
    assert json.loads(shell("cat kept.json").stdout)["results"] == report["results"]


def test_every_peer_says_how_to_install_it() -> None:
    for name, entry in PEERS.items():
        assert entry.install, name
        assert all((FOLDER / f"{file}.py").exists() for file in entry.files.values()), name
