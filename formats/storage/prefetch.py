"""Prefetch: reads one batch ahead of the consumer."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import TypeVar

from lodcli.kernels.platform.pools import thread_pool

T = TypeVar("T")

# To start a thread and wait for its end takes longer than to read less than this.
LEAST_BYTES = 1 << 20
# The thread that is collecting garbage, while one is.
_collectors: set[int] = set()


def _note_collector(phase: str, info: dict[str, int]) -> None:
    (_collectors.add if phase == "start" else _collectors.discard)(threading.get_ident())


gc.callbacks.append(_note_collector)


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
    try:
        while item is not done:
            coming = pool.submit(following)
            yield item  # type: ignore[misc]
            item = coming.result()
    finally:
        # Garbage is collected in any thread at any time: also in one that is starting and holds
        # the lock that other threads take to start or to end, as the item may wait for. No code
        # uses what the item is read from then. Nor can the thread of the pool wait for itself.
        waits = _collectors.union(threads).isdisjoint([threading.get_ident()])
        pool.shutdown(wait=waits)
