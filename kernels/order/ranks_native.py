"""See ranks.py. Texts are found in a hash table."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.native import load
from lodcli.kernels.order import ranks as reference
from lodcli.kernels.order.texts import Texts

_number = load.kernel("kernels.order.ranks_numba", "number")
# Bits of the number of slots of the first table.
_BITS = 12
# Slots that are looked at in vain, for each text and for all together, before the texts are taken
# for ones that were made to collide.
_PROBES, _ALL_PROBES = 16, 1 << 20


def numbered(texts: Texts) -> tuple[Offsets, Offsets]:
    """See ranks.py."""
    count = texts.lengths.size
    starts, lengths = np.ascontiguousarray(texts.starts), np.ascontiguousarray(texts.lengths)
    numbers, firsts = np.empty(count, np.int64), np.empty(count, np.int64)
    state = np.array([0, 0, _PROBES * count + _ALL_PROBES])
    bits, status = _BITS, 1
    while status == 1:
        status = _number[""].call(
            0, 1, texts.data, starts, lengths, numbers, firsts, state,
            np.zeros(1 << bits, np.int64), bits, texts.data.size, count,
        )  # fmt: skip
        bits += 1
    if status:
        return reference.numbered(texts)
    return numbers, firsts[: state.item(1)].copy()
