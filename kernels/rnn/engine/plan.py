"""Schedule of rows by step for an RNN without padding.

Sorted by length, longest first, the sequences still alive at any step are the first
few: the batch only ever shrinks from its end.

    origin    sorted    step 0  1  2  3
    aaaa      aaaa           a  a  a  a
    bb        ccc            c  c  c
    ccc       bb             b  b

These are SortBySeqLen and SegmentInputs of PaddlePaddle's design of variable-length RNNs, as index
arithmetic: no row moves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lodcli.kernels.index.checks import (
    Offsets,
    as_int64,
    check_offsets,
    check_rows,
    offsets_to_lengths,
)
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.native import load

_INT64 = np.dtype(np.int64)
_longest = load.kernel("kernels.index.items_numba", "longest")
_order = load.kernel("kernels.rnn.engine.plan_numba", "order")


@dataclass(frozen=True, eq=False)
class StepPlan:
    """The order of the sequences and the size of every step.

    Attributes:
        order: (S,) int64, the sequences, longest first; equal lengths keep their order.
        lengths: (S,) int64, the number of rows of each, in that order.
        starts: (S,) int64, the first row of each, in that order.
        step_sizes: (T,) int64, how many sequences are alive at each step; T is the
            longest length. Never rises, never 0.
    """

    order: Offsets
    lengths: Offsets
    starts: Offsets
    step_sizes: Offsets

    @property
    def offsets(self) -> Offsets:
        """(S+1,) int64, where the sequences begin in the batch's own order, and end."""
        found = np.empty(len(self.order) + 1, np.int64)
        found[self.order] = self.starts
        found[-1] = self.lengths.sum()
        return found

    def rows(self, step: int, *, reverse: bool = False) -> Offsets:
        """Return the rows that run at `step`, one per live sequence, longest first.

        Args:
            step: 0 .. T-1.
            reverse: run every sequence from its own last row to its first.

        >>> plan = plan_steps(np.array([0, 4, 6, 9]))
        >>> plan.rows(2).tolist(), plan.rows(2, reverse=True).tolist()
        ([2, 8], [1, 6])
        """
        alive = self.step_sizes[step]
        rows: Offsets
        if reverse:
            rows = self.starts[:alive] + self.lengths[:alive] - (step + 1)
        else:
            rows = self.starts[:alive] + step
        return rows


def plan_steps(offsets: Offsets) -> StepPlan:
    """Return the plan for the sequences between `offsets`.

    Args:
        offsets: (S+1,) int64, in rows: first 0, never decreasing. Not checked here.

    >>> plan = plan_steps(np.array([0, 4, 6, 6, 9]))
    >>> plan.order.tolist(), plan.step_sizes.tolist()
    ([0, 3, 1, 2], [3, 3, 2, 1])
    """
    if load.is_shipped():
        return _planned(np.ascontiguousarray(offsets))
    unsorted = offsets_to_lengths(offsets)
    order = (-unsorted).argsort(kind="stable").astype(np.int64, copy=False)
    # Entry t counts the sequences of at most t rows: those no longer alive at step t.
    finished = np.bincount(unsorted).cumsum(dtype=np.int64)
    return StepPlan(
        order=order,
        lengths=unsorted[order],
        starts=offsets[:-1][order],
        step_sizes=(len(order) - finished)[:-1],
    )


def _planned(offsets: Offsets) -> StepPlan:
    """See plan_steps; by compiled code, in half the time for a few sequences."""
    sequences = offsets.size - 1
    most = _longest[""].call(0, 1, offsets, sequences)
    order, lengths, starts = np.empty((3, sequences), _INT64)
    alive = np.empty(most + 1, _INT64)
    _order[""].call(0, 1, offsets, order, lengths, starts, alive, sequences, most)
    return StepPlan(order, lengths, starts, alive[1:])


def checked_offsets(offsets: object, rows: int, *, kept: bool = True) -> Offsets:
    """Return `offsets` as int64, once they are known to cut `rows` rows into sequences.

    Args:
        offsets: of one level.
        rows: number of rows.
        kept: False if the result is used within the call only: a copy is writable, which is faster.

    Raises:
        InvalidLoDError: as for an index of one level.
    """
    level = as_int64(offsets, level=0, what="offsets", copy=kept)
    # A thread of the caller may change its array after the check; compiled code relies on it.
    if not kept and not is_immutable(level):
        level = level.copy()
    check_offsets(level, level=0)
    check_rows((level,), rows)
    return level
