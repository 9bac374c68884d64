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
    order, offsets = unwritten(count), unwritten(count + 1)
    if _ranks[""].call(0, 1, given, order, offsets, count):
        return reference.segment_ranks(table)
    return order, offsets
