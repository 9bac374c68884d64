"""Kernels that sort texts by their bytes, and compare them with the ones before."""

from __future__ import annotations

from typing import Any

import numpy as np

from lodcli.kernels.native.declare import Pointer, kernel
from lodcli.kernels.native.language_numba import address, function
from lodcli.kernels.simd.byte_moves import require
from lodcli.kernels.simd.raw_memory import value_at

_WORD = 8
_LOWEST = -(2**63)
# Texts that are sorted by insertion; and so many that they are first distributed to buckets, of
# which each fits into a cache.
_FEW, _MANY, _BUCKET_BITS = 32, 1 << 15, 11
_DIGIT_BITS = 8


@function(inline="always")
def _word(data: Any, place: int) -> Any:
    return value_at(address(data) + place, np.int64(0))


@function(inline="always")
def _end(data: Any, place: int, size: int, count: int) -> Any:
    """Return the bytes at a place, one to seven, as a number; reads eight, all within `size`."""
    inside = min(place, size - _WORD)
    return (_word(data, inside) >> 8 * (place - inside)) & ((1 << 8 * count) - 1)


@function()
def _alike(data: Any, one: int, other: int, count: int, size: int) -> int:
    """Return how many of `count` bytes at two places are equal before the first that differ."""
    done = 0
    while done < count:
        if done + _WORD <= count:
            differ = _word(data, one + done) ^ _word(data, other + done)
        else:
            left = count - done
            differ = _end(data, one + done, size, left) ^ _end(data, other + done, size, left)
        if differ != 0:
            while differ & 255 == 0:
                differ >>= 8
                done += 1
            return done
        done += _WORD
    return count


@function()
def _key(data: Any, place: int, left: int, size: int) -> Any:
    """Return eight bytes as a signed number that sorts like them; zeros follow the last `left`."""
    if left >= _WORD:
        found = _word(data, place)
    elif left > 0:
        found = _end(data, place, size, left)
    else:
        found = 0
    found = ((found >> 8) & 0x00FF00FF00FF00FF) | ((found & 0x00FF00FF00FF00FF) << 8)
    found = ((found >> 16) & 0x0000FFFF0000FFFF) | ((found & 0x0000FFFF0000FFFF) << 16)
    found = ((found >> 32) & 0xFFFFFFFF) | (found << 32)
    return found ^ _LOWEST


@function()
def _digit(key: int, shift: int, mask: int) -> int:
    return ((key ^ _LOWEST) >> shift) & mask


@function()
def _distribute(
    keys: Any, order: Any, keys_to: Any, order_to: Any, counts: Any,
    begin: int, end: int, shift: int, mask: int,
) -> None:  # fmt: skip
    """Copy keys and places in the order of a digit of each key; counts of digits become ends."""
    for n in range(mask + 1):
        counts[n] = 0
    for k in range(begin, end):
        counts[_digit(keys[k], shift, mask)] += 1
    total = begin
    for n in range(mask + 1):
        count = counts[n]
        counts[n] = total
        total += count
    for k in range(begin, end):
        digit = _digit(keys[k], shift, mask)
        to = counts[digit]
        counts[digit] = to + 1
        keys_to[to], order_to[to] = keys[k], order[k]


@function()
def _distribute_in_place(
    keys: Any, order: Any, other_keys: Any, other_order: Any, counts: Any,
    begin: int, end: int, shift: int, mask: int,
) -> None:  # fmt: skip
    _distribute(keys, order, other_keys, other_order, counts, begin, end, shift, mask)
    for k in range(begin, end):
        keys[k], order[k] = other_keys[k], other_order[k]


@function()
def _insert(keys: Any, order: Any, begin: int, end: int) -> None:
    for k in range(begin + 1, end):
        key, place = keys[k], order[k]
        at = k
        while at > begin and keys[at - 1] > key:
            keys[at], order[at] = keys[at - 1], order[at - 1]
            at -= 1
        keys[at], order[at] = key, place


@function()
def _sort_bucket(
    keys: Any, order: Any, other_keys: Any, other_order: Any, counts: Any,
    begin: int, end: int, bits: int,
) -> None:  # fmt: skip
    """Sort keys and their places by these lowest bits; equal ones stay in their order."""
    if end - begin <= _FEW:
        _insert(keys, order, begin, end)
        return
    differ = 0
    for k in range(begin + 1, end):
        differ |= keys[k] ^ keys[begin]
    moved = False
    for shift in range(0, bits, _DIGIT_BITS):
        mask = (1 << min(_DIGIT_BITS, bits - shift)) - 1
        if (differ >> shift) & mask != 0:
            _distribute(keys, order, other_keys, other_order, counts, begin, end, shift, mask)
            keys, order, other_keys, other_order = other_keys, other_order, keys, order
            moved = not moved
    if moved:
        for k in range(begin, end):
            other_keys[k], other_order[k] = keys[k], order[k]


@function()
def _sort(
    keys: Any, order: Any, other_keys: Any, other_order: Any, counts: Any, begin: int, end: int
) -> None:
    """Sort keys and their places; equal ones stay in their order."""
    bits, mask = 64, (1 << _BUCKET_BITS) - 1
    if end - begin > _MANY:
        differ = 0
        for k in range(begin + 1, end):
            differ |= keys[k] ^ keys[begin]
        while bits > 0 and differ >= 0:
            differ <<= 1
            bits -= 1
        bits = max(bits - _BUCKET_BITS, 0)
        _distribute_in_place(keys, order, other_keys, other_order, counts, begin, end, bits, mask)
    first = begin
    while first < end:
        last = end
        if bits < 64:
            last, digit = first + 1, _digit(keys[first], bits, mask)
            while last < end and _digit(keys[last], bits, mask) == digit:
                last += 1
        _sort_bucket(keys, order, other_keys, other_order, counts, first, last, bits)
        first = last


@function()
def _common(
    data: Any, starts: Any, lengths: Any, order: Any, begin: int, end: int, done: int, size: int
) -> int:
    """Return how many bytes after the first `done` are equal in all texts of a run."""
    first = order[begin]
    same: int = lengths[first] - done
    for k in range(begin + 1, end):
        if same == 0:
            break
        text = order[k]
        most = min(same, lengths[text] - done)
        same = _alike(data, starts[first] + done, starts[text] + done, most, size)
    return same


@function()
def _sort_by_length(
    lengths: Any, order: Any, again: Any, keys: Any, other_keys: Any, other_order: Any,
    counts: Any, first: int, last: int, done: int,
) -> None:  # fmt: skip
    """Sort texts with equal keys by their lengths: zeros after a text are in its key as well."""
    for k in range(first, last):
        keys[k] = min(lengths[order[k]] - done, _WORD)
    _distribute_in_place(
        keys, order, other_keys, other_order, counts, first, last, 0, 2 * _WORD - 1
    )
    for k in range(first + 1, last):
        if keys[k] != keys[k - 1]:
            again[k] = 0
            if keys[k] == _WORD:
                keys[k] = done + _WORD
                break
        elif keys[k] < _WORD:
            again[k] = 1
    if keys[first] == _WORD:
        keys[first] = done + _WORD


@kernel()
def in_order(
    data: Pointer[np.uint8], starts: Pointer[np.int64], lengths: Pointer[np.int64],
    order: Pointer[np.int64], again: Pointer[np.uint8], keys: Pointer[np.int64],
    other_keys: Pointer[np.int64], other_order: Pointer[np.int64], counts: Pointer[np.int64],
    size: int, count: int,
) -> int:  # fmt: skip
    """Write texts in order of their bytes, and which of them equal the one before; returns 0.

    Runs of texts that are equal so far are sorted by their next eight bytes. The first of a run
    has 0 in `again` and the number of bytes that are equal in `keys`, the others have 2.

    Args:
        data: (size,), at least eight.
        order: (count,), 0 to count - 1.
        again: (count,).
        keys, other_keys, other_order: (count,), scratch memory.
        counts: (2**_BUCKET_BITS,), scratch memory.
    """
    for k in range(count):
        require(0, lengths[k], starts[k], size, lengths[k])
        again[k] = 2 if k else 0
    if count:
        keys[0] = 0
    begin = 0
    while begin < count:
        end = begin + 1
        while end < count and again[end] == 2:
            end += 1
        if end == begin + 1:
            begin = end
            continue
        done = keys[begin]
        done += _common(data, starts, lengths, order, begin, end, done, size)
        shortest, longest = _WORD, 0
        for k in range(begin, end):
            text = order[k]
            left = lengths[text] - done
            keys[k] = _key(data, starts[text] + done, left, size)
            shortest, longest = min(shortest, left), max(longest, left)
        if longest == 0:
            for k in range(begin + 1, end):
                again[k] = 1
            begin = end
            continue
        _sort(keys, order, other_keys, other_order, counts, begin, end)
        first = begin
        while first < end:
            last, key = first + 1, keys[first]
            while last < end and keys[last] == key:
                last += 1
            again[first] = 0
            if shortest < _WORD and last > first + 1:
                _sort_by_length(
                    lengths, order, again, keys, other_keys, other_order, counts, first, last, done
                )
            else:
                keys[first] = done + _WORD
            first = last
    return 0


@kernel()
def changes(
    data: Pointer[np.uint8], starts: Pointer[np.int64], lengths: Pointer[np.int64],
    out: Pointer[np.uint8], size: int, count: int, step: int, first: int, last: int,
) -> int:  # fmt: skip
    """Write whether each of `count` texts but the first differs from the one before; returns 0.

    Args:
        out: (count - 1,).
        step: texts of a piece.
    """
    for k in range(first * step, min(last * step, count - 1)):
        require(0, lengths[k], starts[k], size, lengths[k])
        length = lengths[k + 1]
        require(0, length, starts[k + 1], size, length)
        out[k] = 1
        if lengths[k] == length:
            out[k] = _alike(data, starts[k], starts[k + 1], length, size) < length
    return 0
