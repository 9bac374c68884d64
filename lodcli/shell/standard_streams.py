"""Standard input, output and error: made usable at the start, flushed at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence

from lodcli.formats.storage import interrupts

CLOSED_PIPE = 141  # what a shell shows for a process that SIGPIPE ended


def asks_for_help(args: Sequence[str]) -> bool:
    """Return whether a command line only prints help or versions to standard output."""
    return any(arg in ("-h", "--help", "--version") for arg in before_dashes(args))


def before_dashes(args: Sequence[str]) -> Iterator[str]:
    """Return the arguments of a command line that may be options: those before `--`."""
    return itertools.takewhile(lambda arg: arg != "--", args)


def prepare_streams() -> None:
    """Make the three standard streams usable, whatever the caller closed or set up.

    A closed one gets a descriptor that refuses the wrong use: else the first file opened
    would take its number, and results would be written into it.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            # Lower numbers are taken, so this one is the lowest free.
            os.set_inheritable(os.open(os.devnull, mode), True)
    for name, fd, access in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, access, closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A name the terminal cannot show must not end the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def finish(code: int, report: Callable[[OSError], int]) -> int:
    """Send what is still buffered, and return the exit code: the end of the process.

    Python would send it later, where an error could only be printed and not handled.

    Args:
        code: of what was done.
        report: prints an error and returns the exit code for it.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = CLOSED_PIPE
        _discard(sys.stdout.fileno())
    except OSError as error:
        _discard(sys.stdout.fileno())
        error.filename = error.filename or "standard output"
        code = code or report(error)
    except interrupts.Interrupted as interrupt:
        code = 128 + interrupt.signum
        _discard(sys.stdout.fileno())
    try:
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr.fileno())
    for signum in interrupts.SIGNALS:
        # The outcome is settled: what is left is Python's own end.
        # Not in the main thread; or without memory, of which CPython makes SystemError as well.
        with contextlib.suppress(ValueError, MemoryError, SystemError):
            signal.signal(signum, signal.SIG_IGN)
    return code


def _discard(fd: int) -> None:
    """Let what a stream still holds vanish when Python closes it."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, fd)
        os.close(nowhere)
