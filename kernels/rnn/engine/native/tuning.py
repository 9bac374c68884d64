"""Which weights are multiplied in blocks: it depends on the processor; results never do.

In blocks, a tile takes DEPTH rows of a panel, and all tiles take them before the next ones; the
panel after it is prefetched meanwhile.
"""

from __future__ import annotations

import math
from functools import cache

from lodcli.kernels.platform.machine import cpu_vendor, second_cache_bytes

#: By the maker of a processor, the share of its second cache that weights may take before they
#: are multiplied in blocks, where its third cache is slow: docs/decisions/0008-compiled-rnn.md.
_UNBLOCKED_SHARE = {"GenuineIntel": 0.5}


@cache
def most_unblocked_bytes() -> float:
    """Return how large weights may be before they are multiplied in blocks."""
    share, size_bytes = _UNBLOCKED_SHARE.get(cpu_vendor()), second_cache_bytes()
    return math.inf if share is None or size_bytes is None else share * size_bytes


def is_blocked(weight_bytes: int) -> bool:
    """Return whether weights of so many bytes are multiplied in blocks."""
    return weight_bytes > most_unblocked_bytes()
