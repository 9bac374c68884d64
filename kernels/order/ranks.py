"""Texts sorted by their bytes, and their ranks."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets
from lodcli.kernels.order.stable import stable_order
from lodcli.kernels.order.texts import Texts, text_order
from lodcli.kernels.runtime.dispatch import on

# Mask of the last byte of a key, which has the number of bytes of the text in the key.
_COUNT = np.uint64(255)
# Count of a text that continues after its seven bytes in a key.
_MORE = 8
# Memory per text with NumPy, for its position and its key.
_TEXT_BYTES = 128
# Up to this many texts are compared one by one, twice as many after each sixteen equal bytes: a
# long text takes more memory than its object, and each round compares only seven bytes.
_FEW, _DOUBLING_BYTES = 500, 16


def text_ranks(texts: Texts) -> Offsets:
    """Return the rank of each text among the unique texts, (K,) int64.

    >>> text_ranks(Texts.of_words(["b", "a", "bb", "b"])).tolist()
    [1, 0, 2, 1]
    """
    order, again = sorted_texts(texts)
    ranks = np.empty_like(order)
    ranks[order] = np.cumsum(~again) - 1
    return ranks


def sorted_texts(texts: Texts) -> tuple[Offsets, Array]:
    """Return the result of `in_order`, from compiled code where that is faster."""
    return on("auto", in_order, size_bytes=_TEXT_BYTES * texts.lengths.size)(texts)


def text_changes(texts: Texts) -> Array:
    """Return the result of `changes`, from compiled code where that is faster."""
    return on("auto", changes, size_bytes=_TEXT_BYTES * texts.lengths.size)(texts)


def in_order(texts: Texts) -> tuple[Offsets, Array]:
    """Return the positions that sort texts by their bytes, and which texts equal the one before.

    The sort is stable.

    Returns:
        (K,) int64, and (K,) bool.

    >>> in_order(Texts.of_words(["b", "a", "b"]))
    (array([1, 0, 2]), array([False, False,  True]))
    """
    order = np.arange(texts.lengths.size)
    again = np.zeros(order.size, np.bool_)
    # Positions in `order` of texts that are equal to others so far, and the number of their run.
    places, runs = order.copy(), np.zeros_like(order)
    position = 0
    while places.size > _FEW << position // _DOUBLING_BYTES:
        # Seven bytes of each text, and the number of bytes that it has there.
        left = texts.taken(order[places])
        keys = left.words(position) & ~_COUNT
        keys |= np.minimum(left.lengths - position, _MORE).view(np.uint64)
        by_key = stable_order(runs, keys)
        keys, order[places] = keys[by_key], order[places[by_key]]
        equal = (keys[1:] == keys[:-1]) & (runs[1:] == runs[:-1])
        more = keys[1:] & _COUNT == _MORE
        again[places[1:]] = equal & ~more
        equal &= more
        first = np.append(True, ~equal)
        tied = ~first
        tied[:-1] |= equal
        places, runs = places[tied], np.cumsum(first)[tied]
        position += _MORE - 1
    few, own = order[places], runs.tolist()
    left = texts.taken(few).after(position)
    contents = [(run, left.bytes_of(number)) for number, run in enumerate(own)]
    by_content = sorted(range(few.size), key=contents.__getitem__)
    order[places] = few[by_content]
    for place, one, other in zip(places[1:].tolist(), by_content, by_content[1:], strict=False):
        again[place] = contents[one] == contents[other]
    return order, again


def changes(texts: Texts) -> Array:
    """Return whether each text but the first differs from the one before, (K - 1,) bool.

    >>> changes(Texts.of_words(["b", "b", "a"]))
    array([False,  True])
    """
    others = texts.taken(slice(1, None)), texts.taken(slice(0, -1))
    differ: Array = text_order(*others, equality=True) != 0
    return differ
