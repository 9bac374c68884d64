"""Worker pool: threads that take pieces of a kernel from a shared queue.

The threads sleep in compiled code (pool_numba.py) and take pieces without the interpreter, so
they wake within microseconds. Several callers may use them at once. A waiting caller handles
interrupts. After a fork the child has a separate pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from lodcli.kernels.index.immutable import Array
from lodcli.kernels.native.calls import Kernel, address
from lodcli.kernels.native.load import Kernels, kernel
from lodcli.kernels.runtime.threads import thread_count

# Work that reads and writes fewer bytes is done by the caller alone: docs/decisions/0022.
SHARED_BYTES = 1 << 22
# Compiled code returns to a caller after this long, so that Python can handle interrupts.
_PATIENCE_NANOSECONDS = 50_000_000
# Maximum number of assignments for each thread: more pieces are assigned several at a time.
_TURNS = 16

# Constants of pool_numba.py, which cannot be imported without numba.
_MOST_SHARES, _MOST_THREADS = 16, 1 << 10
_WORDS, _NOT_YET = 24 + 8 * (16 + 8 * _MOST_SHARES) + 2 * _MOST_THREADS, -(1 << 62)
_MODULE = "kernels.native.pool_numba"

Arguments = Sequence[Any]


def run(kernels: Kernel, pieces: int, size_bytes: int, *arguments: Any) -> int:
    """Run all pieces of a kernel; return the greatest status.

    Uses several threads if `size_bytes`, read and written, is large enough. The result must not
    depend on the assignment of pieces to threads.
    """
    if size_bytes < SHARED_BYTES or pieces < 2:
        return kernels.call(0, pieces, *arguments)
    return run_shared(kernels, pieces, thread_count(), *arguments)


def run_shared(
    kernels: Kernel,
    pieces: int,
    threads: int,
    *arguments: Any,
    grain: int = 0,
    in_order: bool = False,
) -> int:
    """Run all pieces of a kernel with up to `threads` threads; return the greatest status.

    Args:
        grain: number of pieces that a thread takes at once; 0 chooses it.
        in_order: whether pieces start in order, which is needed if a piece waits for the one
            before; else each thread starts with its own share.
    """
    pool = _pool()
    helpers = pool.helpers(max(1, min(threads, pieces)) - 1)
    grain = grain or max(1, pieces // (_TURNS * (helpers + 1)))
    shares = 1 if in_order else min(helpers + 1, _MOST_SHARES)
    return pool.run(kernels, arguments, pieces, grain, helpers, shares)


@dataclass(frozen=True)
class Team:
    """Threads reserved for one caller, including its own.

    Attributes:
        size: number of threads.
    """

    size: int

    def run(self, kernels: Kernel, calls: Sequence[Sequence[Arguments]], stopped: Array) -> None:
        """Run the calls of all members concurrently; return when all are done.

        The caller is member 0. It handles interrupts between two of its calls, so each call should
        take about 50 ms. Members may wait for each other.

        Args:
            calls: for each member, the arguments of its calls of the kernel, in order.
            stopped: int64; once its first word is not 0, no member starts another call. It is set
                if a call fails or is interrupted: a kernel that waits for another member must
                check it.
        """
        if self.size == 1:
            _call_each(kernels, calls[0], stopped)
            return
        packs = [kernels.pack(*each) for own in calls[1:] for each in own]
        blocks = np.array([address(each) for each in packs], np.int64)
        starts = np.array([0, *accumulate(map(len, calls[1:]), initial=0)], np.int64)
        ticket = np.zeros(1, np.int64)
        block = _own("call_each").pack(kernels.address, blocks, starts, address(stopped))
        mine = address(ticket)
        try:
            _own("begin").call(
                *(0, 1, mine, address(_pool().words), _own("call_each").address),
                *(address(block), self.size),
            )
            _call_each(kernels, calls[0], stopped)
            # Members that no thread has started are run from here, where Python handles interrupts.
            while (member := _own("take").call(0, 1, mine)) > 0:
                _call_each(kernels, calls[member], stopped)
            status = _finished(mine)
        except BaseException:
            stopped[0] = 1
            _wait(ticket)
            raise
        kernels.settled(status)


def _call_each(kernels: Kernel, calls: Sequence[Arguments], stopped: Array) -> None:
    for arguments in calls:
        if stopped[0]:
            return
        kernels.call(0, 1, *arguments)


def team(threads: int) -> AbstractContextManager[Team]:
    """Return a context of a team of up to `threads` threads; of one if another caller has it."""
    return _alone() if threads == 1 else _reserved(threads)


@cache
def _alone() -> AbstractContextManager[Team]:
    return nullcontext(Team(1))


@contextmanager
def _reserved(threads: int) -> Iterator[Team]:
    pool = _pool()
    if not pool.team.acquire(blocking=False):
        yield Team(1)
        return
    try:
        helpers = pool.helpers(threads - 1)
        # Wake them now, so that they are awake once the caller has prepared their calls.
        _own("ring").call(0, 1, address(pool.words), helpers)
        yield Team(1 + helpers)
    finally:
        pool.team.release()


@dataclass
class _Pool:
    """The worker threads of this process.

    Attributes:
        words: state shared with compiled code; never freed, because the threads do not end.
        team: lock held by the caller that has the team.
        count: number of worker threads.
    """

    words: Array = field(default_factory=lambda: _aligned_words(_WORDS))
    lock: Any = field(default_factory=threading.Lock)
    team: Any = field(default_factory=threading.Lock)
    count: int = 0

    def helpers(self, wanted: int) -> int:
        """Return the number of worker threads, up to `wanted`; starts missing ones."""
        if self.count < wanted:
            with self.lock:
                self._grow(min(wanted, _MOST_THREADS))
        return min(wanted, self.count)

    def _grow(self, wanted: int) -> None:
        while self.count < wanted:
            thread = threading.Thread(target=self._serve, name="lod-worker", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is about to end
                return
            self.count += 1

    def _serve(self) -> None:
        _own("serve").call(0, 1, address(self.words), threading.get_native_id())

    def run(
        self, kernels: Kernel, arguments: Any, pieces: int, grain: int, helpers: int, shares: int
    ) -> int:
        """Run all pieces; return the greatest status."""
        block = kernels.pack(*arguments)
        ticket = np.zeros(1, np.int64)
        mine = address(ticket)
        try:
            status = _own("run").call(
                *(0, 1, mine, address(self.words), kernels.address, address(block)),
                *(pieces, grain, helpers, shares, _PATIENCE_NANOSECONDS),
            )
            if status == _NOT_YET:
                status = _finished(mine)
        except BaseException:
            if ticket[0]:
                _own("stop").call(0, 1, mine)
            _wait(ticket)
            raise
        return kernels.settled(status)


def _finished(ticket: int) -> int:
    """Wait until all pieces are done, handling interrupts; return the greatest status."""
    status = _NOT_YET
    while status == _NOT_YET:
        status = _own("finish").call(0, 1, ticket, _PATIENCE_NANOSECONDS)
    return status


def _wait(ticket: Array) -> None:
    """Wait until no thread works on a task any more; ignores KeyboardInterrupt."""
    while ticket[0]:
        with suppress(KeyboardInterrupt):
            _finished(address(ticket))


_current: list[_Pool] = []


def _pool() -> _Pool:
    if not _current:
        _current.append(_Pool())
    return _current[0]


def _after_fork() -> None:
    """Forget the parent's pool: its threads do not exist in the child."""
    _current.clear()


os.register_at_fork(after_in_child=_after_fork)


@cache
def _kernels(name: str) -> Kernels:
    return kernel(_MODULE, name)


def _own(name: str) -> Kernel:
    return _kernels(name)[""]


def _aligned_words(count: int) -> Array:
    """Return `count` zeros, aligned to a cache line."""
    room = np.zeros(count + 8, np.int64)
    first = -address(room) % 64 // 8
    return room[first : first + count]
