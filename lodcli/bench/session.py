"""One run of a benchmark: a fresh process for each number of threads, and the results.

Libraries fix their number of threads when they are loaded, some only from the environment.
So measurements run in a separate process, started with the same number for all libraries.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from lodcli.bench.measure.errors import DisagreementError, WorkerError, WorkerMemoryError
from lodcli.bench.measure.harness import Effort
from lodcli.bench.measure.machine import NotEnoughMemoryError
from lodcli.bench.measure.peer_set import PeerSet
from lodcli.bench.measure.worker import answering
from lodcli.bench.runner import run_task
from lodcli.bench.suites.plan import Plan
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.platform.environment import value
from lodcli.kernels.platform.processes import end_with_parent
from lodcli.kernels.runtime.threads import BLAS_WAIT

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "LOD_THREADS",
)
# Measures this package, even if the current folder holds another one.
_START = (
    "import ast, sys; sys.path[:] = ast.literal_eval(sys.argv[1]); "
    "from lodcli.bench.session import serve; serve()"
)
_REMOVE = "import sys, shutil; sys.stdin.read(); shutil.rmtree(sys.argv[1], ignore_errors=True)"
_ERRORS: dict[str, type[LodError]] = {
    kind.__name__: kind
    for kind in (DisagreementError, NotEnoughMemoryError, UnsupportedError, WorkerMemoryError)
}


@dataclass(frozen=True)
class Job:
    """The measurements of one process.

    Attributes:
        first: the number of the first piece of the plan to measure.
    """

    suite: str
    plan: Plan
    effort: Effort
    threads: int
    peers: Sequence[str]
    pythons: Mapping[str, str]
    seed: int = 0
    device: str = "cpu"
    first: int = 0

    @property
    def place(self) -> str:
        """The key for limits of the machine: a number of threads, or the device."""
        return str(self.threads) if self.device == "cpu" else self.device

    def __str__(self) -> str:
        if self.device != "cpu":
            return f"on {self.device}"
        return f"{self.threads} thread{'s' * (self.threads > 1)}"


@dataclass
class Findings:
    """The results of the processes of a run, and the errors of failed tasks."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    skipped: dict[str, dict[str, str]] = field(default_factory=dict)
    limits: dict[str, dict[str, float]] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    failed: dict[str, LodError] = field(default_factory=dict)


def run_jobs(jobs: Sequence[Job], found: Findings, tell: Callable[[str], None]) -> None:
    """Run all jobs, one process after another.

    A failed task ends its process, whose state may be corrupt; another process continues with the
    next task.

    Args:
        found: results are added here after each task.
        tell: callback invoked with the name of the next task.

    Raises:
        WorkerError: a process failed before its first task.
    """
    for job in jobs:
        first = 0
        while first < len(job.plan.pieces):
            first = _run(replace(job, first=first), found, tell)


def _run(job: Job, found: Findings, tell: Callable[[str], None]) -> int:
    """Add the results of one process; return the number of the piece after the last it began."""
    begun, title = job.first, ""
    try:
        for event in _events(job):
            if "error" in event:
                raise _ERRORS.get(event["kind"], WorkerError)(event["error"])
            found.versions.update(event.get("versions", {}))
            found.missing.update(event.get("missing", {}))
            found.machine.update(event.get("machine", {}))
            if "limits" in event:
                found.limits[job.place] = event["limits"]
            if "piece" in event:
                begun, title = event["piece"] + 1, _name(job, event["piece"])
            if "begins" in event:
                title = event["begins"]
                tell(f"{title}, {job}")
            found.rows += event.get("rows", [])
            if event.get("skipped"):
                found.skipped.setdefault(title, {}).update(event["skipped"])
    except LodError as error:
        if begun == job.first:
            raise
        told = type(error)(f"{title}: {error}") if isinstance(error, WorkerError) else error
        found.failed[f"{title}, {job}"] = told
    return begun


def _name(job: Job, number: int) -> str:
    """Return the name of a piece whose task cannot be made."""
    op, case = job.plan.pieces[number]
    return f"{job.suite} {op} {case.name}"


def _events(job: Job) -> Iterator[dict[str, Any]]:
    """Yield the messages of the measuring process; its files are always removed afterwards.

    A process does so that waits for the end of its input: this one can be killed.
    """
    folder = os.path.abspath(tempfile.mkdtemp(prefix="lod-bench-", dir=job.plan.folder))
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _REMOVE, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ):
        yield from _events_of(job, folder)


def _events_of(job: Job, folder: str) -> Iterator[dict[str, Any]]:
    variables = dict.fromkeys(THREAD_VARIABLES, str(job.threads)) | {"TMPDIR": folder}
    environment = {**os.environ, **variables}
    environment.pop(BLAS_WAIT, None)  # set for lod, not for peers
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _START, repr([*map(os.path.abspath, sys.path)])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        # So that Control-C interrupts only the command, which then ends the measuring process.
        process_group=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        with process.stdin:
            process.stdin.write(pickle.dumps(job))
        ended = False
        for line in process.stdout:
            event = json.loads(line)
            ended = ended or "error" in event or "ends" in event
            yield event
        code = process.wait()
        if not ended:
            what = f"signal {-code}" if code < 0 else f"code {code}"
            raise WorkerError(
                f"the process that measured with {job.threads} threads ended with {what}; "
                "its last output, if any, is above"
            )
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def limits_of(suite: str, threads: int, device: str) -> dict[str, float]:
    """Return the best rates of the machine, for the kinds of work of a benchmark."""
    if device == "cuda":
        from lodcli.bench.measure import gpu_cupy

        return gpu_cupy.best_rates(["gemm", "copy"] if suite == "rnn" else ["copy"])
    from lodcli.bench.measure.limits import best_gemm_rate, best_rates

    if suite in ("rnn", "linear"):
        return best_rates(["fma"], threads) | best_gemm_rate()
    return best_rates(["read", "write", "copy"], threads)


def _about(device: str) -> dict[str, dict[str, Any]]:
    """Return the properties of a GPU and the versions of its software; nothing for "cpu"."""
    if device == "cpu":
        return {}
    from lodcli.bench.measure import gpu_cupy

    return {"machine": gpu_cupy.facts(), "versions": gpu_cupy.versions()}


def serve() -> None:
    """Run the job read from standard input; answer with one JSON object per line."""
    end_with_parent()
    job: Job = pickle.loads(sys.stdin.buffer.read())
    answer = answering()
    try:
        with PeerSet(job.suite, job.peers, job.threads, job.pythons, job.device) as peers:
            answer(versions=peers.versions, missing=peers.missing)
            answer(**_about(job.device))
            answer(limits=limits_of(job.suite, job.threads, job.device))
            for number, (op, case) in list(enumerate(job.plan.pieces))[job.first :]:
                answer(piece=number)
                with ExitStack() as opened:
                    task = job.plan.task(op, case, peers, opened)
                    if task is not None:
                        answer(begins=task.title)
                        answer(**run_task(task, job.effort, threads=job.threads, seed=job.seed))
                    # Free its arrays before the next task makes new ones.
                    del task
        answer(ends=True)
    except MemoryError as error:
        what = " ".join(str(error).split())
        told = f"not enough memory{f' ({what})' if what else ''}; choose a smaller case with "
        told += "--rows, --features or --sequences"
        answer(error=told, kind=WorkerMemoryError.__name__)
    except Exception as error:
        if value("LOD_DEBUG") == "1":
            traceback.print_exc()
        ours = isinstance(error, LodError)
        what = str(error) if ours else f"{type(error).__name__}: {error}"
        answer(error=" ".join(what.split()), kind=type(error).__name__)
