"""Pool of worker processes, for `--jobs`.

The processes are started with "spawn". Each has a share of the cores, which limits the threads of
all libraries in it. This module imports no NumPy: the share is set before NumPy is loaded.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from lodcli.kernels.platform.processes import ENDING, deaf_to, hear
from lodcli.kernels.runtime.child_process import THREADS, do_task

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnContext

T = TypeVar("T")
R = TypeVar("R")

# How often a task is started before it fails, if its process dies each time.
TRIES = 3
# A process that is stopped (SIGSTOP) for this long is killed, and its task restarted.
STOPPED_SECONDS = 60
# Interval of checks for stopped processes.
_TICK_SECONDS = 1.0


def in_processes(
    work: Callable[[T], R],
    tasks: Sequence[T],
    jobs: int,
    *,
    lost: Callable[[T, OSError], R],
    threads: int | None = None,
    shield: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Generator[tuple[int, R], None, None]:
    """Yield the number of every task and `work(task)`, in the order in which they finish.

    A task whose process is killed or dies is restarted. Closing the generator kills the
    processes. Each process has an equal share of the memory budget.

    Args:
        work: a module-level function whose results and exceptions can be pickled.
        tasks: its arguments.
        jobs: number of processes; at most that of the tasks and `thread_count` of this process.
        lost: returns the result of a task whose processes died TRIES times.
        threads: of each process; by default an equal share of the cores.
        shield: context in which a process is started; it defers interrupts of this thread, also
            those whose signals another thread of this process gets.

    Raises:
        Exception: the first exception of `work` propagates.
    """
    from lodcli.kernels.runtime.memory_budget import shared_budget
    from lodcli.kernels.runtime.threads import thread_count

    count = min(jobs, len(tasks), thread_count())
    if not count:
        return
    share = thread_count() // count if threads is None else threads
    settings = dict.fromkeys(THREADS, str(share))
    if (budget := shared_budget(count)) is not None:
        settings["LOD_MEMORY"] = str(budget)
    processes = _Processes(count, settings, shield)
    deaths = Counter[int]()
    waiting = list(reversed(range(len(tasks))))
    finished = 0
    try:
        while finished < len(tasks):
            processes.begin(work, tasks, waiting)
            for number, answer in processes.answers():
                if answer is None:
                    deaths[number] += 1
                    if deaths[number] < TRIES:
                        waiting.append(number)
                        continue
                    result = lost(tasks[number], _death())
                elif isinstance(answer[0], BaseException):
                    raise answer[0]
                else:
                    result = answer[1]
                finished += 1
                yield number, result
    finally:
        processes.kill()


def _death() -> OSError:
    what = f"its process was killed, or died, {TRIES} times; fewer --jobs take less memory"
    return OSError(errno.ECHILD, what)


class _Process:
    """One process, and the number of the task that it runs."""

    def __init__(self, context: SpawnContext, settings: dict[str, str]) -> None:
        self.connection, theirs = context.Pipe()
        # A daemon ends with its parent even if an exception keeps `kill` from being called.
        self.process = context.Process(target=_serve, args=(theirs, settings), daemon=True)
        self.process.start()
        theirs.close()
        self.task: int | None = None
        self.stopped_ticks = 0

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class _Processes:
    """A number of processes, started when they are needed."""

    def __init__(
        self,
        count: int,
        settings: dict[str, str],
        shield: Callable[[], AbstractContextManager[object]],
    ) -> None:
        import multiprocessing

        self._context = multiprocessing.get_context("spawn")
        self._count = count
        self._settings = settings
        self._shield = shield
        self._all: list[_Process] = []
        self._ticked = time.monotonic()

    def begin(self, work: Callable[[T], R], tasks: Sequence[T], waiting: list[int]) -> None:
        """Give each process that has none the last task of `waiting`."""
        idle = sum(one.task is None for one in self._all)
        for _ in range(min(self._count - len(self._all), len(waiting) - idle)):
            ensure_tracker()
            # An interrupted start leaves a process that prints a traceback, and so does a new
            # process that is interrupted before it handles signals, as by Ctrl-C.
            with self._shield(), deaf_to(ENDING):
                self._all.append(_Process(self._context, self._settings))
        for one in list(self._all):
            if one.task is None and waiting:
                try:
                    one.connection.send((work, tasks[waiting[-1]]))
                except OSError:  # it died meanwhile
                    self._remove(one)
                else:
                    one.task = waiting.pop()

    def answers(self) -> list[tuple[int, tuple[Any, Any] | None]]:
        """Wait, and return numbers of tasks with exception and result; None if the process died."""
        from multiprocessing.connection import wait

        self._tick()
        busy = [one for one in self._all if one.task is not None]
        ready = set(wait([place for one in busy for place in _places(one)], timeout=_TICK_SECONDS))
        found: list[tuple[int, tuple[Any, Any] | None]] = []
        for one in busy:
            if ready.isdisjoint(_places(one)):
                continue
            assert one.task is not None
            number, one.task = one.task, None
            try:
                found.append((number, one.connection.recv() if one.connection.poll() else None))
            except (EOFError, OSError):
                found.append((number, None))
            if found[-1][1] is None:
                self._remove(one)
        return found

    def _tick(self) -> None:
        """Kill processes that have been stopped for too long.

        Counts ticks instead of seconds, so that time in which this process itself is stopped does
        not count.
        """
        from lodcli.kernels.platform.processes import is_stopped

        now = time.monotonic()
        if now - self._ticked < _TICK_SECONDS:
            return
        self._ticked = now
        for one in self._all:
            pid = one.process.pid
            one.stopped_ticks = one.stopped_ticks + 1 if pid and is_stopped(pid) else 0
            if one.stopped_ticks * _TICK_SECONDS > STOPPED_SECONDS:
                one.process.kill()

    def _remove(self, one: _Process) -> None:
        self._all.remove(one)
        one.kill()

    def kill(self) -> None:
        for one in self._all:
            one.process.kill()
        while self._all:
            self._all.pop().kill()


def ensure_tracker() -> None:
    """Start the process of multiprocessing that each start needs.

    Later it would unblock signals that the caller blocks. It ignores SIGINT and SIGTERM, and the
    others that end a command are blocked in it.

    Raises:
        FileNotFoundError: the current folder was deleted.
    """
    if os.name == "posix":
        from multiprocessing.resource_tracker import ensure_running

        os.getcwd()  # in a deleted folder Python 3.13 cannot start it, and prints a traceback
        with deaf_to(ENDING):
            ensure_running()


def _places(one: _Process) -> tuple[Connection[Any, Any], int]:
    return one.connection, one.process.sentinel


# -- in the processes ------------------------------------------------------------------


def _serve(connection: Connection[Any, Any], settings: dict[str, str]) -> None:
    """Run tasks one after another; ignores interrupts, and ends when the parent ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hear(ENDING)
    os.environ.update(settings)
    try:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    except RuntimeError:  # no more threads; the parent reports that this process died
        os._exit(1)
    while True:
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        do_task(connection, data)


def _end_with_parent() -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
