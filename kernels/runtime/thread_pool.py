"""Threads of our own, for compiled code that shares its work out itself.

They sleep while there is nothing to do. Only one caller has them at a time: another that
comes meanwhile works alone, so that the processors are never asked for more threads than
there are. After a fork the child makes its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

Job = Callable[[int], None]


class _Worker:
    """A thread that runs one job after another."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._work, name="lod-worker", daemon=True).start()

    def _work(self) -> None:
        while True:
            # Not kept in a name: nothing of the caller's may outlive its job here.
            self.jobs.get()()


@dataclass
class _Pool:
    lock: Any = field(default_factory=threading.Lock)
    workers: list[_Worker] = field(default_factory=list)


_pool = _Pool()


def _after_fork() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@dataclass(frozen=True)
class Team:
    """The threads that a caller has for a while, itself among them.

    Attributes:
        size: how many.
    """

    size: int
    _workers: list[_Worker]

    def run(self, job: Job, stop: Callable[[], None]) -> None:
        """Run job(0) here and job(1) .. job(size - 1) on the others; return when all are done.

        Args:
            stop: called when one fails or is interrupted; should make the others end soon.

        Raises:
            BaseException: what the first one raised that failed.
        """
        outcomes: list[BaseException | None] = []
        wake: SimpleQueue[None] = SimpleQueue()

        def guarded(member: int) -> None:
            outcome: BaseException | None = None
            try:
                job(member)
            except BaseException as error:
                stop()
                outcome = error
            outcomes.append(outcome)
            wake.put(None)

        try:
            for member, worker in enumerate(self._workers, start=1):
                worker.jobs.put(partial(guarded, member))
            guarded(0)
            interrupt = self._wait(outcomes, wake, stop)
        except BaseException:
            stop()
            raise
        for error in (*outcomes, interrupt):
            if error is not None:
                raise error

    def _wait(
        self,
        outcomes: list[BaseException | None],
        wake: SimpleQueue[None],
        stop: Callable[[], None],
    ) -> KeyboardInterrupt | None:
        """Return when all outcomes are there; an interrupt that came meanwhile."""
        interrupt = None
        while True:
            try:
                # Not counted by what comes out of the queue: an interrupt may swallow that.
                while len(outcomes) < self.size:
                    # Not for ever: a signal that came just before is seen only when this returns.
                    with suppress(Empty):
                        wake.get(timeout=0.1)
                return interrupt
            except KeyboardInterrupt as raised:
                stop()
                interrupt = raised


@contextmanager
def team(threads: int) -> Iterator[Team]:
    """Give a team of so many threads, or of one, this one, while another caller has them."""
    pool = _pool
    if threads == 1 or not pool.lock.acquire(blocking=False):
        yield Team(1, [])
        return
    try:
        while len(pool.workers) < threads - 1:
            pool.workers.append(_Worker())
        yield Team(threads, pool.workers[: threads - 1])
    finally:
        pool.lock.release()
