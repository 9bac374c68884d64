"""Kernels for tests and measurements of calls and of the pool."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, T, kernel
from lodcli.kernels.native.language_numba import address
from lodcli.kernels.native.system_numba import (
    add,
    allow_cpu,
    current_cpu,
    load,
    sched_yield,
    sleep,
)


@kernel()
def nothing(first: int, last: int) -> int:
    """Do nothing."""
    return 0


@kernel()
def count(done: Pointer[np.int64], first: int, last: int) -> int:
    """Add one to each piece's count."""
    for piece in range(first, last):
        done[piece] += 1
    return 0


@kernel()
def status(statuses: Pointer[np.int64], first: int, last: int) -> int:
    """Return the greatest of the statuses of some pieces."""
    found = 0
    for piece in range(first, last):
        found = max(found, statuses[piece])
    return found


@kernel()
def sleep_each(done: Pointer[np.int64], nanoseconds: int, first: int, last: int) -> int:
    """Sleep for each piece."""
    for piece in range(first, last):
        sleep(nanoseconds)
        done[piece] += 1
    return 0


@kernel()
def allow(cpu: int, allowed: bool) -> int:
    """Allow this thread a processor, or not; return whether its processors were changed."""
    return 1 if allow_cpu(0, cpu, allowed) else 0


@kernel()
def processors(cpus: Pointer[np.int64], nanoseconds: int, first: int, last: int) -> int:
    """Record the processor that each piece runs on, and sleep there."""
    for piece in range(first, last):
        cpus[piece] = current_cpu()
        sleep(nanoseconds)
    return 0


@kernel()
def meet(met: Pointer[np.int64], members: int, first: int, last: int) -> int:
    """Wait until this many threads have arrived; count arrivals and departures."""
    add(address(met), last - first)
    while load(address(met)) < members:
        sched_yield()
    add(address(met) + 8, last - first)
    return 0


@kernel()
def order(
    places: Pointer[np.int64], begun: Pointer[np.int64], threads: int, first: int, last: int
) -> int:
    """Record the order in which pieces begin; block each until this many have begun."""
    for piece in range(first, last):
        places[piece] = add(address(begun), 1)
        while load(address(begun)) < threads:
            sched_yield()
    return 0


@kernel(types=("float32", "int64"))
def arguments(
    x: Pointer[T], none: Pointer[T], real: float, whole: int, truth: bool, out: Pointer[np.float64]
) -> int:
    """Record the arguments."""
    out[0] = x[0]
    out[1] = address(none)
    out[2] = real
    out[3] = whole
    out[4] = 1 if truth else 0
    return whole
