"""Counters of the emulated device: launches, copies from main memory, synchronizations."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

LAUNCH, COPY, WAIT = "launch", "copy", "wait"
# The last ones: the tests of a process ask for millions.
asked: deque[tuple[str, str]] = deque(maxlen=1000)


def launches(name: str, size: int = 1) -> None:
    """Note a launch; no array of no values needs one."""
    if size:
        asked.append((LAUNCH, name))


def copies(name: str) -> None:
    """Note a copy from main memory to the device, which nobody waits for."""
    asked.append((COPY, name))


def waits(name: str) -> None:
    """Note that main memory waits for the device, as for what has to be known there."""
    asked.append((WAIT, name))


def is_made(result: Any, *inputs: Any) -> bool:
    """Return whether an array was computed: it is no view of any of these."""
    return not any(
        isinstance(one, np.ndarray) and np.may_share_memory(result, one) for one in inputs
    )
