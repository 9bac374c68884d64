"""The worker pool: distribution of pieces, errors, interrupts and forks."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.native import load, pool
from tests.kernels.native.building import python

# Counts how often each piece ran, and on which thread; optionally waits for other threads.
MODULE = "kernels.native.probe_numba"


def probe(name: str) -> Any:
    return load.kernel(MODULE, name)[""]


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("pieces", [1, 2, 5, 1000])
def test_every_piece_is_done_once(threads: int, pieces: int) -> None:
    for _ in range(20):
        done = np.zeros(pieces, np.int64)
        assert pool.run_shared(probe("count"), pieces, threads, done) == 0
        assert (done == 1).all()


def test_each_thread_begins_with_its_own_share() -> None:
    places, begun = np.zeros(100, np.int64), np.zeros(1, np.int64)
    assert pool.run_shared(probe("order"), 100, 2, places, begun, 2, grain=1) == 0
    assert sorted(places.tolist()) == list(range(100))
    assert sorted(places[[0, 50]].tolist()) == [0, 1]


def test_pieces_in_order_are_begun_in_their_order() -> None:
    places, begun = np.zeros(100, np.int64), np.zeros(1, np.int64)
    done = pool.run_shared(probe("order"), 100, 2, places, begun, 2, grain=1, in_order=True)
    assert done == 0
    assert sorted(places[:2].tolist()) == [0, 1]


def test_no_pieces_are_no_work() -> None:
    assert pool.run_shared(probe("count"), 0, 3, np.zeros(1, np.int64)) == 0


def test_the_greatest_status_of_all_threads_is_returned() -> None:
    statuses = np.array([0, 3, 0, 9, 4, 0, 1], np.int64)
    for threads in (1, 2, 4):
        assert pool.run_shared(probe("status"), len(statuses), threads, statuses, grain=1) == 9


@pytest.fixture
def allowed() -> Iterator[set[int]]:
    """The processors of this thread, which are restored."""
    before = os.sched_getaffinity(0)
    yield before
    os.sched_setaffinity(0, before)


def test_a_thread_loses_and_gets_a_processor(allowed: set[int]) -> None:
    one, allow = min(allowed), probe("allow")
    assert allow.call(0, 1, one, False) == (len(allowed) > 1)
    assert os.sched_getaffinity(0) == (allowed - {one} or allowed)
    assert allow.call(0, 1, one, False) == 0
    assert allow.call(0, 1, one, True) == (len(allowed) > 1)
    assert os.sched_getaffinity(0) == allowed


def test_a_thread_keeps_its_only_processor(allowed: set[int]) -> None:
    only = {min(allowed)}
    os.sched_setaffinity(0, only)
    assert probe("allow").call(0, 1, *only, False) == 0
    assert os.sched_getaffinity(0) == only


def test_a_thread_that_slept_wakes_on_another_processor(allowed: set[int]) -> None:
    if len(allowed) < 2:
        pytest.skip("needs two processors")
    same = 0
    for _ in range(12):
        # The system takes a processor for busy, though it is idle, after some milliseconds.
        time.sleep(0.012)
        cpus = np.full(2, -1, np.int64)
        pool.run_shared(probe("processors"), 2, 2, cpus, 30_000_000)
        same += cpus[0] == cpus[1]
    assert same <= 4  # with other load, threads may be late or moved


def test_a_woken_thread_may_run_everywhere_again(allowed: set[int]) -> None:
    pool.run_shared(probe("processors"), 3, 3, np.zeros(3, np.int64), 0)
    workers = [each for each in threading.enumerate() if each.name == "lod-worker"]
    assert len(workers) >= 2
    for each in workers:
        assert each.native_id is not None
        until = time.monotonic() + 60
        while os.sched_getaffinity(each.native_id) != allowed and time.monotonic() < until:
            time.sleep(0.001)
        assert os.sched_getaffinity(each.native_id) == allowed


def go_on() -> Any:
    """Return a word that stops nobody."""
    return np.zeros(1, np.int64)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_members_of_a_team_run_at_once(size: int) -> None:
    for _ in range(10):
        with pool.team(size) as team:
            assert team.size == size
            met = np.zeros(2, np.int64)
            # Each waits until all are there.
            team.run(probe("meet"), [[(met, size)]] * size, go_on())
        assert met.tolist() == [size, size]


@pytest.mark.parametrize("counts", [(3,), (2, 5), (4, 0, 1), (0, 70)])
def test_each_member_makes_its_own_calls(counts: tuple[int, ...]) -> None:
    for stopped in (0, 1):
        done = np.zeros(len(counts), np.int64)
        calls = [[(done[n:],)] * count for n, count in enumerate(counts)]
        with pool.team(len(counts)) as team:
            team.run(probe("count"), calls, np.array([stopped]))
        assert done.tolist() == [0 if stopped else count for count in counts]


def test_the_helpers_of_a_team_are_called_before_there_is_work() -> None:
    bell = pool._pool().words[:1]
    rung = int(bell[0])
    with pool.team(2):
        assert bell[0] == rung + 1
    with pool.team(1):
        assert bell[0] == rung + 1


def test_a_second_team_is_of_one() -> None:
    sizes = []

    def other() -> None:
        with pool.team(2) as second:
            sizes.append(second.size)
            second.run(probe("meet"), [[(np.zeros(2, np.int64), 1)]], go_on())

    with pool.team(2):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    with pool.team(2) as third:
        sizes.append(third.size)
    assert sizes == [1, 2]


def test_callers_at_once_get_each_what_they_asked_for() -> None:
    failed = []

    def call(seed: int) -> None:
        for n in range(200):
            pieces = 1 + (seed * 7 + n) % 50
            done = np.zeros(pieces, np.int64)
            status = pool.run_shared(probe("count"), pieces, 3, done, grain=1 + n % 3)
            if status or not (done == 1).all():
                failed.append((seed, n, done.tolist()))

    # More than there are slots.
    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    with pool.team(2) as team:
        for _ in range(50):
            met = np.zeros(2, np.int64)
            team.run(probe("meet"), [[(met, team.size)]] * team.size, go_on())
    for thread in threads:
        thread.join()
    assert not failed


INTERRUPTED = """
import _thread, signal, sys, threading, time
import numpy as np
from lodcli.kernels.native import load, pool
sleepy = load.kernel("kernels.native.probe_numba", "sleep_each")[""]
count = load.kernel("kernels.native.probe_numba", "count")[""]
done = np.zeros(100000, np.int64)
threading.Timer(0.3, _thread.interrupt_main).start()
began = time.monotonic()
try:
    pool.run_shared(sleepy, 100000, int(sys.argv[1]), done, 1_000_000, grain=1)
except KeyboardInterrupt:
    assert 0 < done.sum() < 100000
    held = done.copy()
    time.sleep(0.1)
    assert (done == held).all(), "somebody still works"
    more = np.zeros(10, np.int64)
    assert pool.run_shared(count, 10, 2, more) == 0 and (more == 1).all()
    print("interrupted")
"""


@pytest.mark.parametrize("threads", ["1", "3"])
def test_an_interrupt_is_handled_between_pieces(threads: str) -> None:
    done = python(INTERRUPTED, threads)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


TEAM_INTERRUPTED = """
import _thread, sys, threading
import numpy as np
from lodcli.kernels.native import load, pool
sleepy = load.kernel("kernels.native.probe_numba", "sleep_each")[""]
done, stopped = np.zeros(1, np.int64), np.zeros(1, np.int64)
others = [(done, 10_000_000)] * 1000
# The caller is interrupted between its calls; or after them, while it waits for the others.
for own in (others, []):
    threading.Timer(0.3, _thread.interrupt_main).start()
    try:
        with pool.team(3) as team:
            team.run(sleepy, [own, others, others], stopped)
    except KeyboardInterrupt:
        assert stopped[0] == 1
        stopped[0] = 0
        print("interrupted")
with pool.team(2) as team:
    before = done.copy()
    team.run(sleepy, [[(done, 1)], []], stopped)
    assert done - before == 1
"""


def test_an_interrupt_stops_all_members_of_a_team() -> None:
    done = python(TEAM_INTERRUPTED)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n" * 2, "")


FORKED = """
import os, sys, warnings
import numpy as np
from lodcli.kernels.native import load, pool
warnings.simplefilter("ignore")
count = load.kernel("kernels.native.probe_numba", "count")[""]
meet = load.kernel("kernels.native.probe_numba", "meet")[""]
def works():
    done, met = np.zeros(64, np.int64), np.zeros(2, np.int64)
    with pool.team(2) as team:
        team.run(meet, [[(met, team.size)]] * team.size, np.zeros(1, np.int64))
    return pool.run_shared(count, 64, 3, done) == 0 and (done == 1).all() and team.size == 2
assert works()
with pool.team(2):
    child = os.fork()  # while the team is lent: the child gets its own all the same
if child == 0:
    os._exit(0 if works() else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert works()
"""


def test_a_forked_child_makes_its_own_threads() -> None:
    done = python(FORKED)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_more_threads_the_caller_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool, "_current", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = np.zeros(50, np.int64)
    assert pool.run_shared(probe("count"), 50, 4, done) == 0
    assert (done == 1).all()
    with pool.team(4) as team:
        assert team.size == 1
