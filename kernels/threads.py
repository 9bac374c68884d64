"""How many threads a computation may use."""

from __future__ import annotations

import os

from lodcli.kernels.errors import InvalidDataError


def thread_count(threads: int | None = None) -> int:
    """Return `threads`, or the default: LOD_THREADS, or all processors this process may use.

    Raises:
        InvalidDataError: fewer than one thread.

    >>> thread_count(3)
    3
    """
    if threads is not None:
        if threads < 1:
            raise InvalidDataError(f"threads: expected at least 1, found {threads}")
        return threads
    wanted = os.environ.get("LOD_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1
