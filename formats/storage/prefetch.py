"""Prefetch: reads one batch ahead of the consumer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import TypeVar

from lodcli.kernels.platform.pools import thread_pool

T = TypeVar("T")

# To start a thread and wait for its end takes longer than to read less than this.
LEAST_BYTES = 1 << 20


def ahead(items: Iterator[T], size_bytes: int = LEAST_BYTES) -> Iterator[T]:
    """Yield the items, computing the next one in a thread.

    For iterators that spend their time in system calls or compiled code, which release the
    interpreter's lock. Exceptions propagate to the caller, after the items before them.

    Args:
        items: to yield.
        size_bytes: of all items together, if it is known; for few bytes there is no thread.
    """
    if size_bytes < LEAST_BYTES:
        yield from items
        return
    done = object()
    item = next(items, done)  # one alone needs no thread
    if item is done:
        return
    threads: set[int] = set()

    def following() -> object:
        threads.add(threading.get_ident())
        return next(items, done)

    pool = thread_pool(1, "lod-ahead")
    coming, closed = None, False
    try:
        while item is not done:
            coming = pool.submit(following)
            yield item  # type: ignore[misc]
            item = coming.result()
    except GeneratorExit:
        closed = True
        raise
    finally:
        # Garbage collection may close this generator in any thread: in that of the pool, which
        # cannot wait for itself, and in one that is starting and holds the lock that it takes to
        # join a thread. So then only the item is waited for, and not the end of the thread.
        pool.shutdown(wait=not closed)
        if coming is not None and threading.get_ident() not in threads:
            coming.exception()
