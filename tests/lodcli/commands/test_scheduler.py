"""`--scheduler`: shards of a dataset on the workers of a Dask cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.dataset.manifest import shard_name
from lodcli.shell.jobs import scheduled_dask
from tests.hanging import HANG_SECONDS, wait_for
from tests.lodcli.conftest import Lod, tensor
from tests.lodcli.shard_cases import (
    RUN,
    SHARDS,
    STEP,
    check_alone,
    check_continuing,
    check_kills,
    content,
    flip_a_row,
    hold,
    inodes,
    make_dataset,
    model,
    needs_proc,
    running,
    spawned_by,
    wait_until_gone,
)
from tests.reliability.outcome import partials
from tests.sampling import many

# After so long without a sign of life the scheduler of these tests takes a worker for dead.
TTL = "5 s"


@pytest.fixture
def dataset(folder: Path) -> Path:
    """See `make_dataset`."""
    return make_dataset()


@dataclass
class Cluster:
    """A scheduler and two workers, each a process with a nanny that replaces it."""

    folder: Path
    parts: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> None:
        self._run("scheduler", "--host=127.0.0.1", "--port=0", "--no-show")
        self._run("worker", "--host=127.0.0.1", "--nworkers=2", "--nthreads=1")
        wait_for(lambda: len(self.workers()) >= 2)

    def _run(self, what: str, *options: str) -> None:
        file = f"--scheduler-file={self.folder / 'scheduler.json'}"
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", file, "--no-dashboard"]
        environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": TTL}
        with (self.folder / f"{what}.log").open("ab") as log:
            self.parts.append(
                subprocess.Popen(
                    [*command, *options],
                    cwd=self.folder,
                    env=environment,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                )
            )

    @property
    def address(self) -> str:
        import json

        return str(json.loads((self.folder / "scheduler.json").read_text())["address"])

    def workers(self) -> list[int]:
        """Return the processes of the workers that are there now."""
        return spawned_by(self.parts[-1].pid)

    def stop(self) -> None:
        for part in reversed(self.parts):
            part.terminate()
            part.wait(HANG_SECONDS)
        (self.folder / "scheduler.json").unlink(missing_ok=True)
        self.parts.clear()


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("distributed")
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def cluster(started: Cluster) -> Cluster:
    """The cluster; one that has lost its scheduler in another test is started again."""
    if any(part.poll() is not None for part in started.parts):
        started.stop()
        started.start()
    return started


# -- what needs no cluster -------------------------------------------------------------


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["convert", "ds", "out", "--scheduler", "here"], "expected local, tcp://HOST:PORT or"),
        (["convert", "ds", "out", "--scheduler", ""], "expected local, tcp://HOST:PORT or"),
        (
            ["convert", "ds", "out", "--scheduler", "tcp://a:1", "--jobs", "2"],
            "--jobs sets the number of workers of --scheduler local",
        ),
        (["convert", "ds", "--scheduler", "local"], "--scheduler writes files; name one"),
        (["convert", "-", "out", "--scheduler", "local"], "and standard input is neither"),
        ([*RUN, "--grad", "--scheduler", "local"], "--scheduler computes each shard separately"),
        (
            ["apply", "sort_by_length", "ds::data", "-o", "out", "--scheduler", "local"],
            "--scheduler computes each shard separately, and sort_by_length takes whole tensors",
        ),
    ],
)
def test_commands_that_cannot_be_scheduled_are_errors(lod: Lod, args: list[str], said: str) -> None:
    done = lod(*args)
    assert done.code
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("out").exists()


@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize(
    ("package", "what"), [("_PACKAGE", "--scheduler"), ("_CERTIFICATES", "--scheduler local")]
)
def test_without_a_package_the_error_names_the_extra(
    lod: Lod, monkeypatch: pytest.MonkeyPatch, package: str, what: str
) -> None:
    if package != "_PACKAGE":
        pytest.importorskip("distributed")
    monkeypatch.setattr(scheduled_dask, package, Package("no_such_module", "lodcli[dask]"))
    done = lod("convert", "ds", "out", "--scheduler", "local")
    assert (done.code, done.stderr) == (
        4,
        f"lod convert: {what} needs the package no_such_module; pip install 'lodcli[dask]'\n",
    )
    assert not Path("out").exists()


class OneByOne:
    """A client whose worker finishes each group immediately, and reports the time of a task."""

    class Scheduler:
        ncores = None

    def __init__(self, seconds: float, threads: int) -> None:
        self.scheduler = self.Scheduler()
        self.groups: list[int] = []
        self._seconds, self._threads = seconds, threads

    def sync(self, function: object, callback_timeout: float) -> dict[str, int]:
        return {"worker": self._threads}

    def submit(self, work: Callable[..., Any], group: Any, **options: object) -> Any:
        self.groups.append(len(group.tasks))
        answer = scheduled_dask._Answer(
            [[task * 2] for task in group.tasks], self._seconds * len(group.tasks)
        )

        class Found(Future[Any]):
            status = "finished"

        found = Found()
        found.set_result(answer)
        return found


@pytest.mark.parametrize(
    ("count", "seconds", "threads", "most", "fewest"),
    [
        (8, 10, 2, 1, 8),  # long ones alone
        (3000, 1, 4, 5, 620),  # short ones in groups of 5 s
        (3000, 1e-3, 4, 362, 100),  # but each thread has some
        (15_000, 10, 4, 2, 7_500),  # no more groups than the scheduler can take
        (0, 1, 2, 0, 0),
    ],
)
def test_short_tasks_are_done_in_groups(
    count: int,
    seconds: float,
    threads: int,
    most: int,
    fewest: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(scheduled_dask, "_MOST_GROUPS", 10_000)
    client = OneByOne(seconds, threads)
    queued = scheduled_dask._Queue(client, "a", abs, range(count))
    found = {}
    while queued.unfinished:
        for number, result in queued.next_results():
            found[number] = result[0]
            queued.unfinished -= 1
    assert found == {number: number * 2 for number in range(count)}
    assert max(client.groups, default=0) == most
    assert fewest <= len(client.groups) <= 10_000


# -- on a cluster ----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_a_cluster_of_this_machine_writes_the_same_bytes_as_jobs(lod: Lod) -> None:
    pytest.importorskip("distributed")
    done = lod("convert", "ds", "out", "--scheduler", "local", "--jobs", "1", "--name", "x")
    assert "--name is for one tensor" in done.stderr
    assert not Path("out").exists()
    done = lod("convert", "ds", "out", "--scheduler", "local", "--jobs", "1")
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert lod("convert", "ds", "jobs", "--jobs", "1").code == 0
    assert content("out") == content("jobs")


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize(
    "args",
    [
        RUN[:-2],
        ["apply", "mul", "ds::data", "2", "--into", "twice"],
        ["apply", "data - mean(data)", "ds", "--into", "data", "--dtype", "float64"],
    ],
    ids=lambda args: args[0],
)
def test_a_cluster_writes_the_same_bytes_as_jobs(
    lod: Lod, cluster: Cluster, args: list[str]
) -> None:
    done = lod(*args, "-o", "out", "--scheduler", cluster.address)
    assert (done.code, done.stdout, done.stderr) == (0, "", "")
    assert lod(*args, "-o", "jobs", "--jobs", "2").code == 0
    assert content("out") == content("jobs")


@needs_proc
@pytest.mark.slow
def test_each_command_reads_its_step_function_again(
    lod: Lod, cluster: Cluster, dataset: Path
) -> None:
    for factor in (2, 3):
        Path("model.py").write_text(f"def step(x, memory): return x * {factor}, memory")
        out = f"out{factor}"
        assert lod(*STEP[:-1], out, "--scheduler", cluster.address).code == 0
        np.testing.assert_array_equal(tensor(out).data, tensor(dataset, "data").data * factor)


@needs_proc
@pytest.mark.slow
def test_damage_is_named_once_and_the_others_are_finished(
    lod: Lod, cluster: Cluster, dataset: Path
) -> None:
    flip_a_row(dataset / shard_name(1, SHARDS))
    done = lod(*RUN, "--scheduler", cluster.address)
    first, last = done.stderr.splitlines()
    assert (done.code, done.stdout) == (1, "")
    assert first.startswith(f"lod run-rnn: ds/{shard_name(1, SHARDS)}: /data: rows 0 to ")
    assert last.startswith("lod run-rnn: 1 shard of ds is damaged; the results of the others")
    assert sorted(os.listdir("out")) == [*sorted(inodes("out")), "job.json"]
    assert len(inodes("out")) == SHARDS - 1


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_a_shard_whose_process_dies_each_time_is_named(lod: Lod, cluster: Cluster) -> None:
    model("os.kill(os.getpid(), signal.SIGKILL)")
    before = cluster.workers()
    done = lod(*STEP, "--scheduler", cluster.address)
    assert done.code == 3
    assert done.stderr.endswith(": its process was killed, or died, 3 times\n")
    assert not Path("out").exists()
    assert cluster.workers() == before


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_a_worker_that_cannot_run_lod_is_an_error(
    lod: Lod, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = ["convert", "ds", "out", "--scheduler", cluster.address]
    with monkeypatch.context() as other:
        other.setattr(scheduled_dask, "_version", lambda: "0.0.1")
        done = lod(*args)
        assert done.code == 1
        assert "and this is 0.0.1; install the same on all workers" in done.stderr
    with monkeypatch.context() as other:
        made = scheduled_dask._Group
        other.setattr(
            scheduled_dask, "_Group", lambda *parts: made(*parts)._replace(folder="/no/such/folder")
        )
        done = lod(*args)
        assert done.code == 1
        assert "has no folder /no/such/folder; workers need the files" in done.stderr


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_workers_killed_at_random_times_change_nothing(lod: Lod, cluster: Cluster) -> None:
    args = ("--scheduler", cluster.address)
    check_kills(lod, lambda _: cluster.workers(), many(4, share=2), 2, (0.2, 2), *args)


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("local", [False, True], ids=["cluster", "local"])
def test_an_interrupted_command_ends_its_tasks_and_can_be_continued(
    lod: Lod, cluster: Cluster, number: signal.Signals, local: bool
) -> None:
    hold()
    address = ["local", "--jobs", "2"] if local else [cluster.address]
    with running([*STEP, "--scheduler", *address]) as process:
        wait_for(lambda: list(Path().glob("at-*")))
        process.send_signal(number)
        _, said = process.communicate(timeout=HANG_SECONDS)
    killed = number == signal.SIGKILL
    assert process.returncode == (-number if killed else 128 + number)
    assert killed or not said  # multiprocessing tells of semaphores that a killed command left
    at_work = [int(place.name.partition("-")[2]) for place in Path().glob("at-*")]
    wait_until_gone(at_work)
    check_continuing(lod, "--scheduler", cluster.address)
    assert not partials(Path("out"))


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_terminal_interrupts_workers_that_start_without_a_word(number: signal.Signals) -> None:
    pytest.importorskip("distributed")
    with running(["convert", "ds", "out", "--scheduler", "local", "--jobs", "2"]) as process:
        wait_for(lambda: len(spawned_by(process.pid)) >= 2)
        os.killpg(process.pid, number)
        _, said = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, said) == (128 + number, "")


@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_the_tasks_of_a_stopped_worker_go_to_another(lod: Lod, cluster: Cluster) -> None:
    model("time.sleep(0.3)")
    with running([*STEP, "--scheduler", cluster.address]) as process:
        wait_for(lambda: list(Path().glob("out/data-*")))
        (stopped, *_) = cluster.workers()
        os.kill(stopped, signal.SIGSTOP)
        try:
            _, said = process.communicate(timeout=HANG_SECONDS)
        finally:
            with suppress(ProcessLookupError):  # its nanny has replaced it
                os.kill(stopped, signal.SIGCONT)
    assert (process.returncode, said) == (0, "")
    check_alone(lod)


# Last, so that no cluster is started after it.
@needs_proc
@pytest.mark.slow
@pytest.mark.usefixtures("dataset")
def test_a_killed_scheduler_ends_the_command_which_can_be_continued(
    lod: Lod, cluster: Cluster
) -> None:
    hold()
    address = cluster.address
    with running([*STEP, "--scheduler", address]) as process:
        wait_for(lambda: list(Path().glob("at-*")))
        cluster.parts[0].kill()
        _, said = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, said) == (3, f"lod run-rnn: {address}: the scheduler ended\n")
    check_continuing(lod, "--jobs", "2")
