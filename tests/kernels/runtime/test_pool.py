"""Threads of our own: who gets them, what they do with errors, interrupts and forks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from lodcli.kernels.runtime.thread_pool import team
from tests.hanging import HANG_SECONDS


def nothing() -> None:
    """Stop nobody."""


def test_every_member_runs_once_on_a_thread_of_its_own() -> None:
    seen: list[tuple[int, int]] = []
    meeting = threading.Barrier(3, timeout=HANG_SECONDS)

    def job(member: int) -> None:
        meeting.wait()  # passes only where all three run at once
        seen.append((member, threading.get_ident()))

    with team(3) as three:
        assert three.size == 3
        three.run(job, nothing)
        three.run(job, nothing)
    assert sorted(member for member, _ in seen) == [0, 0, 1, 1, 2, 2]
    assert dict(seen)[0] == threading.get_ident()
    assert len({thread for _, thread in seen}) == 3


def test_a_second_caller_works_alone() -> None:
    sizes = []

    def other() -> None:
        with team(2) as second:
            sizes.append(second.size)
            second.run(sizes.append, nothing)

    with team(2):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    with team(2) as third:
        sizes.append(third.size)
    assert sizes == [1, 0, 2]


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_stops_the_others_and_comes_out(failing: int) -> None:
    stopped = threading.Event()

    def job(member: int) -> None:
        if member == failing:
            raise ValueError(f"member {member}")
        assert stopped.wait(HANG_SECONDS)

    with team(2) as both, pytest.raises(ValueError, match=f"member {failing}"):
        both.run(job, stopped.set)
    with team(2) as both:
        both.run(lambda member: None, nothing)


def test_an_interrupt_stops_the_others_and_comes_out() -> None:
    stopped = threading.Event()

    def job(member: int) -> None:
        if member == 0:
            signal.raise_signal(signal.SIGINT)
        assert stopped.wait(HANG_SECONDS)

    with team(2) as both, pytest.raises(KeyboardInterrupt):
        both.run(job, stopped.set)


def test_an_interrupt_while_waiting_for_the_others_comes_out() -> None:
    stopped, waiting = threading.Event(), threading.Event()

    def job(member: int) -> None:
        if member:
            time.sleep(0.2)  # until the caller sleeps too
            os.kill(os.getpid(), signal.SIGINT)
            waiting.set()
            assert stopped.wait(HANG_SECONDS)

    with team(2) as both, pytest.raises(KeyboardInterrupt):
        both.run(job, stopped.set)
    assert waiting.is_set()


def test_a_forked_child_makes_its_own_threads() -> None:
    script = """
import os, warnings
warnings.simplefilter("ignore")
from lodcli.kernels.runtime.thread_pool import team
seen = []
with team(2) as both:
    both.run(seen.append, lambda: None)
    child = os.fork()  # while the pool is lent: the child gets a fresh one all the same
if child == 0:
    with team(2) as own:
        own.run(seen.append, lambda: None)
    os._exit(0 if sorted(seen) == [0, 0, 1, 1] and own.size == 2 else 1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert subprocess.run([sys.executable, "-c", script], timeout=HANG_SECONDS).returncode == 0
