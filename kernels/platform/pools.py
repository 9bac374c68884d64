"""Pools of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodcli.kernels.platform.machine import require_memory

if TYPE_CHECKING:
    from concurrent.futures import Executor

# The stack of a thread, and the memory that Python needs before the thread can report an error.
_THREAD_BYTES = 9 << 20
NO_THREAD = (
    "no more threads or processes can be started; allow more with ulimit -u, or in the container, "
    "or set LOD_THREADS=1"
)


def thread_pool(count: int, name: str) -> Executor:
    """Return a pool of up to `count` threads; without threads when the interpreter ends.

    Raises:
        MemoryError: there is too little memory to start them. Without this check, CPython's
            Thread.start would wait forever for a thread that gets no memory.
    """
    from lodcli.kernels.platform.executors import Threads  # takes 3 ms; few small files need it

    require_memory(count * _THREAD_BYTES)
    return Threads(count, name)
