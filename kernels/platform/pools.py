"""Pools of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from lodcli.kernels.platform.machine import require_memory

# A stack, and what Python takes before the thread can report an error.
_THREAD_BYTES = 9 << 20


def thread_pool(count: int, name: str) -> ThreadPoolExecutor:
    """Return a pool of up to `count` threads.

    Raises:
        MemoryError: there is too little memory to start them. CPython's Thread.start waits for
            ever for a thread that gets none.
    """
    require_memory(count * _THREAD_BYTES)
    return ThreadPoolExecutor(count, name)
