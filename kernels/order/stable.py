"""Stable order of items by integers.

A key and the position of its item are sorted as one number, so an unstable sort suffices, for which
NumPy uses vector instructions and takes a fraction of the time.
"""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets

# Number of items processed at a time, which limits NumPy's temporary arrays.
_BLOCK = 1 << 16
_GREATEST = np.iinfo(np.int64).max


def sortable(data: Array, *, descending: bool = False) -> Array:
    """Return integers that sort like the numbers, (K,) int64 or uint64; all nan are equal and last.

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
    """Return the positions that sort items by integers, (K,) int64; the sort is stable.

    Args:
        columns: one or more keys of the items, (K,) each, the primary one first; see `sortable`.

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
    # If a key and the bits of a position exceed 64 bits, the highest bits are sorted first.
    cut = np.uint64(max(0, (int(whole.max()) - int(least)).bit_length() + bits - 64))
    keys = (whole - least).view(np.uint64)
    keys >>= cut
    order = _sorted_places(keys, bits)
    if not cut:
        return order
    tied = np.zeros(count, np.bool_)  # equal to the one before, in these bits
    in_order = True
    for first in range(0, count - 1, _BLOCK):
        some = (whole[order[first : first + _BLOCK + 1]] - least).view(np.uint64)
        in_order &= bool((some[1:] >= some[:-1]).all())
        some >>= cut
        tied[first + 1 : first + some.size] = some[1:] == some[:-1]
    first = 0
    while first < count and not in_order:
        last = _next_start(tied, first + _BLOCK)
        some = tied[first:last]
        if some.any():  # by blocks of whole runs of ties, to limit the memory for keys
            places = first + np.flatnonzero(some | np.append(some[1:], False))
            own, runs = order[places], np.cumsum(~tied[places]).view(np.uint64)
            rest = (whole[own] - least).view(np.uint64) & ((np.uint64(1) << cut) - np.uint64(1))
            order[places] = own[_order(runs << cut | rest)]
        first = last
    return order


def _next_start(tied: Array, place: int) -> int:
    """Return the first position from here on that is not tied with the one before; or the end."""
    rest = tied[place:]
    found = int(rest.argmin()) if rest.size else 0
    return place + found if rest.size and not rest[found] else tied.size


def _sorted_places(keys: Array, bits: int) -> Offsets:
    """Return the positions that sort the keys, stable; written to the memory of the keys.

    Args:
        keys: (K,) uint64, whose highest `bits` bits are 0.
        bits: number of bits of a position.
    """
    keys <<= np.uint64(bits)
    for first in range(0, keys.size, _BLOCK):
        last = min(first + _BLOCK, keys.size)
        keys[first:last] |= np.arange(first, last).view(np.uint64)
    keys.sort()
    keys &= np.uint64((1 << bits) - 1)
    return keys.view(np.int64)
