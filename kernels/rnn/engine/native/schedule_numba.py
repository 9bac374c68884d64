"""Kernel that assigns sequences to threads."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel


@kernel()
def assign(
    order: Pointer[np.int64], lengths: Pointer[np.int64], starts: Pointer[np.int64],
    shares: Pointer[np.int64], ends: Pointer[np.int64], sequences: int, threads: int,
    backwards: bool, uneven: float,
) -> int:  # fmt: skip
    """Assign sequences to threads: longest first, to the least loaded thread.

    Args:
        order, lengths, starts: (sequences,), longest first: see StepPlan.
        shares: (5, sequences): first row, length, number and rank of each sequence, share by share;
            and scratch for the owner of each.
        ends: (2, threads): the end of each thread's share; and scratch for its number of rows.
        backwards: whether sequences run from last row to first.
        uneven: if the largest share exceeds the average by this factor, there is one share for all,
            and 1 is returned.
    """
    firsts, held, numbers = shares, shares + sequences, shares + 2 * sequences
    ranks, owners = shares + 3 * sequences, shares + 4 * sequences
    loads = ends + threads
    for thread in range(threads):
        ends[thread] = loads[thread] = 0
    total = 0
    for rank in range(sequences):
        least = 0
        for thread in range(1, threads):
            if loads[thread] < loads[least]:
                least = thread
        owners[rank] = least
        loads[least] += lengths[rank]
        total += lengths[rank]
    greatest = 0
    for thread in range(threads):
        greatest = max(greatest, loads[thread])
    together = threads > 1 and greatest * threads > uneven * total
    for rank in range(sequences):
        if together:
            owners[rank] = 0
        ends[owners[rank]] += 1
    place = 0
    for thread in range(threads):
        count = ends[thread]
        ends[thread] = place
        place += count
    for rank in range(sequences):
        place = ends[owners[rank]]
        ends[owners[rank]] = place + 1
        firsts[place] = starts[rank] + lengths[rank] - 1 if backwards else starts[rank]
        held[place], numbers[place], ranks[place] = lengths[rank], order[rank], rank
    return 1 if together else 0
