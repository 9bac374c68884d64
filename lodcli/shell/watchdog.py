"""A watchdog: ends the process if an interrupt has not ended it in time.

Python handles a signal between two of its own instructions. A library that computes for long,
loops forever or swallows exceptions keeps it from doing so. So a child process, forked before
anything else is loaded, gets the number of each signal at once (`signal.set_wakeup_fd`), and
measures the time. If it is too long, a thread of this process ends the process with the exit code
of an interrupt. If the thread cannot run, because a library never releases the interpreter's lock,
the child kills the process. Nothing is cleaned up then: the next writer removes partial files, as
after any kill.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from typing import TYPE_CHECKING, NoReturn

from lodcli.formats.storage import interrupts
from lodcli.kernels.platform import processes

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

# Cleaning up takes a fraction of a second.
PENDING_SECONDS = 2.0
# How long the thread has to get the interpreter's lock.
HELD_SECONDS = 1.0
# The child counts time in slices. One that takes longer, because the machine was suspended or is
# overloaded, counts as one: this process could not run either.
_SLICE_SECONDS = 0.05
# A thread reserves addresses for a stack and a heap, up to 200 MB. If the address space is limited,
# libraries need them: then there is no thread, and the child only kills.
_ROOM_BYTES = 1 << 30

# The child of this process and the thread that waits for it, until `stop`.
_child: list[int] = []
_thread: list[threading.Thread] = []


def start() -> None:
    """Start the watchdog of this process; does nothing on systems without fork (Windows).

    `interrupts.install` must have been called, and no thread may have been started.
    """
    sys.unraisablehook = _without_interrupts
    if processes.CAN_FORK:
        with contextlib.suppress(OSError):  # no more processes, or no more files
            _start()


def _start() -> None:
    signals, wake = os.pipe()
    late, tell = os.pipe()
    parent = os.getpid()
    child = processes.fork_deaf_to(interrupts.SIGNALS)
    if child == 0:
        _count(signals, tell, parent)
    _child.append(child)
    os.close(signals)
    os.close(tell)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    interrupts.on_handled(lambda: _tell(wake, 0))
    limit = processes.address_limit_bytes()
    if limit is None or limit >= _ROOM_BYTES:
        thread = threading.Thread(target=_end, args=(late,), name="watchdog", daemon=True)
        with contextlib.suppress(RuntimeError):  # no more threads: the child only kills
            thread.start()
            _thread.append(thread)


def stop() -> None:
    """End the watchdog when the command has ended and signals are ignored.

    Otherwise the child would end after its parent, and stay a zombie in a container whose first
    process does not wait for the children of others.
    """
    while _child:
        child = _child.pop()
        # If the caller ignores SIGCHLD, there is no status.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, processes.KILL)
            os.waitpid(child, 0)
    # It reads the end of the child's pipe. Running on, it would meet the end of the interpreter.
    while _thread:
        _thread.pop().join(HELD_SECONDS)


def _end(late: int) -> None:
    """End the process when the child reports that an interrupt is late."""
    with contextlib.suppress(OSError):  # without the child there is no message
        if number := os.read(late, 1):
            os._exit(128 + number[0])


# -- in the child ----------------------------------------------------------------------


def _count(signals: int, tell: int, parent: int) -> NoReturn:
    """Wait for signals until end of file, when the parent process has ended."""
    try:
        # The child may outlive the parent by a moment, and must not block unmounting its folder.
        os.chdir("/")
        processes.close_all_but({signals, tell}, from_zero=True)
        while number := os.read(signals, 1):
            # Other signals arrive as well, such as SIGWINCH of a resized terminal.
            if number[0] in interrupts.SIGNALS and _is_pending(signals, PENDING_SECONDS):
                _tell(tell, number[0])
                if _is_pending(signals, HELD_SECONDS) and os.getppid() == parent:
                    os.kill(parent, processes.KILL)
    finally:
        os._exit(0)


def _is_pending(signals: int, seconds: float) -> bool:
    """Return whether the process still runs after this time, with the interrupt not handled."""
    from select import select  # most processes get no signal

    while seconds > 0:
        begun = time.monotonic()
        if select([signals], [], [], _SLICE_SECONDS)[0]:
            numbers = os.read(signals, 64)
            if not numbers or 0 in numbers:
                return False
        seconds -= min(time.monotonic() - begun, _SLICE_SECONDS)
    return True


def _tell(pipe: int, number: int) -> None:
    with contextlib.suppress(OSError):
        os.write(pipe, bytes([number]))


def _without_interrupts(lost: UnraisableHookArgs) -> None:
    """Print an exception that could not be raised; an interrupt is raised again instead."""
    if isinstance(lost.exc_value, interrupts.Interrupted):
        interrupts.lost()
    else:
        sys.__unraisablehook__(lost)
