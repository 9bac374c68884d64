"""Numbers in many texts, eight digits at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.nulls import Mask

# Texts whose arrays fit into a cache.
_BLOCK = 1 << 14
# Number of digits with which every number is less than 2**64.
_MOST_DIGITS = 19
_POWERS = np.array([10**power for power in range(_MOST_DIGITS + 1)], np.uint64)
# Numbers up to this are floats, so that dividing one by a power of ten rounds only once.
_EXACT = 2**53
# The relative error of sums of two floats is far below.
_UNSURE = 2.0**-90


def _in_each_byte(value: int) -> np.uint64:
    return np.uint64(value * 0x01_01_01_01_01_01_01_01)


_ONES, _POINTS, _HIGH_BITS = map(_in_each_byte, (1, ord("."), 0x80))
_LOW_HALVES, _HIGH_HALVES, _SIX, _THREES = map(_in_each_byte, (0x0F, 0xF0, 6, 0x33))
# Of n bytes at the beginning of a word: bits after them, and zeros as text in the bytes before
# them once they are at the end.
_SHIFTS = np.array([0, *range(56, -1, -8)], np.uint64)
_ZEROS = np.array([(0x3030303030303030 << 8 * n) % 2**64 for n in range(9)], np.uint64)


def whole_numbers(texts: Texts) -> tuple[Array, Mask]:
    """Return numbers (K,) int64, and which texts they were read from; other numbers mean nothing.

    A text is read if it is ASCII digits, perhaps after a sign, of a number below 2**63.

    >>> whole_numbers(Texts.of_words(["12", "-3", "4.5"]))[0].tolist()[:2]
    [12, -3]
    """
    return _by_blocks(_whole, texts, np.dtype(np.int64))


def decimal_numbers(texts: Texts) -> tuple[Array, Mask]:
    """Return numbers (K,) float64, and which texts they were read from, with the result of float().

    A text is read if it is at most 19 ASCII digits, perhaps after a sign and with a point among
    them; except, rarely, where the number is about as close to two floats.

    >>> decimal_numbers(Texts.of_words(["12", "-0.1", "1e5"]))[0].tolist()[:2]
    [12.0, -0.1]
    """
    return _by_blocks(_decimal, texts, np.dtype(np.float64))


def _by_blocks(
    read: Callable[[Texts], tuple[Array, Mask]], texts: Texts, dtype: np.dtype[np.generic]
) -> tuple[Array, Mask]:
    count = texts.lengths.size
    numbers, known = np.empty(count, dtype), np.empty(count, np.bool_)
    for first in range(0, count, _BLOCK):
        block = slice(first, first + _BLOCK)
        numbers[block], known[block] = read(texts.taken(block))
    return numbers, known


def _whole(texts: Texts) -> tuple[Array, Mask]:
    texts, negative = _without_sign(texts)
    numbers, known = _digits(texts)
    known &= numbers < 2**63
    found = numbers.view(np.int64)
    return np.negative(found, out=found, where=negative), known


def _decimal(texts: Texts) -> tuple[Array, Mask]:
    texts, negative = _without_sign(texts)
    points = _points(texts)
    numbers, known = _digits(texts._replace(lengths=points))
    fractions = np.flatnonzero(points < texts.lengths)
    skipped, rest = points[fractions] + 1, texts.taken(fractions)
    rest = Texts(rest.data, rest.starts + skipped, rest.lengths - skipped)
    below, digits = _digits(rest)
    places = np.minimum(rest.lengths, _MOST_DIGITS)
    numbers[fractions] = numbers[fractions] * _POWERS[places] + below
    known[fractions] &= digits
    known &= texts.lengths <= _MOST_DIGITS + (points < texts.lengths)
    powers = np.ones(known.size)
    powers[fractions] = _POWERS[places]
    found = numbers / powers
    large = np.flatnonzero(known & (numbers > _EXACT))
    found[large], known[large] = _quotients(numbers[large], powers[large])
    return np.negative(found, out=found, where=negative), known


def _quotients(numbers: Array, powers: Array) -> tuple[Array, Mask]:
    """Return numbers, (K,) uint64, divided by powers of ten, and which are rounded as float() does.

    The quotients are sums of two floats, of twice as many digits, before they are rounded.

    References:
        Dekker, A floating-point technique for extending the available precision, 1971.
    """
    high = numbers.astype(np.float64)
    low = (numbers - high.astype(np.uint64)).view(np.int64).astype(np.float64)
    first = high / powers
    product = first * powers
    (a, b), (c, d) = _halves(first), _halves(powers)
    rounded = a * c - product + a * d + b * c + b * d
    rest = (high - product - rounded + low) / powers
    found = first + rest
    # The distance to the next float where it would be rounded otherwise; at a power of two, half.
    away, border = np.abs(rest - (found - first)), np.spacing(found) / 2
    least = found * _UNSURE
    return found, (np.abs(away - border) > least) & (np.abs(away - border / 2) > least)


def _halves(numbers: Array) -> tuple[Array, Array]:
    """Return floats as sums of two floats of half as many digits."""
    scaled = numbers * (2.0**27 + 1)
    high = scaled - (scaled - numbers)
    return high, numbers - high


def _without_sign(texts: Texts) -> tuple[Texts, Mask]:
    """Return texts without a sign at their beginning, and which had a minus."""
    first = texts.data[np.minimum(texts.starts, texts.data.size - 1)]
    negative = (first == ord("-")) & (texts.lengths > 0)
    signs = negative | ((first == ord("+")) & (texts.lengths > 0))
    if not signs.any():
        return texts, negative
    return Texts(texts.data, texts.starts + signs, texts.lengths - signs), negative


def _points(texts: Texts) -> Array:
    """Return the bytes before the point of each text, all of them if it has none in 24 bytes."""
    found = texts.lengths.copy()
    places = np.flatnonzero(found)
    for position in (0, 8, 16):
        places = places[texts.lengths[places] > position]
        if not places.size:
            break
        # The lowest high bit is that of the last byte that is a point.
        others = texts.taken(places).words(position) ^ _POINTS
        marks = (others - _ONES) & ~others & _HIGH_BITS
        there = np.flatnonzero(marks)
        last = marks[there] & (~marks[there] + np.uint64(1))
        bits = (last.astype(np.float64).view(np.int64) >> 52) - 1023
        found[places[there]] = position + 7 - (bits >> 3)
        places = places[marks == 0]
    return found


def _digits(texts: Texts) -> tuple[Array, Mask]:
    """Return the numbers of texts, (K,) uint64, and which are 1 to 19 digits."""
    lengths = texts.lengths
    numbers, known = _eight_digits(texts.words(0), lengths)
    known &= (lengths > 0) & (lengths <= _MOST_DIGITS)
    for position in (8, 16):
        longer = np.flatnonzero(known & (lengths > position))
        if not longer.size:
            break
        rest = texts.taken(longer)
        left = rest.lengths - position
        more, known[longer] = _eight_digits(rest.words(position), left)
        numbers[longer] = numbers[longer] * _POWERS[np.minimum(left, 8)] + more
    return numbers, known


def _eight_digits(words: Array, lengths: Array) -> tuple[Array, Mask]:
    """Return the numbers of words that begin with up to eight digits, and which do.

    Args:
        words: (K,) uint64, zeros after their bytes; see Texts.words.
        lengths: (K,), of the texts from these bytes on.

    References:
        Lemire, Quickly parsing eight digits, 2018.
    """
    counts = np.minimum(lengths, 8)
    digits = (words >> _SHIFTS[counts]) | _ZEROS[counts]
    known: Mask = (digits & _HIGH_HALVES) | (((digits + _SIX) & _HIGH_HALVES) >> 4) == _THREES
    digits &= _LOW_HALVES
    for bits, mask, power in ((8, _PAIRS, 10), (16, _FOURS, 100), (32, _EIGHTS, 10_000)):
        digits = ((digits >> np.uint64(bits)) & mask) * np.uint64(power) + (digits & mask)
    return digits, known


_PAIRS = np.uint64(0x00FF00FF00FF00FF)
_FOURS = np.uint64(0x0000FFFF0000FFFF)
_EIGHTS = np.uint64(0x00000000FFFFFFFF)
