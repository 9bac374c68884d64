"""Prefetch: reads one batch ahead of the consumer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TypeVar

from lodcli.kernels.platform.pools import thread_pool

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Yield the items, computing the next one in a thread.

    For iterators that spend their time in system calls or compiled code, which release the
    interpreter's lock. Exceptions propagate to the caller, after the items before them.
    """
    done = object()
    item = next(items, done)  # one alone needs no thread
    if item is done:
        return
    threads: set[int] = set()

    def following() -> object:
        threads.add(threading.get_ident())
        return next(items, done)

    pool = thread_pool(1, "lod-ahead")
    try:
        while item is not done:
            coming = pool.submit(following)
            yield item  # type: ignore[misc]
            item = coming.result()
    finally:
        # Garbage collection may close this generator in the pool's thread, which cannot wait for
        # itself.
        pool.shutdown(wait=threading.get_ident() not in threads)
