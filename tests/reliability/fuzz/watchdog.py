"""Workers that read damaged files, and the process that watches them from outside.

A server process imports everything once and forks a worker when one is needed. The watchdog, which
sends the requests, reads none of the files, so it detects every failure of a worker. A worker hangs
if it takes too much processor time for one file, or does not answer; other activity is ignored.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import re
import resource
import signal
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from tests.reliability.fuzz.reading import (
    CRASH,
    HANG,
    MAX_BYTES,
    UNCLEAR,
    Answer,
    Target,
    judge,
    prepare,
    read,
)

# Of processor time, one file: a good one takes milliseconds. The wall limit is for a worker that
# sleeps; it is long, for others may have all processors.
CPU_SECONDS = 10.0
WALL_SECONDS = 300.0
_TICK_SECONDS = 2.0
# Beside what reading may come to: buffers of libraries, their threads' stacks.
MORE_BYTES = 200 << 20
# Then a new one takes over: what libraries leak must not add up to the limit.
FILES_A_WORKER = 2000
PRELOAD = ["tests.reliability.fuzz.preload"]
JUDGE = "judge"
_C = ctypes.CDLL(None)
_CLOCK = os.sysconf("SC_CLK_TCK")


class Watchdog:
    """Gives files to a worker and waits for the answer.

    Args:
        target: what the files are damaged copies of.
        folder: where they lie.
        plant: is called in each worker first; a test plants faults by it.
    """

    def __init__(
        self, target: Target, folder: Path, plant: Callable[[], None] | None = None
    ) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOAD)
        self._arguments = (target, folder, plant)
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self._left = 0

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *error: object) -> None:
        self._end()

    def ask(self, operation: str, number: int) -> Answer:
        """Return what comes of the file that lies in the folder now."""
        if self._left <= 0:
            self._end()
            self._start()
        assert self._process is not None
        assert self._connection is not None
        self._left -= 1
        pid = self._process.pid
        assert pid is not None
        begun, used = time.monotonic(), _cpu_seconds(pid)
        # It may have died after its last answer: of memory that was damaged before.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._connection.send((operation, number))
        while not self._connection.poll(_TICK_SECONDS):
            spent = _cpu_seconds(pid) - used
            if spent > CPU_SECONDS or time.monotonic() - begun > WALL_SECONDS:
                self._end()
                return Answer(HANG, f"{spent:.0f} s of processor time without an answer")
        try:
            answer: Answer = self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            code = self._process.exitcode
            self._end()
            return Answer(CRASH, _died(code or 0))
        return answer

    def restart(self) -> None:
        """Let the next file be read by a new worker."""
        self._end()

    def _start(self) -> None:
        self._connection, other = self._context.Pipe()
        self._process = self._context.Process(
            target=_work, args=(other, *self._arguments), daemon=True
        )
        self._process.start()
        other.close()
        told = self._connection.recv() if self._connection.poll(WALL_SECONDS) else "no answer"
        assert told == "ready", told
        self._left = FILES_A_WORKER

    def _end(self) -> None:
        self._left = 0
        if self._process is None or self._connection is None:
            return
        pid = self._process.pid
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid or 0, signal.SIGKILL)  # and what it has forked
        self._process.kill()
        self._process.join()
        self._process.close()
        self._connection.close()
        self._process = self._connection = None


def _died(code: int) -> str:
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def _cpu_seconds(pid: int) -> float:
    """Return what a worker has used, and the processes it has started: all of its group."""
    total = 0
    for name in os.listdir("/proc") if _has_children(pid) else [str(pid)]:
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            if name == str(pid) or fields[2] == str(pid):
                total += sum(map(int, fields[11:15]))
    return total / _CLOCK


def _has_children(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/task/{pid}/children").read_text().strip())
    except OSError:
        return False


# -- in the worker -------------------------------------------------------------------


def _work(
    connection: Connection, target: Target, folder: Path, plant: Callable[[], None] | None
) -> None:
    """Answer until the watchdog has had enough."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    noise = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
    os.dup2(noise.fileno(), 1)
    os.dup2(noise.fileno(), 2)
    prepare(target)
    if plant is not None:
        plant()
    connection.send("ready")
    limited = False
    while True:
        try:
            operation, number = connection.recv()
        except EOFError:
            return
        if operation == JUDGE:
            answer = judge(target, folder)
        else:
            answer = read(target, folder, operation, number)
            answer = _noisy(noise.fileno()) or answer
        connection.send(answer)
        if not limited:  # after the first, a good file: with all that was imported for it
            _limit()
            limited = True


def _noisy(fd: int) -> Answer | None:
    """Return what libraries printed, behind our back: that goes into the data, or in between."""
    _C.fflush(None)
    printed = os.pread(fd, 300, 0)
    if not printed:
        return None
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    return Answer(UNCLEAR, f"a library prints {printed!r}")


def _limit() -> None:
    size = re.search(r"VmSize:\s*(\d+)", Path("/proc/self/status").read_text())
    assert size
    room = (int(size[1]) << 10) + MAX_BYTES + MORE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
