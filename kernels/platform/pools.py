"""Pools of threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lodcli.kernels.platform.machine import require_memory

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# A stack, and what Python takes before the thread can report an error.
_THREAD_BYTES = 9 << 20


def thread_pool(count: int, name: str) -> ThreadPoolExecutor:
    """Return a pool of up to `count` threads.

    Raises:
        MemoryError: there is too little memory to start them. CPython's Thread.start waits for
            ever for a thread that gets none.
    """
    from concurrent.futures import ThreadPoolExecutor  # 3 ms, for hardly any small file

    require_memory(count * _THREAD_BYTES)
    return ThreadPoolExecutor(count, name)
