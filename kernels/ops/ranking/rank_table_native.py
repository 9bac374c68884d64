"""See rank_table.py."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.immutable import unwritten
from lodcli.kernels.native import load
from lodcli.kernels.ops.ranking import rank_table as reference

_ranks = load.kernel("kernels.ops.ranking.rank_table_numba", "ranks")


def segment_ranks(table: Offsets) -> tuple[Offsets, Offsets]:
    """See rank_table.py."""
    given, count = np.ascontiguousarray(table), len(table)
    order, lengths = unwritten(count), np.empty(count, np.int64)
    if _ranks[""].call(0, 1, given, order, lengths, count):
        return reference.segment_ranks(table)
    return order, lengths
