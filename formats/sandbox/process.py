"""The sandboxed child process: its limits, pipes and exit status."""

from __future__ import annotations

import contextlib
import errno
import faulthandler
import gc
import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from lodcli.formats.core.errors import DamagedFileError
from lodcli.formats.sandbox.replies import Reply, ReplyWriter
from lodcli.formats.storage.inputs import Input, shared_positions
from lodcli.formats.storage.interrupts import SIGNALS, shielded
from lodcli.kernels.errors import LodError, UnsupportedError
from lodcli.kernels.platform import files, processes
from lodcli.kernels.platform.pools import NO_THREAD, thread_pool

# Memory besides the decompressed file: buffers of libraries, batches being sent, and 72 MB of
# address space for each of the two threads with which pyarrow reads.
WORKING_BYTES = 400 << 20
# CPU time: the slowest reader reads more than 1 MB of its file per second, and outputs more.
CPU_SECONDS, CPU_RATE, OUTPUT_RATE = 2, 1 << 20, 32 << 20
# For pipes, whose input has an unknown size.
UNKNOWN_CPU_SECONDS = 3600
# The parent waits longer for the next bytes than the child can compute: it may wait for a disk.
CLOCK_SECONDS, CLOCK_SHARE = 60, 2
# Signals that another process or the system sends; a crash has others.
_SENT = (processes.KILL, *SIGNALS)
# Those for the program, which may handle them and go on, but that its children get as well.
_FOR_PROGRAM = ("SIGQUIT", "SIGUSR1", "SIGUSR2")


@dataclass(frozen=True)
class Room:
    """Parameters for the limits of a child.

    Attributes:
        max_bytes: maximum decompressed size of its input; None: no limit.
        stored: bytes of the input; None if unknown.
        writes: whether it may write files, to copy the input of a pipe.
        opens: number of further descriptors it may open; None: no limit.
    """

    max_bytes: int | None
    stored: int | None
    writes: bool = False
    opens: int | None = 0


class Child:
    """A child process that answers requests, one after another.

    Args:
        work: function to run in the child, with the descriptor of requests, one per line, and the
            writer of replies. It must call `confine` as soon as it has opened its files.
        keep: descriptors that stay open; all others are closed.
        seconds: how long to wait for the next bytes of a reply; None: forever.

    Attributes:
        parent: the process that started it. One forked from that must not use it.
    """

    # Defaults for `end` after an interrupt in the constructor.
    _pid = _status = 0
    _requests = _replies = -1

    def __init__(
        self,
        work: Callable[[int, ReplyWriter], None],
        keep: tuple[int, ...],
        seconds: int | None = None,
    ) -> None:
        self.parent = os.getpid()
        self._seconds = seconds
        with shielded():
            requests, self._requests = os.pipe()
            self._replies, replies = os.pipe()
            try:
                with warnings.catch_warnings():
                    # Python warns about threads of libraries, which the child does not use.
                    warnings.simplefilter("ignore", DeprecationWarning)
                    with shared_positions():  # read_share shows how far the child has read
                        self._pid = os.fork()
                if self._pid == 0:
                    _run(work, requests, replies, keep)
            except BlockingIOError:
                raise OSError(errno.EAGAIN, NO_THREAD) from None
            finally:
                os.close(requests)
                os.close(replies)

    def ask(self, request: bytes) -> Reply:
        """Send a request, and return the reply, which is read as it arrives."""
        with contextlib.suppress(BrokenPipeError):  # reading the reply raises the error
            os.write(self._requests, request + b"\n")
        return Reply(self._replies, self._ended, self._seconds)

    def _ended(self) -> NoReturn:
        status = self._wait()
        if os.WIFSIGNALED(status):
            raise _killed(os.WTERMSIG(status))
        raise DamagedFileError("crashed the sandboxed process; do not trust the file")

    def _wait(self) -> int:
        if self._pid:
            pid, self._pid = self._pid, 0
            # If the program ignores SIGCHLD, or waits for all its children, there is no status.
            with contextlib.suppress(ChildProcessError):
                self._status = os.waitpid(pid, 0)[1]
        return self._status

    def end(self) -> None:
        """Terminate the process if it is running, and release its resources."""
        with shielded():
            if self._pid and self.parent == os.getpid():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
                self._wait()
            if self._requests >= 0:
                os.close(self._requests)
                os.close(self._replies)
                self._requests = self._replies = -1

    def __del__(self) -> None:
        # For an interrupt between the constructor and `with`.
        self.end()


def _run(
    work: Callable[[int, ReplyWriter], None], requests: int, replies: int, keep: tuple[int, ...]
) -> NoReturn:
    """Run the work in the child; never returns."""
    writer, code = ReplyWriter(replies), 1
    try:
        faulthandler.disable()  # a crash is reported by the parent
        gc.freeze()  # garbage of the program would close descriptors whose numbers are used again
        for signum in SIGNALS:
            ignored = signal.Signals(signum).name in _FOR_PROGRAM
            signal.signal(signum, signal.SIG_IGN if ignored else signal.SIG_DFL)
        processes.default_pipe_signal()
        _drop_descriptors({requests, replies, *keep})
        work(requests, writer)
        code = 0
    except BaseException as error:
        with contextlib.suppress(OSError):
            writer.fail(error)
    finally:
        os._exit(code)


def _drop_descriptors(keep: set[int]) -> None:
    """Close all descriptors but these, and redirect the standard streams to /dev/null."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in {0, 1, 2} - keep:
        os.dup2(nowhere, stream)
    processes.close_all_but(keep)


def detach(source: Input) -> None:
    """Reopen a file with a separate position, independent of the parent's reads.

    Raises:
        UnsupportedError: the system cannot reopen a descriptor, and the file was replaced.
    """
    descriptor = source.file.fileno()
    opened = files.reopen(descriptor, source.path)
    if opened is None:
        raise UnsupportedError(
            "was replaced while it was read, and this system cannot open the old file again; read "
            "the new one"
        )
    os.dup2(opened, descriptor)
    os.close(opened)


def confine(room: Room) -> None:
    """Drop the rights of this process that are not needed to read one file."""
    # Imports the modules of pools, which is impossible when no more files may be opened.
    thread_pool(1, "lod-sandbox").shutdown()
    if room.max_bytes is not None:
        processes.limit_memory(WORKING_BYTES + room.max_bytes + (room.stored or 0))
    processes.limit_core_dumps()
    if not room.writes:
        processes.limit_writing()
    if room.opens is not None:
        processes.limit_descriptors(room.opens)


def allow_time(room: Room, declared: int = 0) -> None:
    """Limit the CPU time of this process, from now on, to that of one pass over the file.

    Args:
        room: of this process.
        declared: bytes of rows that the file declares.
    """
    seconds = UNKNOWN_CPU_SECONDS
    if room.stored is not None:
        if room.max_bytes is not None:
            declared = min(declared, room.max_bytes)
        seconds = CPU_SECONDS + room.stored // CPU_RATE + declared // OUTPUT_RATE
    processes.limit_seconds(seconds)


def clock_seconds(room: Room) -> int | None:
    """Return how long to wait for the next bytes of a reply; None: forever.

    Only a child that may open a file, whose name its input may hold, can wait for what never comes.
    """
    if not room.opens or room.stored is None:
        return None
    if room.max_bytes is None:
        return UNKNOWN_CPU_SECONDS
    computing = CPU_SECONDS + room.stored // CPU_RATE + room.max_bytes // OUTPUT_RATE
    return CLOCK_SECONDS + CLOCK_SHARE * computing


def _killed(signum: int) -> LodError | OSError:
    if signum == signal.SIGXCPU:
        return DamagedFileError(
            "exceeds the processor time allowed for a file of its size; if you trust it, read its "
            "tensors one at a time (FILE::NAME)"
        )
    name = signal.Signals(signum).name
    if signum in _SENT:
        return OSError(
            errno.ECHILD,
            f"its sandboxed process was killed ({name}), as when memory runs out; try it again, or "
            "free memory",
        )
    return DamagedFileError(f"crashed the sandboxed process ({name}); do not trust the file")
