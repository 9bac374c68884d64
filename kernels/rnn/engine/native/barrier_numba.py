"""Compiled barrier for threads that share every step of a sequence.

A wait is a fraction of a microsecond where all threads run, so they spin; one that has waited
for longer gives its processor away, for then another process, or the thread it waits for,
needs it.
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
    """Return once all members are here; whether to go on: False once they are stopped."""
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
