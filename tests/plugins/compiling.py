"""Compile kernels in a process of their own, so that the process that runs tests stays small.

LLVM keeps about 10 MB for every second that it compiles, until its process ends: a few hundred
kernels take 2 GB. A kernel that comes out of numba's cache takes a tenth of that. So what is
not in the cache yet is compiled by a helper, which is replaced when it has grown.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

MOST_BYTES = 600_000_000


class Helper:
    """The process that compiles; it starts when it is first asked."""

    def __init__(self) -> None:
        self._environment = os.environ.copy()  # no test has changed it yet
        self._owner = os.getpid()
        self._process: subprocess.Popen[bytes] | None = None

    def compile(self, function: Callable[..., Any], signature: Any) -> bool:
        """Have a function compiled and put into the cache; return whether that was tried."""
        name = function.__qualname__
        if os.getpid() != self._owner or "<locals>" in name:  # a fork; or it has no name there
            return False
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        pickle.dump((function.__module__, name, signature), process.stdin)
        process.stdin.flush()
        done, grown = pickle.load(process.stdout)
        if grown:
            self.stop()
        return bool(done)

    def stop(self) -> None:
        """End the process."""
        if self._process:
            self._process.communicate()
            self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.plugins.compiling"],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=os.path.dirname(os.path.dirname(os.path.dirname(__file__))),
            start_new_session=True,  # an interrupt is for the tests
        )


class Asking:
    """Has the cache of kernels ask the helper for what it does not hold."""

    def __init__(self) -> None:
        self.helper = Helper()
        self.asks = False

    def pytest_runtest_setup(self) -> None:
        """Begin once a test has loaded the kernels: no other is to find numba loaded."""
        kept = sys.modules.get("lodcli.kernels.runtime.numba_cache_files")
        if not kept or self.asks:
            return
        self.asks = True
        load = kept._Cache.load_overload

        def load_overload(cache: Any, signature: Any, context: Any) -> Any:
            found, function = load(cache, signature, context), cache._py_func
            if found is None and self.helper.compile(function, signature):
                return load(cache, signature, context)
            return found

        kept._Cache.load_overload = load_overload

    def pytest_sessionfinish(self) -> None:
        """End the helper."""
        self.helper.stop()


def pytest_configure(config: pytest.Config) -> None:
    """Join in, with the environment as it is before all tests."""
    config.pluginmanager.register(Asking())


def serve() -> None:
    """Compile what is asked for on standard input, until it ends."""
    from tests.plugins.memory import peak_bytes

    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else is printed
    while True:
        try:
            module, name, signature = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        function: Any = getattr(import_module(module), name, None)
        done = hasattr(function, "compile")
        if done:
            # An error comes again, and is shown, where the tests run.
            with contextlib.suppress(Exception):
                function.compile(signature)
        pickle.dump((done, peak_bytes() > MOST_BYTES), answers)
        answers.flush()


if __name__ == "__main__":
    serve()
