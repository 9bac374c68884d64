"""Comparing the texts of a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np

from lodcli.kernels.index.checks import Array, Offsets


def texts_among(words: Iterable[str], data: Array, offsets: Offsets) -> Array:
    """Return a mask of the texts that are among some words, (K,) bool.

    Args:
        words: in any order.
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
    """
    lengths = np.diff(offsets)
    found = np.zeros(lengths.size, np.bool_)
    for word in words:
        content = np.frombuffer(word.encode(), np.uint8)
        places = np.flatnonzero(lengths == content.size)
        for position, byte in enumerate(content):
            places = places[data[offsets[places] + position] == byte]
        found[places] = True
    return found


def text_order(word: str, data: Array, offsets: Offsets) -> Array:
    """Return -1, 0 or 1 for texts before, equal to or after a word by their bytes, (K,) int8.

    Args:
        word: the word.
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
    """
    lengths = np.diff(offsets)
    content = np.frombuffer(word.encode(), np.uint8)
    order: Array = np.sign(lengths - content.size).astype(np.int8)
    places = np.arange(lengths.size)  # of texts that begin like the word
    for position, byte in enumerate(content):
        places = places[lengths[places] > position]
        here = data[offsets[places] + position]
        order[places] = np.where(here == byte, order[places], np.where(here > byte, 1, -1))
        places = places[here == byte]
    return order


def split_texts(data: Array, offsets: Offsets) -> list[bytes]:
    """Return each of K texts.

    Args:
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
    """
    content = data.tobytes()
    return [content[start:stop] for start, stop in pairwise(offsets.tolist())]
