"""Words before a command that start it with other signals or limits.

Not preexec_fn: it runs Python between fork and exec, in a process that may have threads.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable

_PYTHON = (sys.executable, "-I", "-S", "-c")
_EXECUTE = "os.execvp(sys.argv[1], sys.argv[1:])"


def handling(signums: Iterable[signal.Signals]) -> tuple[str, ...]:
    """Return what starts a command with the default handlers of signals.

    A shell has the jobs it starts in the background ignore interrupts, nohup SIGHUP.
    """
    reset = f"[signal.signal(n, signal.SIG_DFL) for n in {[int(one) for one in signums]}]"
    return (*_PYTHON, f"import os, signal, sys; {reset}; {_EXECUTE}")


def limited(resource: int, most: int) -> tuple[str, ...]:
    """Return what starts a command under a limit of the module `resource`, as RLIMIT_FSIZE."""
    lower = f"resource.setrlimit({resource}, ({most}, {most}))"
    return (*_PYTHON, f"import os, resource, sys; {lower}; {_EXECUTE}")
