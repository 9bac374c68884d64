"""A separate process for the tasks of one thread.

Unlike those of multiprocessing it can be started by a daemon, such as a worker of Dask. This module
imports no NumPy.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from lodcli.kernels.platform.processes import end_with_parent

T = TypeVar("T")
R = TypeVar("R")

# Environment variables that set the number of threads of lod and of libraries it may load.
THREADS = (
    *("LOD_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    "NUMBA_NUM_THREADS",
)
# A process that gets no task for this long ends.
_IDLE_SECONDS = 10
# Interval at which `wanted` is called.
_TICK_SECONDS = 0.5


class ChildProcess:
    """A fresh Python process that computes with one thread, and ends with the thread that made it.

    Args:
        folder: its working directory.

    Raises:
        OSError: there is no such folder.
    """

    def __init__(self, folder: str) -> None:
        self._connection, theirs = Pipe()
        number = theirs.fileno()
        # -P: a module in the working directory must not shadow another one.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({number})"],
            pass_fds=[number],
            cwd=folder,
            env={**os.environ, **dict.fromkeys(THREADS, "1")},
            stdin=subprocess.DEVNULL,
            # If it were closed, the first file that the child opens would get its descriptor.
            stdout=subprocess.DEVNULL if sys.stdout is None else None,
            stderr=subprocess.DEVNULL if sys.stderr is None else None,
        )
        theirs.close()

    @property
    def ended(self) -> bool:
        """Whether it ended, or was killed."""
        return self._process.poll() is not None

    def call(self, work: Callable[[T], R], task: T, wanted: Callable[[], bool]) -> list[R]:
        """Return `work(task)` in a list; an empty one if the process died, or was killed.

        Args:
            work: a module-level function whose results and exceptions can be pickled.
            task: its argument, which can be pickled.
            wanted: called repeatedly; once it returns False, the process is killed.

        Raises:
            Exception: exceptions of `work` propagate.
        """
        try:
            self._connection.send((work, task))
            while not self._connection.poll(_TICK_SECONDS):
                if not wanted():
                    self.kill()
            error, result = self._connection.recv()
        except (EOFError, OSError):
            self.kill()
            return []
        if error is not None:
            raise error
        return [result]

    def kill(self) -> None:
        """End the process now."""
        self._process.kill()
        self._process.wait()


def serve(number: int) -> None:
    """Run the tasks received through a file descriptor, one after another."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    connection: Connection[Any, Any] = Connection(number)
    while connection.poll(_IDLE_SECONDS):
        try:
            do_task(connection, connection.recv_bytes())
        except (EOFError, OSError):  # the parent was killed
            return


def do_task(connection: Connection[Any, Any], data: bytes) -> None:
    """Run a pickled task, and send its result or exception."""
    found: tuple[BaseException | None, Any]
    try:
        work, task = pickle.loads(data)
        found = (None, work(task))
    except BaseException as error:
        found = (error, None)
    connection.send(found)
