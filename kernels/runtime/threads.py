"""Number of threads of a computation."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from lodcli.kernels.errors import OptionError
from lodcli.kernels.platform import environment
from lodcli.kernels.platform.machine import thread_limit, usable_cores

# More than the cores of any machine; each thread takes memory, and systems limit their number.
MOST_THREADS = 1024
# Environment variable of OpenBLAS: for 2**n ticks of the processor its idle threads poll for work.
BLAS_WAIT = "OPENBLAS_THREAD_TIMEOUT"
# Variables for the number of threads of OpenBLAS, and of Arrow: to compute, and to read.
_LIMITS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "ARROW_IO_THREADS")
# A limit that leaves room for several commands in a pipe, and for other programs of the user.
_THREADS_PER_CORE, _OTHER_THREADS = 16, 256

_limit: ContextVar[int] = ContextVar("lodcli.threads", default=MOST_THREADS)


def let_blas_sleep() -> None:
    """Make idle threads of NumPy's BLAS sleep after 0.1 ms, unless the environment sets a time.

    Otherwise each keeps a core busy for 25 ms once NumPy is imported, although most commands
    never use BLAS. Call it before NumPy is imported.
    """
    os.environ.setdefault(BLAS_WAIT, "18")


def limit_libraries() -> None:
    """Make OpenBLAS and Arrow start few threads if the system limits their number.

    A library that cannot start a thread crashes later (Arrow), or sends SIGINT to the process and
    then never returns (OpenBLAS). Variables that are set are kept. Call this before the libraries
    are imported.
    """
    most = thread_limit()
    if most is not None and most < _THREADS_PER_CORE * usable_cores() + _OTHER_THREADS:
        for name in _LIMITS:
            os.environ.setdefault(name, "1")


@contextmanager
def limited_threads(most: int) -> Iterator[None]:
    """Limit the default number of threads to `most` within the block, in this thread.

    >>> with limited_threads(1):
    ...     thread_count()
    1
    """
    before = _limit.set(most)
    try:
        yield
    finally:
        _limit.reset(before)


def thread_count(threads: int | None = None) -> int:
    """Return `threads`, or the default: LOD_THREADS, or all processors this process may use.

    `limited_threads` limits the default.

    Raises:
        OptionError: it is not a whole number from 1 to 1024.

    >>> thread_count(3)
    3
    """
    if threads is not None:
        if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
            raise OptionError(
                f"threads: expected a whole number from 1 to {MOST_THREADS}, found {threads!r}"
            )
        return threads
    wanted = thread_setting()
    return min(_limit.get(), usable_cores() if wanted is None else wanted)


def thread_setting() -> int | None:
    """Return the value of LOD_THREADS; None if it is not set, or empty.

    Raises:
        OptionError: it is not a whole number from 1 to 1024.
    """
    text = environment.value("LOD_THREADS").strip()
    if not text:
        return None
    number = int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0
    if not 1 <= number <= MOST_THREADS:
        raise OptionError(
            f"LOD_THREADS: expected a whole number from 1 to {MOST_THREADS}, found {text[:40]!r}"
        )
    return number
