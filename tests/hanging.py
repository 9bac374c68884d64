"""Timeout of tests that wait for other processes and threads."""

from __future__ import annotations

import time
from collections.abc import Callable

# So long that only a hang exceeds it, also on a busy machine: no result depends on speed.
HANG_SECONDS = 600


def wait_for(condition: Callable[[], object]) -> None:
    """Return once a condition is true, of other processes or threads."""
    until = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < until, "the condition never became true"
        time.sleep(0.02)
