"""Kernel that numbers different texts with a hash table."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.simd.byte_moves import require
from lodcli.kernels.simd.raw_memory import value_at

_WORD = 8
# 2**64 divided by the golden ratio, as a signed number.
_FACTOR = -7046029254386353131


@function(inline="always")
def _word(data: Any, place: int) -> Any:
    return value_at(address(data) + place, np.int64(0))


@function(inline="always")
def _end(data: Any, place: int, size: int, count: int) -> Any:
    """Return the bytes at a place, one to seven, as a number; reads eight, all within `size`."""
    inside = min(place, size - _WORD)
    return (_word(data, inside) >> 8 * (place - inside)) & ((1 << 8 * count) - 1)


@function()
def _hash(data: Any, start: int, length: int, size: int) -> int:
    """Return the hash of a text, of which the high bits differ best."""
    found, place, stop = length, start, start + length
    while place < stop:
        if place + _WORD <= stop:
            word = _word(data, place)
        else:
            word = _end(data, place, size, stop - place)
        found = (found ^ word) * _FACTOR
        # Numbers are signed: without the mask, n and ~n would become equal.
        found ^= (found >> 32) & 0xFFFFFFFF
        place += _WORD
    return found * _FACTOR


@function()
def _equal(data: Any, one: int, other: int, length: int, size: int) -> bool:
    whole = length & -_WORD
    for k in range(0, whole, _WORD):
        if _word(data, one + k) != _word(data, other + k):
            return False
    one, other, left = one + whole, other + whole, length - whole
    return left == 0 or _end(data, one, size, left) == _end(data, other, size, left)


@kernel()
def number(
    data: Pointer[np.uint8], starts: Pointer[np.int64], lengths: Pointer[np.int64],
    numbers: Pointer[np.int64], firsts: Pointer[np.int64], state: Pointer[np.int64],
    table: Pointer[np.int64], bits: int, size: int, count: int,
) -> int:  # fmt: skip
    """Write a number for each text, and the first text of each number.

    Args:
        data: (size,), at least eight.
        state: how many texts are done, how many numbers there are, and how many slots may yet be
            looked at in vain.
        table: (2**bits,) zeros.

    Returns:
        0; 1 if half of the table is used, 2 if too many texts collide.
    """
    done, found, left = state[0], state[1], state[2]
    last, shift = (1 << bits) - 1, 64 - bits
    for n in range(found):
        k = firsts[n]
        slot = (_hash(data, starts[k], lengths[k], size) >> shift) & last
        while table[slot] != 0:
            slot = (slot + 1) & last
            left -= 1
        table[slot] = n + 1
    for k in range(done, count):
        if 2 * found > last or left < 0:
            state[0], state[1], state[2] = k, found, left
            return 2 if left < 0 else 1
        start, length = starts[k], lengths[k]
        require(0, length, start, size, length)
        slot = (_hash(data, start, length, size) >> shift) & last
        while True:
            n = table[slot] - 1
            if n < 0:
                n = found
                table[slot], firsts[n] = n + 1, k
                found += 1
                break
            first = firsts[n]
            if lengths[first] == length and _equal(data, start, starts[first], length, size):
                break
            slot = (slot + 1) & last
            left -= 1
        numbers[k] = n
    state[1] = found
    return 0
