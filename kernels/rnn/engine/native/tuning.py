"""Cache-dependent tuning: blocks of weights, and rows at a time; results never depend on it.

With blocking, each tile uses DEPTH rows of a panel, for all tiles, before the next DEPTH rows; the
next panel is prefetched meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from lodcli.kernels.platform.machine import cpu_vendor, second_cache_bytes

# By the vendor of a processor whose L3 cache is slow: docs/decisions/0008-compiled-rnn.md.
#: Maximum size of a weight that is multiplied without blocking, as a share of the L2 cache.
_UNBLOCKED = {"GenuineIntel": 0.5}
#: Maximum size of both weights that stay in the L2 cache during steps on few rows.
_BESIDE_ROWS = {"GenuineIntel": 0.6}


@cache
def most_unblocked_bytes() -> float:
    """Return the maximum size of a weight that is multiplied without blocking."""
    return _of_second_cache(_UNBLOCKED, math.inf)


def is_blocked(weight_bytes: int) -> bool:
    """Return whether a weight of this size is multiplied in blocks."""
    return weight_bytes > most_unblocked_bytes()


@cache
def most_beside_rows_bytes() -> float:
    """Return the maximum size of both weights for steps on few rows: see schedule.py."""
    return _of_second_cache(_BESIDE_ROWS, 0.0)


def _of_second_cache(shares: Mapping[str, float], otherwise: float) -> float:
    share, size_bytes = shares.get(cpu_vendor()), second_cache_bytes()
    return otherwise if share is None or size_bytes is None else share * size_bytes
