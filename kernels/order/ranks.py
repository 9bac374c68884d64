"""Ranks of texts by their bytes."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.order.stable import stable_order
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.runtime.dispatch import on

# The last byte of a key, which counts the bytes of its text.
_COUNT = np.uint64(255)
# A text that goes on after its seven bytes in a key.
_MORE = 8
# Bytes that a text takes as an object of Python, with its number.
_OBJECT_BYTES = 128
# So few texts are compared one by one, twice as many after each sixteen bytes that they share: a
# long text takes more memory than its object, and each round compares only seven bytes.
_FEW, _DOUBLING_BYTES = 500, 16


def text_ranks(texts: Texts) -> Offsets:
    """Return the rank of each text among the different ones, (K,) int64.

    >>> text_ranks(Texts.of_words(["b", "a", "bb", "b"])).tolist()
    [1, 0, 2, 1]
    """
    numbers, firsts = text_numbers(texts)
    ranks = np.empty(firsts.size, np.int64)
    ranks[sorted_texts(texts.taken(firsts))] = np.arange(firsts.size)
    return ranks.take(numbers)


def text_numbers(texts: Texts) -> tuple[Offsets, Offsets]:
    """Return the result of `numbered`, from compiled code where that is faster."""
    return on("auto", numbered, size_bytes=_OBJECT_BYTES * texts.lengths.size)(texts)


def numbered(texts: Texts) -> tuple[Offsets, Offsets]:
    """Return a number of each text, (K,), and the first text of each number, (D,) int64.

    Equal texts have equal numbers, which are in the order of their first texts.
    """
    raw, known = texts.data.tobytes(), dict[bytes, int]()
    stops = (texts.starts + texts.lengths).tolist()
    keys = (raw[start:stop] for start, stop in zip(texts.starts.tolist(), stops, strict=True))
    numbers = np.fromiter((known.setdefault(key, len(known)) for key in keys), np.int64, len(stops))
    return numbers, np.unique(numbers, return_index=True)[1]


def sorted_texts(texts: Texts) -> Offsets:
    """Return the numbers of the texts in order of their bytes, (K,) int64; equal ones in any order.

    >>> sorted_texts(Texts.of_words(["b", "a", "bb"])).tolist()
    [1, 0, 2]
    """
    order = np.arange(texts.lengths.size)
    # Places in `order` of texts that are equal to others so far, and the number of their run.
    places, runs = order.copy(), np.zeros_like(order)
    position = 0
    while places.size > _FEW << position // _DOUBLING_BYTES:
        # Seven bytes of each text, and how many of them there are.
        left = texts.taken(order[places])
        keys = left.words(position) & ~_COUNT
        keys |= np.minimum(left.lengths - position, _MORE).view(np.uint64)
        by_key = np.argsort(keys)
        by_key = by_key[stable_order(runs[by_key])]
        keys, order[places] = keys[by_key], order[places[by_key]]
        equal = (keys[1:] == keys[:-1]) & (runs[1:] == runs[:-1])
        equal &= keys[1:] & _COUNT == _MORE
        first = np.append(True, ~equal)
        tied = ~first
        tied[:-1] |= equal
        places, runs = places[tied], np.cumsum(first)[tied]
        position += _MORE - 1
    few, own = order[places], runs.tolist()
    left = texts.taken(few).after(position)
    contents = [left.bytes_of(number) for number in range(few.size)]
    order[places] = few[sorted(range(few.size), key=lambda n: (own[n], contents[n]))]
    return order
