"""Tasks on the workers of a Dask cluster: `--scheduler`.

Tasks name files, and results are small: rows never pass through the scheduler. On a worker each
thread has a separate process for the tasks of a command (`ChildProcess`): with one thread, the
command's folder and fresh modules, whatever the worker was started with.
"""

from __future__ import annotations

import errno
import functools
import logging
import os
import queue
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

from lodcli.formats.catalogue.packages import Package
from lodcli.formats.storage.interrupts import XCPU, shielded
from lodcli.kernels.errors import LodError
from lodcli.kernels.platform.processes import ENDING, deaf_to
from lodcli.kernels.runtime.child_process import ChildProcess
from lodcli.kernels.runtime.threads import thread_count
from lodcli.kernels.runtime.worker_processes import STOPPED_SECONDS, TRIES, ensure_tracker
from lodcli.shell.targets import LOCAL_SCHEDULER

T = TypeVar("T")
R = TypeVar("R")

# The command ends after this time without a worker, or without an answer of the scheduler.
NO_WORKER_SECONDS = 300
SILENT_SECONDS = 60

_PACKAGE = Package("distributed", "lodcli[dask]")
# Creates the certificates of a cluster on this machine.
_CERTIFICATES = Package("cryptography", "lodcli[dask]")
# Target duration of a group of tasks: long compared with the scheduler's 1 ms for each.
_GROUP_SECONDS = 5.0
_MOST_GROUPS = 100_000
# At least this many groups are submitted at a time, so that an adaptive cluster adds workers.
_FEWEST_WAITING = 100
_TICK_SECONDS = 1.0
# For `local`: when a worker is considered dead; and no status pages.
_OF_LOCAL = {
    "distributed.scheduler.worker-ttl": f"{STOPPED_SECONDS} s",
    "distributed.scheduler.http.routes": [],
    "distributed.worker.http.routes": [],
}
_ASKED_EVERY = 10  # ticks
# Signals that all processes of a command may get at once. It ends its workers itself, by SIGTERM;
# SIGXCPU is for the one process that has used up its time.
_OF_COMMANDS = [one for one in ENDING if one not in (signal.SIGTERM, XCPU)]


class _Group(NamedTuple):
    """Tasks that run one after another on one worker.

    Attributes:
        key: their key in the scheduler.
        run: identifies the command: each command has its own processes.
        version: of lod.
        folder: working directory of the processes.
        work, tasks: the function, and its arguments.
    """

    key: str
    run: str
    version: str
    folder: str
    work: Callable[[Any], Any]
    tasks: tuple[Any, ...]


class _Answer(NamedTuple):
    """Results of a group.

    Attributes:
        results: for each task a list of its result; empty if its process died.
        seconds: the time that the group took.
    """

    results: list[list[Any]]
    seconds: float


def on_scheduler(
    work: Callable[[T], R],
    tasks: Sequence[T],
    address: str,
    jobs: int | None,
    *,
    lost: Callable[[T, OSError], R],
) -> Generator[tuple[int, R], None, None]:
    """Yield the number of every task and `work(task)`, in the order in which they finish.

    A task whose process or worker dies is restarted. Closing the generator cancels the other
    tasks, and kills their processes.

    Args:
        work: a module-level function whose results and exceptions can be pickled.
        tasks: its arguments.
        address: of a scheduler, or "local" for one with workers on this machine, for this call.
        jobs: the number of workers of "local".
        lost: returns the result of a task whose processes died TRIES times.

    Raises:
        UnsupportedError: a package is not installed.
        LodError: a worker cannot run these tasks.
        OSError: the scheduler or all workers ended.
        Exception: the first exception of `work` propagates.
    """
    _PACKAGE.require("--scheduler")
    if address == LOCAL_SCHEDULER:
        _CERTIFICATES.require("--scheduler local")
    with _connected(address, jobs) as client:
        queued = _Queue(client, address, work, tasks)
        deaths = Counter[int]()
        while queued.unfinished:
            for number, result in queued.next_results():
                if not result:
                    deaths[number] += 1
                    if deaths[number] < TRIES:
                        queued.again(number)
                        continue
                    result = [lost(tasks[number], _death())]
                queued.unfinished -= 1
                yield number, result[0]


@functools.cache
def _version() -> str:
    return version("lodcli")


def _death() -> OSError:
    return OSError(errno.ECHILD, f"its process was killed, or died, {TRIES} times")


@contextmanager
def _connected(address: str, jobs: int | None) -> Iterator[Any]:
    """Yield a client of a scheduler. Dask's log is not printed: errors have the relevant part."""
    import dask
    from distributed import Client

    with ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable()
        place: Any = address
        count = 0
        if address == LOCAL_SCHEDULER:
            count = min(jobs or thread_count(), thread_count())
            stack.enter_context(dask.config.set(_OF_LOCAL))
            place = stack.enter_context(_local_cluster(count))
        try:
            client = stack.enter_context(Client(place, set_as_default=False))
            if count:
                client.wait_for_workers(count, NO_WORKER_SECONDS)
        except (OSError, ValueError, TypeError) as error:
            what = str(error).partition("\n")[0]
            raise OSError(errno.ECONNREFUSED, f"no scheduler answers ({what})", address) from error
        yield client


@contextmanager
def _local_cluster(count: int) -> Iterator[Any]:
    """Yield a cluster that starts this number of workers on this machine.

    Workers are killed at the end. One that is asked to close waits for its task, or until it has
    started: longer than the watchdog waits for the end of an interrupted command.
    """
    from multiprocessing import active_children

    from distributed import LocalCluster, Security
    from distributed.utils import LoopRunner

    ensure_tracker()  # it would unblock signals
    runner = LoopRunner()
    with deaf_to(_OF_COMMANDS):  # processes started by its thread inherit this
        runner.start()
    with ExitStack() as stack:
        stack.callback(runner.stop)
        with shielded():  # the exit of a cluster that was not entered prints to its log
            cluster = stack.enter_context(
                LocalCluster(
                    n_workers=0,
                    threads_per_worker=1,
                    memory_limit=1 / count,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                    security=Security.temporary(),
                    loop=runner.loop,
                )
            )
        try:
            cluster.scale(count)  # in the background: an interrupt need not wait for it
            yield cluster
        finally:
            for nanny in cluster.workers.values():
                nanny.close_gracefully()  # starts no other worker
            for worker in active_children():
                worker.kill()


class _Queue:
    """Tasks on their way through the scheduler.

    Attributes:
        unfinished: how many tasks have no result yet; counted down by the caller.
    """

    def __init__(
        self, client: Any, address: str, work: Callable[[Any], Any], tasks: Sequence[Any]
    ) -> None:
        self._client, self._address, self._work, self._tasks = client, address, work, tasks
        self.unfinished = len(tasks)
        self._run, self._folder = uuid4().hex, os.getcwd()
        self._waiting = list(reversed(range(len(tasks))))
        self._begun: dict[Any, list[int]] = {}
        self._finished: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._seconds, self._measured = 0.0, 0
        self._ticks = self._without_worker = 0
        self._threads = 0
        self._ask()

    def again(self, number: int) -> None:
        """Restart a task."""
        self._waiting.append(number)

    def next_results(self) -> Iterator[tuple[int, list[Any]]]:
        """Wait for a group, and yield the numbers of its tasks and their results."""
        while self._waiting and len(self._begun) < max(2 * self._threads, _FEWEST_WAITING):
            self._submit()
        try:
            future = self._finished.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            self._tick()
            return
        numbers = self._begun.pop(future)
        answer = self._answer(future)
        self._seconds += answer.seconds
        self._measured += len(numbers)
        yield from zip(numbers, answer.results, strict=True)

    def _submit(self) -> None:
        numbers = [self._waiting.pop() for _ in range(min(self._size(), len(self._waiting)))]
        key = f"lod-{self._run}-{numbers[0]}-{uuid4().hex[:8]}"
        group = _Group(
            key,
            self._run,
            _version(),
            self._folder,
            self._work,
            tuple(self._tasks[number] for number in numbers),
        )
        future = self._client.submit(_do, group, key=key, pure=False)
        self._begun[future] = numbers
        future.add_done_callback(self._finished.put)

    def _size(self) -> int:
        """Return how many of the waiting tasks to put in a group."""
        fewest = -(-len(self._tasks) // _MOST_GROUPS)
        if not self._measured:
            return fewest
        fair = len(self._waiting) // (2 * max(self._threads, 1))
        wanted = int(_GROUP_SECONDS * self._measured / max(self._seconds, 1e-3))
        return max(fewest, min(wanted, fair), 1)

    def _answer(self, future: Any) -> _Answer:
        """Return the results of a group.

        Raises:
            OSError, LodError: the group failed.
        """
        from distributed.comm.core import CommClosedError
        from distributed.scheduler import KilledWorker

        try:
            found: _Answer = future.result()
            return found
        except (CancelledError, CommClosedError) as error:
            raise OSError(errno.ECONNRESET, "the scheduler ended", self._address) from error
        except KilledWorker as error:
            what = "workers died, or were killed, repeatedly at the same tasks"
            raise OSError(errno.ECHILD, what, self._address) from error
        except (LodError, OSError):
            raise
        except Exception as error:
            what = " ".join(f"{type(error).__name__}: {error}".split())
            raise LodError(
                f"{self._address}: a worker cannot run lod ({what}); all need lodcli {_version()}"
            ) from error

    def _tick(self) -> None:
        """Check a cluster that has not returned results for a while.

        Ticks are counted, not seconds: time in which this process is stopped does not count.
        """
        self._ticks += 1
        if self._ticks % _ASKED_EVERY:
            return
        self._ask()
        self._without_worker = 0 if self._threads else self._without_worker + _ASKED_EVERY
        if self._without_worker * _TICK_SECONDS >= NO_WORKER_SECONDS:
            what = f"the scheduler has had no worker for {NO_WORKER_SECONDS} s"
            raise OSError(errno.ETIMEDOUT, what, self._address)

    def _ask(self) -> None:
        """Ask for the number of threads of all workers."""
        try:
            found = self._client.sync(
                self._client.scheduler.ncores, callback_timeout=SILENT_SECONDS
            )
        except (OSError, AttributeError) as error:  # TimeoutError as well
            what = f"the scheduler ended, or has not answered for {SILENT_SECONDS} s"
            raise OSError(errno.ETIMEDOUT, what, self._address) from error
        self._threads = sum(found.values())


# -- on workers ------------------------------------------------------------------------

_child = threading.local()


def _do(group: _Group) -> _Answer:
    """Run the tasks of a group, on a worker.

    Raises:
        LodError: this worker cannot run them.
    """
    from distributed import get_worker

    worker = get_worker()
    if _version() != group.version:
        raise LodError(
            f"{worker.address}: has lodcli {_version()}, and this is {group.version}; "
            "install the same on all workers"
        )

    def wanted() -> bool:
        """Return whether the command still waits for this group."""
        task = worker.state.tasks.get(group.key)
        return task is not None and task.state != "cancelled"

    begun = time.monotonic()
    results = []
    for task in group.tasks:
        results.append(_process_of(group, worker.address).call(group.work, task, wanted))
        if not wanted():
            break
    return _Answer(results, time.monotonic() - begun)


def _process_of(group: _Group, address: str) -> ChildProcess:
    """Return this thread's process for a command."""
    run, child = getattr(_child, "found", ("", None))
    if child is not None and run == group.run and not child.ended:
        return child  # type: ignore[no-any-return]
    if child is not None:
        with suppress(OSError):
            child.kill()
    try:
        child = ChildProcess(group.folder)
    except FileNotFoundError:
        raise LodError(
            f"{address}: has no folder {group.folder}; workers need the files of this command "
            "under the same names"
        ) from None
    _child.found = group.run, child
    return child
