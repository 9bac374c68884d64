"""Counters of the emulated device: launches, copies from main memory, synchronizations."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

LAUNCH, COPY, WAIT = "launch", "copy", "wait"
# Only the last ones: the tests of a process cause millions.
asked: deque[tuple[str, str]] = deque(maxlen=1000)


def launches(name: str, size: int = 1) -> None:
    """Count a launch, unless the array is empty."""
    if size:
        asked.append((LAUNCH, name))


def copies(name: str) -> None:
    """Count an asynchronous copy from main memory to the device."""
    asked.append((COPY, name))


def waits(name: str) -> None:
    """Count a synchronization, such as for a value needed in main memory."""
    asked.append((WAIT, name))


def is_made(result: Any, *inputs: Any) -> bool:
    """Return whether an array was computed, and is not a view of one of these."""
    return not any(
        isinstance(one, np.ndarray) and np.may_share_memory(result, one) for one in inputs
    )
