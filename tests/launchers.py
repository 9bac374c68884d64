"""Command prefixes that start a command with other signal handlers or limits.

Not preexec_fn: it runs Python between fork and exec, in a process that may have threads.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable

_PYTHON = (sys.executable, "-I", "-S", "-c")
_EXECUTE = "os.execvp(sys.argv[1], sys.argv[1:])"


def handling(signums: Iterable[signal.Signals]) -> tuple[str, ...]:
    """Return the prefix that starts a command with default signal handlers.

    Background jobs of a shell ignore SIGINT and SIGQUIT, jobs under nohup SIGHUP.
    """
    reset = f"[signal.signal(n, signal.SIG_DFL) for n in {[int(one) for one in signums]}]"
    return (*_PYTHON, f"import os, signal, sys; {reset}; {_EXECUTE}")


def limited(resource: int, most: int) -> tuple[str, ...]:
    """Return the prefix that starts a command with a limit, such as resource.RLIMIT_FSIZE."""
    lower = f"resource.setrlimit({resource}, ({most}, {most}))"
    return (*_PYTHON, f"import os, resource, sys; {lower}; {_EXECUTE}")
