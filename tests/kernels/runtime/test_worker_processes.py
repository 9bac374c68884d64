"""Work in several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lodcli.kernels.runtime.threads import thread_count
from lodcli.kernels.runtime.worker_processes import in_processes
from tests.hanging import HANG_SECONDS


def squared(number: int) -> int:
    return number * number


def process_and_threads(_: int) -> tuple[int, str, str]:
    return os.getpid(), os.environ["LOD_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]


def failing(number: int) -> int:
    if number == 3:
        raise ValueError(number)
    return number


def killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_results_come_in_order(jobs: int) -> None:
    assert list(in_processes(squared, range(5), jobs)) == [0, 1, 4, 9, 16]
    assert list(in_processes(squared, [], jobs)) == []


def test_each_process_has_its_share_of_the_processors() -> None:
    found = list(in_processes(process_and_threads, range(8), 2))
    share = str(max(1, thread_count() // 2))
    assert os.getpid() not in {process for process, *_ in found}
    assert {tuple(threads) for _, *threads in found} == {(share, share)}


def test_an_exception_of_a_task_is_raised() -> None:
    with pytest.raises(ValueError, match="3"):
        list(in_processes(failing, range(5), 2))


def test_a_killed_process_is_told() -> None:
    with pytest.raises(OSError, match="one of the processes of --jobs was killed"):
        list(in_processes(killed, range(5), 2))


PARENT = """
import sys, time
from lodcli.kernels.runtime.worker_processes import in_processes
from tests.kernels.runtime.test_worker_processes import sleeping
if __name__ == "__main__":
    list(in_processes(sleeping, [sys.argv[1]] * 2, 2))
"""


def sleeping(folder: str) -> None:
    Path(folder, str(os.getpid())).touch()
    time.sleep(HANG_SECONDS)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_one_that_started_them(tmp_path: Path, number: int) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    (tmp_path / "pids").mkdir()
    root = Path(__file__).parents[3]
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "parent.py", tmp_path / "pids"],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + HANG_SECONDS
    while len(children := list((tmp_path / "pids").iterdir())) < 2:
        assert time.monotonic() < until
        time.sleep(0.05)
    parent.send_signal(number)
    parent.wait(HANG_SECONDS)
    for child in children:
        while Path("/proc", child.name).exists():
            assert time.monotonic() < until
            time.sleep(0.05)
