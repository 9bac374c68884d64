"""See ranks.py. Texts are sorted by eight bytes at a time, as numbers."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.native import load
from lodcli.kernels.native.pool import run
from lodcli.kernels.order.texts import Texts

_MODULE = "kernels.order.ranks_numba"
_in_order, _changes = (load.kernel(_MODULE, name) for name in ("in_order", "changes"))
# Number of values of a digit of a key: 2**_BUCKET_BITS of the kernels.
_DIGITS = 1 << 11
# Texts that a thread compares at a time.
_PIECE = 1 << 14


def in_order(texts: Texts) -> tuple[Offsets, Array]:
    """See ranks.py."""
    count = texts.lengths.size
    starts, lengths = np.ascontiguousarray(texts.starts), np.ascontiguousarray(texts.lengths)
    order, again = np.arange(count), np.empty(count, np.bool_)
    keys, other_keys, other_order = np.empty((3, count), np.int64)
    _in_order[""].call(
        0, 1, texts.data, starts, lengths, order, again.view(np.uint8), keys, other_keys,
        other_order, np.empty(_DIGITS, np.int64), texts.data.size, count,
    )  # fmt: skip
    return order, again


def changes(texts: Texts) -> Array:
    """See ranks.py."""
    count = texts.lengths.size
    starts, lengths = np.ascontiguousarray(texts.starts), np.ascontiguousarray(texts.lengths)
    found = np.empty(max(0, count - 1), np.bool_)
    pieces, size = -(-found.size // _PIECE), texts.data.size
    run(
        _changes[""], pieces, size + starts.nbytes + lengths.nbytes, texts.data, starts, lengths,
        found.view(np.uint8), size, count, _PIECE,
    )  # fmt: skip
    return found
