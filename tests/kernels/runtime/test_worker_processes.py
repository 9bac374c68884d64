"""Work in several processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import util
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path

import pytest

from lodcli.kernels.platform.processes import ENDING
from lodcli.kernels.runtime.worker_processes import in_processes
from tests.hanging import HANG_SECONDS, wait_for


def squared(number: int) -> int:
    return number * number


def told(_: int) -> tuple[int, str, str] | None:
    return os.getpid(), os.environ["LOD_THREADS"], os.environ["OPENBLAS_NUM_THREADS"]


def failing(number: int) -> int:
    if number == 3:
        raise ValueError(number)
    return number


def killed(number: int) -> int | str:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def raising(_: int, error: OSError) -> int:
    raise error


def none(_: int, error: OSError) -> None:
    return None


@pytest.mark.parametrize("jobs", [1, 2, 9])
def test_each_task_has_its_result(jobs: int) -> None:
    found = in_processes(squared, [3, 1, 4, 1, 5], jobs, lost=raising)
    assert sorted(found) == [(0, 9), (1, 1), (2, 16), (3, 1), (4, 25)]
    assert list(in_processes(squared, [], jobs, lost=raising)) == []


def blocked(_: int) -> set[int]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_a_process_that_starts_is_not_disturbed_by_signals(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    started, start = [], util.spawnv_passfds
    ensure_running()

    def interrupted(path: bytes, args: list[str], keep: list[int]) -> int:
        started.append(start(path, args, keep))
        masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        os.kill(started[-1], signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        return started[-1]

    monkeypatch.setattr(util, "spawnv_passfds", interrupted)
    handled: list[int] = []
    masks: list[set[int]] = []
    shields: list[int] = []

    @contextmanager
    def shield() -> Iterator[None]:
        yield
        shields.append(len(started))

    before = signal.signal(signal.SIGINT, lambda *_: handled.append(len(started)))
    try:
        found = list(in_processes(blocked, [0], 1, lost=raising, shield=shield))
        assert found == [(0, set())]
    finally:
        signal.signal(signal.SIGINT, before)
    assert (handled, shields, len(started)) == ([1], [1], 1)
    assert masks == [set(ENDING)]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("threads", [None, 1, 3])
def test_each_process_has_its_share_of_the_processors(
    threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOD_THREADS", "4")
    found = [one for _, one in in_processes(told, range(8), 2, lost=none, threads=threads) if one]
    share = str(threads or 2)
    processes = {process for process, *_ in found}
    assert os.getpid() not in processes
    assert len(processes) <= 2
    assert {rest for _, *two in found for rest in two} == {share}


def test_there_are_no_more_processes_than_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOD_THREADS", "1")
    found = [one for _, one in in_processes(told, range(8), 9, lost=none) if one]
    assert len({process for process, *_ in found}) == 1


def test_an_exception_of_a_task_is_raised() -> None:
    with pytest.raises(ValueError, match="3"):
        list(in_processes(failing, range(5), 2, lost=raising))


def test_a_task_whose_processes_die_is_reported_and_the_others_are_done() -> None:
    found = dict(in_processes(killed, range(5), 2, lost=lambda _, error: str(error.strerror)))
    said = "its process was killed, or died, 3 times; fewer --jobs take less memory"
    assert found == {0: 0, 1: 1, 2: 2, 3: said, 4: 4}


PARENT = """
import sys, time
from lodcli.kernels.runtime.worker_processes import in_processes
from tests.kernels.runtime.test_worker_processes import sleeping
if __name__ == "__main__":
    list(in_processes(sleeping, [sys.argv[1]] * 2, 2, lost=None))
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
    wait_for(lambda: len(list((tmp_path / "pids").iterdir())) >= 2)
    children = list((tmp_path / "pids").iterdir())
    parent.send_signal(number)
    parent.wait(HANG_SECONDS)
    wait_for(lambda: not any(Path("/proc", child.name).exists() for child in children))
