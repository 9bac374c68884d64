"""Worker pool: threads that take pieces of a kernel from a shared queue.

The threads sleep in compiled code (pool_numba.py) and take pieces without the interpreter: they are
awake in some microseconds. Several callers may use them at once. A caller that waits handles
interrupts. After a fork the child has a separate pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import Any

import numpy as np

from lodcli.kernels.index.immutable import Array
from lodcli.kernels.native.calls import Kernel, address
from lodcli.kernels.native.load import Kernels, kernel
from lodcli.kernels.runtime.threads import thread_count

# Work of fewer bytes, read and written, is done by the caller alone: docs/decisions/0022.
SHARED_BYTES = 1 << 22
# After so long a caller looks whether it is to be interrupted.
_PATIENCE_NANOSECONDS = 50_000_000
_MOST_THREADS = 1 << 10
# Maximum number of assignments for each thread: more pieces are assigned several at a time.
_TURNS = 16

# The words of pool_numba.py.
_MOST_SHARES = 16
_WORDS, _NOT_YET = 24 + 8 * (16 + 8 * _MOST_SHARES), -(1 << 62)
_MODULE = "kernels.native.pool_numba"

Arguments = Sequence[Any]


def run(kernels: Kernel, pieces: int, size_bytes: int, *arguments: Any) -> int:
    """Do all pieces of a kernel that reads and writes so many bytes; return the greatest status.

    By several threads if that is faster: the result must not depend on the assignment of pieces.
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
    """Do all pieces of a kernel with up to so many threads; return the greatest status.

    Args:
        grain: how many pieces a thread takes at once.
        in_order: whether pieces are begun in their order, as those have to be that wait for the one
            before; else each thread begins with its own share.
    """
    pool = _pool()
    helpers = pool.helpers(max(1, min(threads, pieces)) - 1)
    grain = grain or max(1, pieces // (_TURNS * (helpers + 1)))
    shares = 1 if in_order else min(helpers + 1, _MOST_SHARES)
    return pool.run(kernels, arguments, pieces, grain, helpers, shares)


@dataclass(frozen=True)
class Team:
    """Threads that a caller has for a while, itself among them.

    Attributes:
        size: how many.
    """

    size: int

    def run(self, kernels: Kernel, calls: Sequence[Sequence[Arguments]], stopped: Array) -> None:
        """Call a kernel as each member is to, all members at once; return when all are done.

        The caller is member 0, and handles interrupts between two of its calls: give each some
        50 ms of work. Members may wait for each other.

        Args:
            calls: of each member, the arguments of its calls, one after another.
            stopped: int64; once its first word is not 0, no member begins another call. It is set
                if a call fails or is interrupted: what waits for another member has to look at it.
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
            # Members that no thread has begun with yet, called from here: interrupts are heard.
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


@contextmanager
def team(threads: int) -> Iterator[Team]:
    """Yield a team of so many threads, or of all if there are fewer; of one if it is in use."""
    pool = _pool()
    if threads == 1 or not pool.team.acquire(blocking=False):
        yield Team(1)
        return
    try:
        helpers = pool.helpers(threads - 1)
        # They are awake by the time the caller knows what each is to do.
        _own("ring").call(0, 1, address(pool.words), helpers)
        yield Team(1 + helpers)
    finally:
        pool.team.release()


@dataclass
class _Pool:
    """The threads of this process.

    Attributes:
        words: what compiled code knows of them; never freed, for they do not end.
        team: held by who has a team.
    """

    words: Array = field(default_factory=lambda: _aligned_words(_WORDS))
    lock: Any = field(default_factory=threading.Lock)
    team: Any = field(default_factory=threading.Lock)
    count: int = 0

    def helpers(self, wanted: int) -> int:
        """Return how many threads there are besides the caller, up to `wanted`."""
        if self.count < wanted:
            with self.lock:
                self._grow(min(wanted, _MOST_THREADS))
        return min(wanted, self.count)

    def _grow(self, wanted: int) -> None:
        arguments = (0, 1, address(self.words))
        while self.count < wanted:
            thread = threading.Thread(
                target=_own("serve").call, args=arguments, name="lod-worker", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:  # no more threads, or the interpreter is about to end
                return
            self.count += 1

    def run(
        self, kernels: Kernel, arguments: Any, pieces: int, grain: int, helpers: int, shares: int
    ) -> int:
        """Do all pieces; return the greatest status."""
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
    """Return the greatest status when all is done; interrupts are heard between two calls."""
    status = _NOT_YET
    while status == _NOT_YET:
        status = _own("finish").call(0, 1, ticket, _PATIENCE_NANOSECONDS)
    return status


def _wait(ticket: Array) -> None:
    """Return when no thread works for a caller any more, whatever interrupts come meanwhile."""
    while ticket[0]:
        with suppress(KeyboardInterrupt):
            _finished(address(ticket))


_current: list[_Pool] = []


def _pool() -> _Pool:
    if not _current:
        _current.append(_Pool())
    return _current[0]


def _after_fork() -> None:
    """Leave the parent's pool alone: its threads are not here."""
    _current.clear()


os.register_at_fork(after_in_child=_after_fork)


@cache
def _kernels(name: str) -> Kernels:
    return kernel(_MODULE, name)


def _own(name: str) -> Kernel:
    return _kernels(name)[""]


def _aligned_words(count: int) -> Array:
    """Return so many zeros that begin where a cache line does."""
    room = np.zeros(count + 8, np.int64)
    first = -address(room) % 64 // 8
    return room[first : first + count]
