"""How many threads a kernel gets: all there are, or one where waking others takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba as nb

# Waking a sleeping thread takes some 60 microseconds, in which one thread moves 2 MB.
SHARED_BYTES = 1 << 22


def run(kernel: Callable[..., None], size_bytes: int, *arguments: Any) -> None:
    """Call a parallel kernel that reads and writes so many bytes; its result is the same."""
    threads = nb.get_num_threads()
    if size_bytes >= SHARED_BYTES or threads == 1:
        kernel(*arguments)
        return
    nb.set_num_threads(1)
    try:
        kernel(*arguments)
    finally:
        nb.set_num_threads(threads)
