"""A separate process for the tasks of a thread."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lodcli.kernels.runtime.child_process import THREADS, ChildProcess
from tests.hanging import HANG_SECONDS


def squared(number: int) -> int:
    return number * number


def told(name: str) -> tuple[int, str, list[str], list[str]]:
    found = [os.environ[each] for each in THREADS]
    return os.getpid(), os.getcwd(), found, [place for place in sys.path if place in ("", name)]


def failing(text: str) -> None:
    raise ValueError(text)


def killed(_: None) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def sleeping(name: str) -> None:
    Path(name).touch()
    time.sleep(HANG_SECONDS)


def goes_nowhere(_: None) -> list[bool]:
    return [os.path.samestat(os.fstat(fd), os.stat(os.devnull)) for fd in (1, 2)]


def yes() -> bool:
    return True


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChildProcess]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))  # for these functions
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    found = ChildProcess(str(tmp_path))
    yield found
    found.kill()


def test_one_process_does_all_tasks_with_one_thread_in_its_folder(
    child: ChildProcess, tmp_path: Path
) -> None:
    assert child.call(squared, 3, yes) == [9]
    ((process, folder, threads, places),) = child.call(told, str(tmp_path), yes)
    assert (Path(folder), set(threads), places) == (tmp_path.resolve(), {"1"}, [])
    assert child.call(told, "", yes)[0][0] == process != os.getpid()
    assert not child.ended


def test_a_child_of_a_process_without_standard_output_has_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    monkeypatch.setattr(sys, "stdout", None)
    child = ChildProcess(str(tmp_path))
    assert child.call(goes_nowhere, None, yes) == [[True, False]]
    child.kill()


def test_exceptions_of_a_task_propagate(child: ChildProcess) -> None:
    with pytest.raises(ValueError, match="seven"):
        child.call(failing, "seven", yes)
    assert child.call(squared, 3, yes) == [9]


def test_a_process_that_dies_has_no_result(child: ChildProcess) -> None:
    assert child.call(killed, None, yes) == []
    assert child.ended
    assert child.call(squared, 3, yes) == []


def test_a_process_whose_task_is_not_wanted_any_more_is_killed(
    child: ChildProcess, tmp_path: Path
) -> None:
    at = tmp_path / "at"
    assert child.call(sleeping, str(at), lambda: not at.exists()) == []
    assert child.ended


def test_a_process_whose_parent_was_killed_ends_without_a_word(
    child: ChildProcess, capfd: pytest.CaptureFixture[str]
) -> None:
    child._connection.send((time.sleep, 0.1))
    child._connection.close()
    assert child._process.wait(HANG_SECONDS) == 0
    assert capfd.readouterr().err == ""


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ChildProcess(str(tmp_path / "no"))
