"""Run one command line of `lod` in a separate process, with limits on time and memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HANG_SECONDS = 300
# Limit on the address space, which exceeds the used memory.
MOST_ADDRESS_BYTES = 16 << 30
MOST_MEMORY_BYTES = 1 << 30
# Maximum memory of reading a file, as a multiple of its size.
MEMORY_RATIO = 40
MOST_OUTPUT = 10_000_000


@dataclass(frozen=True)
class Run:
    """The result of a command line.

    Attributes:
        args: of `lod`.
        code: its exit code; None if a signal ended it.
        ended_by: name of that signal; "hang" if it was killed at the time limit; or None.
        memory_bytes: its peak memory.
        stdout: its standard output.
        stderr: its messages.
    """

    args: tuple[str, ...]
    code: int | None
    ended_by: str | None
    memory_bytes: int
    stdout: str
    stderr: str

    def fault(self, size_bytes: int) -> str | None:
        """Return the violation of a rule that holds for every file; None if there is none."""
        if self.ended_by is not None:
            return "hang" if self.ended_by == "hang" else f"ended by {self.ended_by}"
        if "Traceback (most recent call last)" in self.stderr or "internal error:" in self.stderr:
            return "internal error"
        if self.code not in (0, 1, 2, 3, 4):
            return f"exit code {self.code}"
        said = self.stderr.startswith(("lod ", '{"schema_version"'))
        if self.code and (not said or self.stderr.count("\n") != 1):
            return "no single line that says what is wrong"
        if not self.stderr.replace("\n", "").isprintable():
            return "control characters on the terminal"
        if self.memory_bytes > MOST_MEMORY_BYTES + MEMORY_RATIO * size_bytes:
            return f"{self.memory_bytes >> 20} MB of memory"
        return None


def run(*args: str, cwd: Path) -> Run:
    """Run `lod` in a fork of this process, which has it loaded already."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = forked(lambda: _child(args, cwd, out.fileno(), err.fileno()))
        status, usage, hung = _wait(pid)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read(MOST_OUTPUT).decode("utf-8", "replace"))
    ended_by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else None
    code = None if ended_by else os.WEXITSTATUS(status)
    memory_bytes = usage.ru_maxrss << (0 if sys.platform == "darwin" else 10)
    return Run(args, code, "hang" if hung else ended_by, memory_bytes, *texts)


def forked(work: Callable[[], int]) -> int:
    """Run `work`, which returns an exit code, in a fork of this process; return the process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os.write(2, traceback.format_exc().encode())
    finally:
        os._exit(code)


def _child(args: tuple[str, ...], cwd: Path, out: int, err: int) -> int:
    os.dup2(out, 1)
    os.dup2(err, 2)
    os.chdir(cwd)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_ADDRESS_BYTES, MOST_ADDRESS_BYTES))
    from lodcli.shell.failures import run as run_group
    from lodcli.shell.group import group

    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    return run_group(group, args)


def _wait(pid: int) -> tuple[int, resource.struct_rusage, bool]:
    deadline = time.monotonic() + HANG_SECONDS
    pause = 0.001
    while True:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return status, usage, False
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            _, status, usage = os.wait4(pid, 0)
            return status, usage, True
        time.sleep(pause)
        pause = min(0.05, 2 * pause)
