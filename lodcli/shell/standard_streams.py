"""Standard input, output and error: made usable at the start, flushed at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Sequence

from lodcli.formats.storage import interrupts
from lodcli.kernels.platform.files import descriptor_path

CLOSED_PIPE = 141  # exit code that a shell reports for a process ended by SIGPIPE


def asks_for_help(args: Sequence[str]) -> bool:
    """Return whether a command line only prints help or versions to standard output."""
    asks = any(arg in ("-h", "--help", "--version") for arg in before_dashes(args))
    return asks or args[:1] == ["help"]


def before_dashes(args: Sequence[str]) -> Iterator[str]:
    """Return the arguments of a command line that may be options: those before `--`."""
    return itertools.takewhile(lambda arg: arg != "--", args)


def has_input() -> bool:
    """Return whether standard input is a pipe or a file."""
    with contextlib.suppress(OSError, ValueError):  # a test has no real standard input
        mode = os.fstat(sys.stdin.fileno()).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
    return False


def new_file_redirected_to() -> str:
    """Return the name of the empty file in this folder that standard output is, or ""."""
    with contextlib.suppress(OSError, ValueError):
        output = sys.stdout.fileno()
        folder, name = os.path.split(os.readlink(descriptor_path(output)))
        return name if folder == os.getcwd() and os.fstat(output).st_size == 0 else ""
    return ""


def prepare_streams() -> None:
    """Make the three standard streams usable, even if the caller closed or changed them.

    A closed one gets a descriptor on which its use fails. Otherwise the first file opened would
    get its number, and results would be written into it.
    """
    for fd, mode in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(fd)
        except OSError:
            # Lower numbers are taken, so this one is the lowest free.
            os.set_inheritable(os.open(os.devnull, mode), True)
        # Another process may have made it non-blocking: then Python drops what a full pipe rejects.
        with contextlib.suppress(OSError, AttributeError):  # Windows: only from Python 3.12 on
            os.set_blocking(fd, True)
    for name, fd, access in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(fd, access, closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A name the terminal cannot show must not end the command.
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def finish(code: int, report: Callable[[OSError], int]) -> int:
    """Flush standard output and error at the end of the process, and return the exit code.

    Python would flush them later, when an error could only be printed and not handled.

    Args:
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
        # The exit code is final: signals must not interrupt Python's shutdown.
        # ValueError: not in the main thread. CPython may raise SystemError without memory, too.
        with contextlib.suppress(ValueError, MemoryError, SystemError):
            signal.signal(signum, signal.SIG_IGN)
    return code


def _discard(fd: int) -> None:
    """Redirect a descriptor to the null device, so that Python discards its buffer on closing."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, fd)
        os.close(nowhere)
