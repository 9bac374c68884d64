"""Stable order of items by integers.

A key and the place of its item are sorted as one number, so the sort need not be stable: NumPy
has vector instructions for sorts that are not, and takes a fraction of the time.
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets

# Items that are compared, or whose places are added to keys, at a time: NumPy makes arrays of them.
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
    if not (int(whole.max()) - int(least)) >> (64 - bits):
        return _sorted_places((whole - least).view(np.uint64), None, bits)
    order = np.argsort(whole)  # not stable, so by vector instructions as well
    again = np.zeros(count, np.bool_)  # equal to the one before
    for first in range(0, count - 1, _BLOCK):
        some = whole[order[first : first + _BLOCK + 1]]
        again[first + 1 : first + some.size] = some[1:] == some[:-1]
    first = 0
    while first < count:
        last = _next_start(again, first + _BLOCK)
        some = again[first:last]
        if some.any():  # by blocks that hold whole runs of equal ones: memory for few keys
            runs = np.cumsum(~some).view(np.uint64)
            order[first:last] = _sorted_places(runs, order[first:last], bits)
        first = last
    return order


def _next_start(again: Array, place: int) -> int:
    """Return the first place from this one on that is not equal to the one before; or the end."""
    rest = again[place:]
    found = int(rest.argmin()) if rest.size else 0
    return place + found if rest.size and not rest[found] else again.size


def _sorted_places(keys: Array, places: Offsets | None, bits: int) -> Offsets:
    """Return the places of keys in order of both, in the memory of the keys.

    Args:
        keys: (K,) uint64, which fit beside the bits of a place.
        places: of the keys; None: 0 to K - 1.
    """
    keys <<= np.uint64(bits)
    for first in range(0, keys.size, _BLOCK):
        last = min(first + _BLOCK, keys.size)
        some = np.arange(first, last) if places is None else places[first:last]
        keys[first:last] |= some.view(np.uint64)
    keys.sort()
    keys &= np.uint64((1 << bits) - 1)
    return keys.view(np.int64)
