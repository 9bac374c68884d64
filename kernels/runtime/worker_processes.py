"""Work in several processes: `--jobs`.

The processes are started anew (spawn). Each computes with its share of the processors, whatever
computes in it. This module imports no NumPy, so that the shares are set before NumPy is loaded.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

# What the libraries that may be loaded read their number of threads from.
_THREADS = (
    *("LOD_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    "NUMBA_NUM_THREADS",
)


def in_processes(work: Callable[[T], R], tasks: Sequence[T], jobs: int) -> Iterator[R]:
    """Yield `work(task)` of every task, in order, computed in so many processes.

    Args:
        work: a function of a module, whose results and exceptions can be pickled.
        tasks: what it is called with.
        jobs: with 1, everything is computed in this process.

    Raises:
        OSError: one of the processes was killed, or died.
    """
    count = min(jobs, len(tasks))
    if count < 2:
        yield from map(work, tasks)
        return
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    from lodcli.kernels.runtime.threads import thread_count

    pool = ProcessPoolExecutor(
        count,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(max(1, thread_count() // count),),
    )
    before = set(multiprocessing.active_children())
    try:
        for done in [pool.submit(work, task) for task in tasks]:
            yield done.result()
    except BrokenProcessPool:
        raise OSError(
            "one of the processes of --jobs was killed; start the command again"
        ) from None
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(threads: int) -> None:
    """Prepare a process: interrupts are for its parent, without which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for name in _THREADS:
        os.environ[name] = str(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
