"""Kernel that assigns sequences to threads."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def assign(
    lengths: Pointer[np.int64], owner: Pointer[np.int64], loads: Pointer[np.int64],
    sequences: int, threads: int,
) -> int:  # fmt: skip
    """Write the owner of each sequence, longest first to the thread with the least; and the loads.

    Args:
        loads: (threads,), zeros.
    """
    for n in range(sequences):
        least = 0
        for thread in range(1, threads):
            if loads[thread] < loads[least]:
                least = thread
        owner[n] = least
        loads[least] += lengths[n]
    return 0
