"""Counts of the work of a call, which do not depend on the machine."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest


def lines_of(call: Callable[[], Any]) -> int:
    """Return the number of lines of Python that a call runs, in all threads."""
    count = 0

    def line(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += 1
        return line

    before = sys.gettrace()
    threading.settrace(line)
    sys.settrace(line)
    try:
        call()
    finally:
        sys.settrace(before)
        threading.settrace(None)
    return count


def calls_of(patch: pytest.MonkeyPatch, owner: object, name: str) -> list[tuple[Any, ...]]:
    """Return a list to which each call of a function, or of a method, adds its arguments."""
    calls: list[tuple[Any, ...]] = []
    real = getattr(owner, name)

    def noted(*args: Any, **options: Any) -> Any:
        calls.append(args)
        return real(*args, **options)

    patch.setattr(owner, name, noted)
    return calls


def peak_bytes_of(call: Callable[[], Any]) -> int:
    """Return the largest amount of memory that Python and NumPy held at once in a call.

    What other threads hold, and what is loaded once, counts too: the call runs
    twice, and the lesser amount is its own.
    """
    return min(_peak_bytes_once(call), _peak_bytes_once(call))


def _peak_bytes_once(call: Callable[[], Any]) -> int:
    # Garbage of earlier tests, and warnings about it, do not count. Nothing is frozen:
    # gc.unfreeze() would also have the objects of all collected tests examined from then on.
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
