"""Commands where the system starts no further threads or processes, as with `ulimit -u`."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lodcli
from lodcli.formats.arrow.files import damage
from lodcli.formats.sandbox.process import Child
from lodcli.kernels.platform import machine, processes
from lodcli.kernels.runtime import threads, worker_processes
from lodcli.shell.failures import explained
from tests.lodcli.conftest import environment

NOTHING_STARTS = """
import _thread, os, signal, sys, threading
def no_process():
    raise BlockingIOError(11, "Resource temporarily unavailable")
def no_thread(*arguments, **settings):
    raise RuntimeError("can't start new thread")
os.fork = no_process
threading._start_new_thread = _thread.start_new_thread = no_thread
threading._start_joinable_thread = no_thread
from lodcli.main import main
sys.argv[0] = "lod"
code = main()
print("blocked", [*signal.pthread_sigmask(signal.SIG_BLOCK, [])], file=sys.stderr)
sys.exit(code)
"""
SAID = "no more threads or processes can be started; allow more with ulimit -u"


def without_threads(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", NOTHING_STARTS, *words],
        env=environment(LOD_NATIVE="off"),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not processes.CAN_FORK, reason="needs fork")
def test_a_command_without_threads_works_and_can_be_interrupted(folder: Path) -> None:
    done = without_threads("inspect", "words.lod.h5")
    assert (done.returncode, done.stderr) == (0, "blocked []\n")


@pytest.mark.skipif(not processes.CAN_FORK, reason="needs fork")
@pytest.mark.parametrize(
    ("words", "place"),
    [("convert large.lod.h5 out.jsonl", ""), ("inspect plain.h5 --top 1", "plain.h5: ")],
)
def test_a_thread_or_process_that_cannot_be_started_is_an_error(
    words: str, place: str, folder: Path
) -> None:
    import h5py

    with h5py.File("plain.h5", "w") as file:
        file["data"] = [1.0, 2.0]
    # Less than 1 MiB is read without a thread.
    lodcli.write("large.lod.h5", lodcli.LoDTensor(np.zeros(1 << 18), [[1 << 18]]))
    before = {*os.listdir()}
    command, *rest = words.split()
    done = without_threads(command, *rest)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith(f"lod {command}: {place}{SAID}")
    assert done.stderr.count("\n") == 2  # and the line on signals
    assert {*os.listdir()} == before


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_process_that_cannot_be_started_leaves_no_open_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fail)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=SAID):
        Child(lambda request, writer: None, ())
    assert os.listdir("/proc/self/fd") == before


def test_a_file_is_not_damaged_if_arrow_cannot_start_a_thread() -> None:
    with pytest.raises(OSError, match=SAID) as raised, damage():
        raise pa.ArrowException("Unknown error: Failed to launch worker thread: Resource ..")
    assert raised.value.errno == errno.EAGAIN
    raised.value.filename = "x.parquet"
    message, code = explained(raised.value)
    assert (message.startswith(f"x.parquet: {SAID}"), code) == (True, 3)


def test_a_worker_that_cannot_watch_its_parent_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr(threading.Thread, "start", fail)
    monkeypatch.setattr(os, "_exit", leave)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    with pytest.raises(SystemExit, match="1"):
        worker_processes._serve(None, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("most", "given", "set_to"),
    [
        (100, {}, ["1", "1", "1"]),
        (100, {"OMP_NUM_THREADS": "3"}, ["1", "3", "1"]),
        (5000, {}, [None, None, None]),
        (None, {}, [None, None, None]),
    ],
)
def test_libraries_start_few_threads_where_the_system_limits_them(
    most: int | None,
    given: dict[str, str],
    set_to: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_IO_THREADS")
    monkeypatch.setattr(os, "environ", {**given})
    monkeypatch.setattr(threads, "thread_limit", lambda: most)
    monkeypatch.setattr(threads, "usable_cores", lambda: 64)
    threads.limit_libraries()
    assert [os.environ.get(name) for name in names] == set_to


def test_the_limit_of_the_user_and_of_every_group_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "lines_of", lambda path: ["0::/jobs/7"])
    monkeypatch.setattr(machine, "user_thread_limit", lambda: None)
    assert machine.thread_limit(tmp_path) is None
    (tmp_path / "jobs" / "7").mkdir(parents=True)
    (tmp_path / "jobs" / "pids.max").write_text("90\n")
    (tmp_path / "jobs" / "7" / "pids.max").write_text("max\n")
    assert machine.thread_limit(tmp_path) == 90
    monkeypatch.setattr(machine, "user_thread_limit", lambda: 50)
    assert machine.thread_limit(tmp_path) == 50
