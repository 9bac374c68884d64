"""Executor that still accepts tasks while the interpreter shuts down.

Python's thread pools refuse tasks then: in `atexit` callbacks, and in threads that outlive the
main one. Imported only when a pool is needed, because importing takes 3 ms.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# The end of Python's message, in all versions; its class is RuntimeError, as of other failures.
_ENDING = "after interpreter shutdown"


class Threads(Executor):
    """A thread pool, or the calling thread once the interpreter ends.

    Args:
        count: maximum number of threads.
        name: prefix of their names.
    """

    def __init__(self, count: int, name: str) -> None:
        self._pool: ThreadPoolExecutor | None = None
        try:
            from concurrent.futures import ThreadPoolExecutor
        except RuntimeError:  # imported for the first time, which registers a callback
            return
        self._pool = ThreadPoolExecutor(count, name)

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        """Return the future result of a call."""
        if self._pool is not None:
            try:
                return self._pool.submit(work, *args, **named)
            except RuntimeError as error:
                if not str(error).endswith(_ENDING):
                    raise
        done: Future[Any] = Future()
        try:
            done.set_result(work(*args, **named))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the threads, as `ThreadPoolExecutor.shutdown`."""
        if self._pool is not None:
            self._pool.shutdown(wait, cancel_futures=cancel_futures)
