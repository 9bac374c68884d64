"""Comparing the texts of a tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from lodcli.expressions.functions import MANY
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array, Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.order.texts import Texts, text_order
from lodcli.kernels.tensor.nulls import Mask

# The bytes of texts, (N,) uint8, and their offsets, (K + 1,).
Packed = tuple[Array, Offsets]


def packed(words: Sequence[str]) -> Packed:
    """Return words as the bytes of texts and their offsets."""
    contents = [word.encode() for word in words]
    offsets = np.cumsum([0, *map(len, contents)])
    return np.frombuffer(b"".join(contents), np.uint8), offsets


def require_single(row_shape: tuple[int, ...]) -> None:
    """Raise ShapeMismatchError if rows have several numbers of texts."""
    if row_shape:
        raise ShapeMismatchError(
            f"expected one condition for each text, found rows of shape {row_shape}; "
            "name a column, as in x[0]"
        )


def listed(
    numbers: Array, valid: Mask | None, offsets: Offsets, *, level: int
) -> tuple[Array, Offsets]:
    """Return the numbers from offsets[n] to offsets[n + 1] for each number n, and their offsets.

    Args:
        numbers: (K,); see `require_single`.
        valid: (K,) bool, which are not null; there are no numbers for a null.
        offsets: one more than there are numbers.
        level: of the result, for messages.

    >>> listed(np.array([1, 0]), None, np.array([0, 2, 3]), level=0)
    (array([2, 0, 1]), array([0, 1, 3]))
    """
    require_single(numbers.shape[1:])
    lengths = np.diff(offsets)[numbers]
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    ends = lengths_to_offsets(lengths, level=level)
    return ranges(offsets[:-1][numbers], ends), ends


def texts_among(words: Iterable[str], data: Array, offsets: Offsets) -> Array:
    """Return a mask of the texts that are among some words, (K,) bool.

    Args:
        words: in any order.
        data: (N,) uint8, the bytes of all texts.
        offsets: (K + 1,), of the texts.
    """
    distinct = list(dict.fromkeys(words))
    if len(distinct) > MANY:
        from lodcli.formats.values.texts_arrow import among  # which takes longer to import

        return among(distinct, data, offsets)
    texts = Texts.of(data, offsets)
    found = np.zeros(texts.lengths.size, np.bool_)
    for word in distinct:
        one = Texts.of_words([word])
        places = np.flatnonzero(texts.lengths == one.lengths)
        found[places[text_order(texts.taken(places), one, equality=True) == 0]] = True
    return found


def pair_order(texts: Sequence[Texts], one: Array, other: Array, *, equality: bool) -> Array:
    """Return `text_order` of pairs of texts, broadcast.

    Args:
        texts: all texts of the one, and of the other side.
        one, other: numbers of texts.
        equality: whether only zeros matter.
    """
    sides = [each.reshape(-1) for each in np.broadcast_arrays(one, other)]
    pairs = (each.taken(numbers) for each, numbers in zip(texts, sides, strict=True))
    order = text_order(*pairs, equality=equality)
    return order.reshape(np.broadcast_shapes(one.shape, other.shape))


def joined_pairs(texts: Sequence[Texts], one: Array, other: Array) -> Packed:
    """Return the texts of pairs, each joined to one text.

    Args:
        texts: all texts of the one, and of the other side.
        one, other: numbers of texts, of the same shape.

    >>> texts = Texts.of_words(["a", "bc"]), Texts.of_words(["-", ""])
    >>> data, offsets = joined_pairs(texts, np.array([1, 0]), np.array([0, 1]))
    >>> data.tobytes(), offsets.tolist()
    (b'bc-a', [0, 3, 4])
    """
    left, right = (
        each.taken(numbers.reshape(-1)) for each, numbers in zip(texts, (one, other), strict=True)
    )
    data = np.concatenate([left.data, right.data])
    starts = np.stack([left.starts, right.starts + left.data.size], axis=1).reshape(-1)
    lengths = np.stack([left.lengths, right.lengths], axis=1).reshape(-1)
    offsets = lengths_to_offsets(lengths, level=0)
    return data[ranges(starts, offsets)], offsets[::2].copy()
