"""A task that fails costs its own figures, and no other's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from lodcli.bench.measure import paired
from lodcli.bench.measure.checks import Result
from lodcli.bench.measure.errors import DisagreementError, WorkerError
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.tasks import Task, Work, in_this_process
from lodcli.bench.runner import run_task
from lodcli.bench.session import Findings, Job, run_jobs
from lodcli.bench.suites.cases import KERNEL_CASES, Case
from lodcli.bench.suites.plan import Plan
from lodcli.commands.bench import showing
from lodcli.formats.storage.interrupts import Interrupted
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform import processes
from lodcli.shell.failures import explained
from tests.hanging import HANG_SECONDS
from tests.lodcli.bench.small import QUICK
from tests.lodcli.conftest import Lod


@dataclass(frozen=True)
class OddPlan(Plan):
    """Ops that end in all ways there are."""

    def check(self, devices: Sequence[str]) -> None:
        """Nothing is needed."""

    def task(self, op: str, case: Case, peers: PeerSet, opened: ExitStack) -> Task:
        """See Plan."""
        return odd_task(op)


def odd_task(op: str, **more: Any) -> Task:
    def call() -> Any:
        if op == "fills":
            raise MemoryError("Unable to allocate 9 GiB")
        return os._exit(3) if op == "dies" else np.ones(2)

    def arrays(found: Any) -> Result:
        return [found]

    def other(found: Any) -> Result:
        return [found + (op == "differs")]

    candidates = [
        *in_this_process("lod", {"": (call, arrays)}),
        *in_this_process("peer", {"": (call, other)}),
    ]
    return Task("odd", op, {"case": "x"}, candidates, Work(8, "B", 8, "copy"), **more)


@pytest.mark.slow
def test_a_failing_candidate_leaves_the_others() -> None:
    ops = ["fine", "dies", "differs", "also fine"]
    plan = OddPlan(ops, [KERNEL_CASES["B1"]])
    told: list[str] = []
    found = Findings()
    run_jobs([Job("convert", plan, QUICK, 1, [], {})], found, told.append)
    assert [row["op"] for row in found.rows if row["ours"]] == ["fine", "also fine"]
    assert told == [f"odd {op} x, 1 thread" for op in ops]
    assert list(found.failed) == told[1:3]
    died, differed = found.failed.values()
    assert isinstance(died, WorkerError)
    assert "odd dies x: the process that measured with 1 threads ended with code 3" in str(died)
    assert isinstance(differed, DisagreementError)


def test_a_task_without_enough_memory_ends_with_the_code_of_that() -> None:
    found = Findings()
    plan = OddPlan(["fills"], [KERNEL_CASES["B1"]])
    run_jobs([Job("convert", plan, QUICK, 1, [], {})], found, lambda _: None)
    (error,) = found.failed.values()
    message, code = explained(error)
    assert message.startswith("odd fills x: not enough memory (Unable to allocate 9 GiB); choose a")
    assert code == 3


def test_this_package_is_measured_whatever_the_current_folder_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lodcli").mkdir()
    (tmp_path / "lodcli" / "__init__.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    found = Findings()
    plan = OddPlan(["fine"], [KERNEL_CASES["B1"]])
    run_jobs([Job("convert", plan, QUICK, 1, [], {})], found, lambda _: None)
    assert (len(found.rows), found.failed) == (2, {})


def test_before_the_first_task_nothing_is_tried_again() -> None:
    no_peers = cast(Any, None)
    job = Job("convert", OddPlan(["fine"], [KERNEL_CASES["B1"]]), QUICK, 1, no_peers, {})
    with pytest.raises(WorkerError, match="NoneType"):
        run_jobs([job], Findings(), lambda _: pytest.fail("begun"))


def finds(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[dict[str, Any]],
    failed: dict[str, LodError],
    error: BaseException | None = None,
) -> None:
    """Make processes find this, and then end with an error."""

    def run_jobs(_: Any, found: Findings, __: Any) -> None:
        found.rows += rows
        found.failed.update(failed)
        if error is not None:
            raise error

    monkeypatch.setattr("lodcli.commands.bench.showing.run_jobs", run_jobs)


def test_the_report_names_what_failed_and_the_exit_code_says_so(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run_task(odd_task("fine"), QUICK, threads=1)["rows"]
    failed = {"one": DisagreementError("one differs"), "two": WorkerError("two ended")}
    finds(monkeypatch, rows, failed)
    report = tmp_path / "report.json"
    done = lod("bench", "kernels", "--op", "sum", "--rows", "9", "-o", str(report))
    assert done.code == 1
    assert "two ended" in done.stderr
    assert "one differs" in done.stderr
    assert "odd fine x" in done.stdout
    found = json.loads(report.read_bytes())
    assert found["failed"] == {"one": "one differs", "two": "two ended"}
    assert len(found["results"]) == 2


def test_no_report_is_written_if_nothing_was_measured(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finds(monkeypatch, [], {"one": DisagreementError("one differs")})
    report = tmp_path / "report.json"
    done = lod("bench", "kernels", "--op", "sum", "--rows", "9", "-o", str(report))
    assert (done.code, done.stdout) == (1, "")
    assert "one differs" in done.stderr
    assert not report.exists()


def test_an_interrupt_keeps_what_was_measured(
    lod: Lod, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run_task(odd_task("fine"), QUICK, threads=1)["rows"]
    finds(monkeypatch, rows, {}, Interrupted(signal.SIGINT))
    report = tmp_path / "report.json"
    done = lod("bench", "kernels", "--op", "sum", "--rows", "9", "-o", str(report))
    assert done.code == 130
    assert f"interrupted; {report} holds the 2 results so far" in done.stderr
    found = json.loads(report.read_bytes())
    assert found["failed"] == {"what was left": "interrupted"}
    assert len(found["results"]) == 2


def test_a_witness_outweighs_lod() -> None:
    right, wrong = (lambda: [np.ones(2)]), (lambda: [np.zeros(2)])
    found = run_task(odd_task("differs", witness=right), QUICK, threads=1)
    assert [row["library"] for row in found["rows"]] == ["lod"]
    assert found["skipped"].keys() == {"peer"}
    with pytest.raises(DisagreementError, match="odd fine x: lod and lod in main memory computed"):
        run_task(odd_task("fine", witness=wrong), QUICK, threads=1)


@pytest.mark.skipif(not processes.EXACT_USAGE, reason="this system counts processor time in ticks")
@pytest.mark.parametrize(
    ("threads", "uses_files", "clock"),
    [(1, False, "processor"), (2, False, "wall"), (1, True, "wall")],
)
def test_only_wall_time_holds_what_a_call_waits(threads: int, uses_files: bool, clock: str) -> None:
    """With one thread processor time is reported, unless files are waited for."""

    def wait() -> float:
        time.sleep(0.02)
        return 1.0

    ways = {"": (wait, lambda found: [np.array(found)])}
    task = Task(
        "odd",
        "waits",
        {"case": "x"},
        in_this_process("lod", ways),
        Work(8, "B", 8, "copy"),
        uses_files=uses_files,
    )
    (row,) = run_task(task, QUICK, threads=threads)["rows"]
    assert row["clock"] == clock
    assert (row["median"] < 0.01) == (clock == "processor")


def test_reasons_in_a_saved_report_name_no_folders(
    lod: Lod, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    why = "cannot load '/opt/env/lib/fast.so', see https://host.example/a/b"

    def fail(jobs: Sequence[Job], found: Findings, tell: object) -> None:
        found.missing["fast"] = why
        found.skipped["kernels sum B1"] = {"slow": "RuntimeError: /srv/x.py:3: 1/2 of 3 B/s"}

    monkeypatch.setattr(showing, "run_jobs", fail)
    done = lod("bench", "kernels", "--op", "sum", "-o", tmp_path / "r.json")
    assert done.code == 0
    assert f"without fast: {why}" in done.stderr
    saved = json.loads((tmp_path / "r.json").read_bytes())
    assert saved["missing"] == {"fast": "cannot load 'fast.so', see https://host.example/a/b"}
    assert saved["skipped"] == {"kernels sum B1": {"slow": "RuntimeError: x.py:3: 1/2 of 3 B/s"}}


def test_a_peer_that_starts_after_a_kill_says_nothing() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-c", paired._START, str(paired.WORKER), processes.__file__, "none", "1"],
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
        timeout=HANG_SECONDS,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (1, b"")
