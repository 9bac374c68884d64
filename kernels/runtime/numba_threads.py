"""How many threads a kernel gets: all there are, or one where waking others takes longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lodcli.kernels.runtime.jit_numba import numba, parallel

# Waking a sleeping thread takes some 60 microseconds: docs/decisions/0022-thresholds.md.
SHARED_BYTES = 1 << 23

numba.get_num_threads()  # starts them, and loads what is used here:
# what numba.set_num_threads ends in, after 7 microseconds of checks.
_parallel: Any = parallel
_set: Callable[[int], None] = getattr(_parallel, "_set_num_threads", numba.set_num_threads)
_get: Callable[[], int] = getattr(_parallel, "_get_num_threads", numba.get_num_threads)


def run(kernel: Callable[..., None], size_bytes: int, *arguments: Any) -> None:
    """Call a parallel kernel that reads and writes so many bytes; its result is the same."""
    if size_bytes >= SHARED_BYTES:
        kernel(*arguments)
        return
    threads = _get()
    if threads == 1:
        kernel(*arguments)
        return
    _set(1)
    try:
        kernel(*arguments)
    finally:
        _set(threads)
