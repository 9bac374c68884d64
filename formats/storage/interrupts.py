"""Signals that end a process, such as SIGINT, stop the work, but never inside a library call.

A handler that raises in the middle of an HDF5 call leaves the library in an unknown state,
so such code runs inside `shielded()`, and the interrupt waits for its end. Without
`install()`, which only the command line calls, the program's own handler of SIGINT is called then,
which usually raises KeyboardInterrupt; nothing else here has any effect.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TypeVar

from lodcli.kernels.platform.processes import ENDING

T = TypeVar("T")

SIGNALS = ENDING
XCPU = getattr(signal, "SIGXCPU", None)

# Cleanup takes far less time; an interrupt that is not finished by then was lost.
CLEANING_SECONDS = 1.0
# After this many signals the process ends without cleanup.
INSISTING = 4


class Interrupted(BaseException):
    """The process received a signal to terminate.

    Attributes:
        signum: the signal.
        error: the exception that ended a thread for which the main thread may wait, or None.
    """

    def __init__(self, signum: int, error: BaseException | None = None) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum, self.error = signum, error


class _State:
    """State of this process; signals reach only its main thread."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.handled: Callable[[], None] = lambda: None
        self.depth = 0
        self.count = 0
        self.received: int | None = None
        self.error: BaseException | None = None
        self.raised_at: float | None = None
        # Of a program that uses the library: its handler of SIGINT, while a shield replaces it.
        self.replaced: Callable[[int, FrameType | None], object] | None = None
        self.deferred = False

    def raise_now(self) -> None:
        assert self.received is not None
        self.raised_at = time.monotonic()
        raise Interrupted(self.received, self.error)


_state = _State()


class shielded:  # used as `with shielded():`
    """Defer interrupts to the end of the block, then raise them. May be nested.

    A block must be short, well below a second: nothing can interrupt it.
    """

    __slots__ = ()

    def __enter__(self) -> None:
        if _in_main_thread():
            if _state.depth == 0:
                _replace_handler()
            _state.depth += 1

    def __exit__(self, *error: object) -> None:
        if not _in_main_thread():
            return
        _state.depth -= 1
        if _state.depth == 0:
            _restore_handler()
            if _state.received is not None and _state.raised_at is None:
                _state.raise_now()


def check() -> None:
    """Raise Interrupted if a signal came, outside of any shield.

    Called between batches: an interrupt raised inside a destructor is swallowed by Python.
    """
    if _state.received is not None and _state.depth == 0 and _in_main_thread():
        _state.raise_now()


def checked(values: Iterable[T]) -> Iterator[T]:
    """Yield `values`, and raise a pending interrupt between them."""
    for value in values:
        check()
        yield value


def on_handled(call: Callable[[], None]) -> None:
    """Set the callback of `handled`, for the watchdog."""
    _state.handled = call


def handled() -> None:
    """Notify the watchdog that the interrupt was handled and cleanup may take time."""
    if _state.received is not None:
        _state.handled()


def lost() -> None:
    """Make the next check raise an interrupt again that Python ignored, as in a destructor."""
    _state.raised_at = None


def are_installed() -> bool:
    """Return whether this is a process of the command line."""
    return threading.excepthook is _thread_ended


def thread_failed(error: BaseException | None) -> bool:
    """Interrupt the main thread if another thread ran out of memory; return whether it did.

    Otherwise a library would wait forever for its thread that has ended.
    """
    if not isinstance(error, MemoryError):
        return False
    _state.error = error
    os.kill(os.getpid(), signal.SIGTERM)  # Python's handlers run in the main thread
    return True


def install() -> None:
    """Make SIGNALS, and a MemoryError of another thread, raise Interrupted in the main thread."""
    _state.reset()
    threading.excepthook = _thread_ended
    for signum in SIGNALS:
        # nohup and shells' background jobs ignore some deliberately.
        if signal.getsignal(signum) is not signal.SIG_IGN:
            signal.signal(signum, _handle)


def _handle(signum: int, frame: FrameType | None) -> None:
    _state.count += 1
    if _state.count >= INSISTING:
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)
    if _state.received is None:
        _state.received = signum
    if _state.depth:
        return
    if _state.raised_at is None or time.monotonic() - _state.raised_at > CLEANING_SECONDS:
        _state.raise_now()


def _replace_handler() -> None:
    """Defer SIGINT if a handler of the program, such as Python's own, would raise an exception."""
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or handler is _handle:
        return
    _state.replaced, _state.deferred = handler, False
    with contextlib.suppress(ValueError):  # this thread of a subinterpreter cannot set handlers
        signal.signal(signal.SIGINT, _defer)


def _defer(signum: int, frame: FrameType | None) -> None:
    _state.deferred = True


def _restore_handler() -> None:
    handler, _state.replaced = _state.replaced, None
    if handler is None:
        return
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, handler)
    if _state.deferred:
        handler(signal.SIGINT, None)


def _thread_ended(lost: threading.ExceptHookArgs) -> None:
    if not thread_failed(lost.exc_value):
        threading.__excepthook__(lost)


def _in_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident
