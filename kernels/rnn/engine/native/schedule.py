"""Assignment of sequences to threads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.native import load
from lodcli.kernels.rnn.engine.native.structures import Sequences
from lodcli.kernels.rnn.engine.plan import StepPlan

_GROUP_BYTES = 1 << 18  # of states: what a group reads in a step stays in the cache
_LEAST_GROUP = 24
# Below this many operations a thread is not worth waking.
_LEAST_WORK = 10_000_000
# About a twentieth of a second.
_SLICE_WORK = 1e10
# Shares less even than this are not given out: all threads run all sequences together.
_UNEVEN = 1.25
_assign = load.kernel("kernels.rnn.engine.native.schedule_numba", "assign")


@dataclass(frozen=True, eq=False)
class Schedule:
    """Who runs what.

    Attributes:
        threads: how many there are.
        together: all of them run all groups, each its own units; else each has its own.
        groups: of each thread, one after another; of the team, if `together`.
    """

    threads: int
    together: bool
    groups: list[list[Sequences]]

    def groups_of(self, member: int) -> list[Sequences]:
        """Return what one thread runs, alone or with the others."""
        return self.groups[0 if self.together else member]


def threads_worth(threads: int, work: float) -> int:
    """Return how many of so many threads to use for `work` operations."""
    return max(1, min(threads, int(work // _LEAST_WORK)))


def schedule(plan: StepPlan, reverse: bool, threads: int, row_bytes: int) -> Schedule:
    """Return who runs what.

    Args:
        threads: how many there are.
        row_bytes: of the hidden state of one sequence.
    """
    alive = int(plan.step_sizes[0]) if len(plan.step_sizes) else 0
    most = max(_LEAST_GROUP, _GROUP_BYTES // row_bytes)
    shares, together = [np.arange(alive)], threads > 1
    if threads > 1:
        lengths = np.ascontiguousarray(plan.lengths[:alive])
        owner, loads = np.empty(alive, np.int64), np.zeros(threads, np.int64)
        _assign[""].call(0, 1, lengths, owner, loads, alive, threads)
        together = bool(loads.max() * threads > _UNEVEN * loads.sum())
        if not together:
            shares = [np.flatnonzero(owner == n) for n in range(threads)]
    groups = [
        [
            _sequences(plan, share[first : first + most], reverse)
            for first in range(0, len(share), most)
        ]
        for share in shares
    ]
    return Schedule(threads, together, groups)


def _sequences(plan: StepPlan, ranks: Offsets, reverse: bool) -> Sequences:
    """Return the sequences of these ranks: places in the order of the lengths."""
    lengths, starts = plan.lengths[ranks], plan.starts[ranks]
    firsts = starts + lengths - 1 if reverse else starts
    return Sequences(firsts, lengths, plan.order[ranks], ranks, len(ranks), -1 if reverse else 1)


def slices(group: Sequences, row_work: float) -> Iterator[tuple[int, int]]:
    """Yield ranges of steps, each done in a moment: between two, an interrupt is heard."""
    longest = int(group.lengths[0])
    steps = max(1, int(_SLICE_WORK // (row_work * group.total)))
    for first in range(0, longest, steps):
        yield first, min(first + steps, longest)
