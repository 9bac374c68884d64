"""Stable order of items by integers.

A key and the place of its item are sorted as one number, so the sort need not be stable: NumPy
sorts numbers with vector instructions, in a fraction of the time of an argsort.
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets

# More keys, if they need several sorts, are left to NumPy's argsort, which takes less memory.
_MOST = 1 << 20
# Places that are added to keys at a time.
_BLOCK = 1 << 16
_GREATEST = np.iinfo(np.int64).max


def sortable(data: Array, *, descending: bool = False) -> Array:
    """Return integers in the order of numbers, (K,) int64 or uint64; nan are equal and the last.

    Args:
        data: (K,), of any dtype. Complex numbers are in NumPy's order; -0.0 equals 0.0.
        descending: whether the greatest come first.
    """
    kind = data.dtype.kind
    if kind in "biu":
        whole: Array = data if data.dtype == np.uint64 else data.astype(np.int64, copy=False)
        return ~whole if descending else whole
    if kind == "c" or (kind == "f" and data.itemsize > 8):
        nan = np.isnan(data)
        numbers = np.unique(data, return_inverse=True)[1].astype(np.int64)
    else:
        # The bits of positive floats sort like the floats, of negative ones in reverse.
        wide = data.astype(np.float64)
        wide += 0.0
        nan, numbers = np.isnan(wide), wide.view(np.int64)
        np.bitwise_xor(numbers, _GREATEST, out=numbers, where=numbers < 0)
    if descending:
        np.invert(numbers, out=numbers)
    numbers[nan] = _GREATEST
    return numbers


def stable_order(*columns: Array) -> Offsets:
    """Return the items in order of integers, (K,) int64; equal ones stay in their order.

    Args:
        columns: at least one, (K,) each, the most important first; see `sortable`.

    >>> stable_order(np.array([2, 1, 2, 1])).tolist()
    [1, 3, 0, 2]
    """
    *others, last = columns
    order = _order(last)
    for column in reversed(others):
        order = order[_order(column[order])]
    return order


def _order(column: Array) -> Offsets:
    count = column.size
    if count < 2:
        return np.arange(count)
    whole = column if column.dtype == np.uint64 else column.astype(np.int64, copy=False)
    least, bits = whole.min(), (count - 1).bit_length()
    most, room = int(whole.max()) - int(least), 64 - bits
    if most >> room and count > _MOST:
        return np.argsort(whole, kind="stable")
    rest = (whole - least).view(np.uint64)
    if not most >> room:
        return _placed(rest, bits)
    # The lowest bits first, as many as fit beside a place.
    order = _placed(rest.copy(), bits)
    while most := most >> room:
        rest >>= np.uint64(room)
        order = order[_placed(rest[order], bits)]
    return order


def _placed(keys: Array, bits: int) -> Offsets:
    """Return the places of keys in order of the bits beside those of a place, in their memory."""
    keys <<= np.uint64(bits)
    for first in range(0, keys.size, _BLOCK):
        last = min(first + _BLOCK, keys.size)
        keys[first:last] |= np.arange(first, last, dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << bits) - 1)
    return keys.view(np.int64)
