"""Compiled barrier for threads that process the same sequences step by step.

A wait takes a fraction of a microsecond if all threads run, so they spin; after a while a thread
yields its processor, because another process, or the thread it waits for, needs it.
"""

from __future__ import annotations

from typing import Any

from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.native.system_numba import load, pause, sched_yield, store
from lodcli.kernels.rnn.engine.native.barrier import STRIDE

_SPINS = 100
_STRIDE_BYTES = 8 * STRIDE


@function()
def meet(barrier: Any, member: int, members: int) -> bool:
    """Wait until all members have arrived; return False if they are to stop."""
    if members == 1:
        return True
    stopped = address(barrier)
    own = stopped + (member + 1) * _STRIDE_BYTES
    mine = load(own) + 1
    store(own, mine)
    for other in range(members):
        spins = 0
        while load(stopped + (other + 1) * _STRIDE_BYTES) < mine:
            if load(stopped):
                return False
            spins += 1
            if spins < _SPINS:
                pause()
            else:
                sched_yield()
    return True
