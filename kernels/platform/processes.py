"""Processes: limits, resource usage, stopping and termination.

Imports the standard library only: the worker of `lod bench` loads this file by its path.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    import subprocess

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

# Needed for a sandboxed child process, which inherits the open file.
CAN_FORK = hasattr(os, "fork")
# Without `getrusage`, processor time has a resolution of 16 ms.
EXACT_USAGE = resource is not None
# Whether a fork can also have limits on memory, processor time, files and descriptors.
CAN_ISOLATE = CAN_FORK and resource is not None

# Signals that end a command. SIGHUP comes when the terminal or the connection is gone, SIGXCPU when
# the processor time is used up that `ulimit -S -t` allows, and then every second; SIGQUIT from the
# key Ctrl+\, and SIGUSR1 and SIGUSR2 from batch systems before they end a job. Windows has only the
# first two.
ENDING: tuple[signal.Signals, ...] = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)
)
# Ends a process unconditionally. Windows has no SIGKILL; there SIGTERM does the same.
KILL: int = getattr(signal, "SIGKILL", signal.SIGTERM)

_PR_SET_PDEATHSIG = 1


def peak_memory_bytes() -> int | None:
    """Return the peak memory of this process; None if unknown."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * unit


class Usage(NamedTuple):
    """Processor seconds of this process, and number of its involuntary context switches."""

    user: float
    system: float
    preemptions: int


def usage() -> Usage:
    """Return the usage of this process so far. Without `getrusage`, preemptions are always 0."""
    if resource is None:
        times = os.times()
        return Usage(times.user, times.system, 0)
    found = resource.getrusage(resource.RUSAGE_SELF)
    return Usage(found.ru_utime, found.ru_stime, found.ru_nivcsw)


def end_with_parent() -> None:
    """End this process when its parent ends, even if it is stopped by a signal then.

    Linux only; elsewhere it ends when it reads the end of its standard input.
    """
    call = libc("prctl")
    if call is not None:
        call(_PR_SET_PDEATHSIG, KILL)


def suspend(process: subprocess.Popen[Any], *, resume: bool = False) -> None:
    """Stop a child process, or resume it. Does nothing on Windows."""
    signum = getattr(signal, "SIGCONT" if resume else "SIGSTOP", None)
    if signum is not None:
        process.send_signal(signum)


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped by SIGSTOP; False if unknown."""
    return _state(f"/proc/{pid}") == "T"


def others_run() -> bool:
    """Return whether other threads of this process run or are ready to; False if unknown."""
    folder, own = "/proc/self/task", str(threading.get_native_id())
    try:
        tasks = os.listdir(folder)
    except OSError:
        return False
    return any(_state(f"{folder}/{each}") == "R" for each in tasks if each != own)


def _state(process: str) -> str:
    """Return the letter for the state of a process or thread, from its folder; "" if unknown."""
    for line in lines_of(f"{process}/stat"):
        # The name, in parentheses, may hold anything.
        return "".join(line.rpartition(")")[2].split()[:1])
    return ""


@contextmanager
def deaf_to(signums: Iterable[int]) -> Iterator[None]:
    """Block these signals in the block, and in processes that it starts. Not on Windows."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signums)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hear(signums: Iterable[int]) -> None:
    """Unblock these signals. Does nothing on Windows."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signums)


def fork_deaf_to(signums: Iterable[int]) -> int:
    """Fork as `os.fork`, with these signals blocked in the child from the start."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signums)
    pid = None
    try:
        pid = os.fork()
    finally:
        if pid != 0:  # not in the child
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return pid


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


_AnyLock = TypeVar("_AnyLock", bound=_Lock)


def held_during_forks(lock: _AnyLock) -> _AnyLock:
    """Return a lock that each fork waits for, and that is free in the child.

    Otherwise a lock that another thread holds stays locked in the child: no thread there releases
    it. What the lock protects is never half done in the child. For locks of modules only: the lock
    is never deleted.
    """
    if CAN_FORK:
        os.register_at_fork(
            before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
        )
    return lock


class OpenFileLock:
    """A lock of one open file, which is free in a forked child, whichever thread held it.

    No fork waits for it, unlike for those of `held_during_forks`: a read may take long.

    Args:
        make: returns a lock that is free, such as threading.RLock.
    """

    def __init__(self, make: Callable[[], Any] = threading.Lock) -> None:
        self._make, self._lock, self._renewed = make, make(), False
        _open_locks.add(self)

    def renew(self) -> None:
        """Replace the lock by a free one."""
        self._lock, self._renewed = self._make(), True

    def acquire(self, blocking: bool = True) -> bool:
        """Acquire the lock; without `blocking`, return False if another thread has it."""
        found: bool = self._lock.acquire(blocking)
        return found

    def release(self) -> None:
        """Release the lock; in a child, also that of the thread that forked, which is free."""
        try:
            self._lock.release()
        except RuntimeError:
            if not self._renewed:
                raise

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


_open_locks: weakref.WeakSet[OpenFileLock] = weakref.WeakSet()


def _renew_open_locks() -> None:
    for lock in list(_open_locks):
        lock.renew()


if CAN_FORK:
    os.register_at_fork(after_in_child=_renew_open_locks)


def default_pipe_signal() -> None:
    """Let a write to a pipe without a reader end this process; Python ignores SIGPIPE."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)


def close_all_but(keep: set[int], *, from_zero: bool = False) -> None:
    """Close all descriptors but `keep` and, unless `from_zero`, the standard streams."""
    below = 0 if from_zero else 3
    for descriptor in sorted(descriptor for descriptor in keep if descriptor >= below):
        os.closerange(below, descriptor)
        below = descriptor + 1
    # If there is no limit on descriptors, or a huge one: 2^24, far more than are used.
    most = os.sysconf("SC_OPEN_MAX")
    os.closerange(below, most if 0 < most < 1 << 24 else 1 << 24)


def limit_memory(more_bytes: int) -> None:
    """Limit the address space of this process to its present size plus `more_bytes`.

    If the present size is unknown (without /proc), nothing is limited.
    """
    has = address_space_bytes()
    if has is not None:
        _limit("RLIMIT_AS", has + more_bytes)


def limit_core_dumps() -> None:
    """Disable core dumps of this process."""
    _limit("RLIMIT_CORE", 0)


def limit_writing() -> None:
    """Forbid this process to write to files."""
    _limit("RLIMIT_FSIZE", 0)


def limit_descriptors(more: int) -> None:
    """Limit this process to `more` further open files; 0 for none."""
    if resource is None:
        return
    made = [os.dup(1) for _ in range(more)]  # the lowest free numbers
    for descriptor in made:
        os.close(descriptor)
    _limit("RLIMIT_NOFILE", max(made, default=-1) + 1)


def allow_descriptors(more: int) -> tuple[int, int]:
    """Raise the limit on open files to allow `more` of them, as far as the system permits.

    Returns:
        The limit that this needs, and the limit that the system permits.
    """
    if resource is None:
        return more, more
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = len(os.listdir("/dev/fd")) + more if os.path.isdir("/dev/fd") else soft + more
    most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return wanted, most


def limit_seconds(more: int) -> None:
    """Limit this process to `more` further processor seconds; then SIGXCPU ends it."""
    if resource is None:
        return
    # Only the soft limit: its signal shows which limit was exceeded, that of the hard one does not.
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    soft = int(time.process_time()) + 1 + more
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _limit(name: str, value: int) -> None:
    if resource is None:
        return
    limit: int = getattr(resource, name)
    hard = resource.getrlimit(limit)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(limit, (value, value))


def address_limit_bytes() -> int | None:
    """Return the limit on the address space of this process in bytes; None for no limit."""
    return _soft_limit("RLIMIT_AS")


def file_limit_bytes() -> int | None:
    """Return the limit on the size of files that this process writes; None for no limit."""
    return _soft_limit("RLIMIT_FSIZE")


def user_thread_limit() -> int | None:
    """Return the limit on all threads of this user; None for no limit."""
    return _soft_limit("RLIMIT_NPROC")


def _soft_limit(name: str) -> int | None:
    if not hasattr(resource, name):
        return None
    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def address_space_bytes() -> int | None:
    """Return the size of the address space of this process; None if unknown."""
    for line in lines_of("/proc/self/statm"):
        return int(line.split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return None


def lines_of(path: str) -> list[str]:
    """Return the lines of a file of the system, such as in /proc; none if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def libc(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None if it has none of that name, or not on Linux."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), name, None)


def last_error() -> int:
    """Return the errno of the last call of a function of the C library in this thread."""
    import ctypes

    return ctypes.get_errno()
