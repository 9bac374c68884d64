"""Assignment of sequences to threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.native import load
from lodcli.kernels.rnn.engine.native.structures import Sequences
from lodcli.kernels.rnn.engine.plan import StepPlan

_GROUP_BYTES = 1 << 18  # size of the states of a group, which stay in the cache during a step
_LEAST_GROUP = 24
_FEW_BYTES, _FEW = 1 << 15, 32  # rows of small groups: AMX tiles have 32
# Minimum of operations per thread, to be worth waking it.
_LEAST_WORK = 10_000_000
# About a twentieth of a second.
_SLICE_WORK = 1e10
# If shares are less balanced than this, all threads run all sequences together.
_UNEVEN = 1.25
_INT64 = np.dtype(np.int64)
_assign = load.kernel("kernels.rnn.engine.native.schedule_numba", "assign")


@dataclass(frozen=True, eq=False)
class Schedule:
    """The assignment of sequences to threads.

    Attributes:
        threads: number of threads.
        together: whether all threads run all groups, each for its own units; else each thread runs
            its own groups.
        groups: the groups of each thread; with `together`, one list for all threads.
    """

    threads: int
    together: bool
    groups: list[list[Sequences]]

    def groups_of(self, member: int) -> list[Sequences]:
        """Return the groups of one thread, alone or with the others."""
        return self.groups[0 if self.together else member]


def threads_worth(threads: int, work: float) -> int:
    """Return how many threads to use for `work` operations."""
    return max(1, min(threads, int(work // _LEAST_WORK)))


@cache
def group_size(row_bytes: int, *, few: bool = False) -> int:
    """Return how many sequences run together at most.

    Args:
        row_bytes: size of the hidden state of one sequence.
        few: whether the states share the second cache with the weights; see tuning.py.
    """
    if few:
        return max(_FEW, _FEW_BYTES // row_bytes // _FEW * _FEW)
    return max(_LEAST_GROUP, _GROUP_BYTES // row_bytes)


def schedule(plan: StepPlan, reverse: bool, threads: int, most: int) -> Schedule:
    """Return the assignment of sequences to threads.

    Args:
        threads: number of threads.
        most: see group_size.
    """
    alive = int(plan.step_sizes[0]) if len(plan.step_sizes) else 0
    shares, ends = np.empty((5, alive), _INT64), np.empty((2, threads), _INT64)
    together = _assign[""].call(
        0, 1, plan.order, plan.lengths, plan.starts, shares, ends, alive, threads, reverse, _UNEVEN
    )
    groups, begin = [], 0
    for thread in range(1 if together else threads):
        end = ends.item(0, thread)
        groups.append(
            [_group(shares, n, min(n + most, end), reverse) for n in range(begin, end, most)]
        )
        begin = end
    return Schedule(threads, bool(together), groups)


def _group(shares: Offsets, first: int, end: int, reverse: bool) -> Sequences:
    """Return a range of the sequences of a share, longest first."""
    firsts, lengths, numbers, ranks = shares[:4, first:end]
    return Sequences(firsts, lengths, numbers, ranks, end - first, -1 if reverse else 1)


def slices(group: Sequences, row_work: float) -> Iterator[tuple[int, int]]:
    """Yield short ranges of steps; between two, interrupts are handled."""
    longest = int(group.lengths[0])
    steps = max(1, int(_SLICE_WORK // (row_work * group.total)))
    for first in range(0, longest, steps):
        yield first, min(first + steps, longest)
