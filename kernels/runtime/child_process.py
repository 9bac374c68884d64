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

# What the libraries that may be loaded read their number of threads from.
THREADS = (
    *("LOD_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    "NUMBA_NUM_THREADS",
)
# A process that gets no task for so long ends.
_IDLE_SECONDS = 10
# How often it is asked whether a task is still wanted.
_TICK_SECONDS = 0.5


class ChildProcess:
    """A fresh Python process that computes with one thread, and ends with the thread that made it.

    Args:
        folder: in which it runs.

    Raises:
        OSError: there is no such folder.
    """

    def __init__(self, folder: str) -> None:
        self._connection, theirs = Pipe()
        number = theirs.fileno()
        # -P: no module of the folder in the place of another.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", f"from {__name__} import serve; serve({number})"],
            pass_fds=[number],
            cwd=folder,
            env={**os.environ, **dict.fromkeys(THREADS, "1")},
            stdin=subprocess.DEVNULL,
            # If closed, the first file that the child opens would take its number.
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
            work: a function of a module, whose results and exceptions can be pickled.
            task: what can be pickled.
            wanted: asked again and again; once it is False, the process is killed.

        Raises:
            Exception: what `work` raised.
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
    """Do one task after another, as they come through a descriptor."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    connection: Connection[Any, Any] = Connection(number)
    while connection.poll(_IDLE_SECONDS):
        try:
            data = connection.recv_bytes()
        except EOFError:
            return
        do_task(connection, data)


def do_task(connection: Connection[Any, Any], data: bytes) -> None:
    """Do a task, and send what came of it: an exception or a result."""
    found: tuple[BaseException | None, Any]
    try:
        work, task = pickle.loads(data)
        found = (None, work(task))
    except BaseException as error:
        found = (error, None)
    connection.send(found)
