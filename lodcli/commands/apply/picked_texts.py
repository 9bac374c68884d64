"""Texts that an expression picks from several tensors and words, and lists of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lodcli.expressions.texts import Packed, listed, require_single
from lodcli.kernels.index.checks import Offsets, lengths_to_offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.order.texts import Texts
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from lodcli.kernels.tensor.nulls import Nulls


def picked_texts(numbers: LoDTensor, pool: Sequence[Packed]) -> LoDTensor:
    """Return the texts of these numbers, under the index of the numbers; nulls stay null.

    Args:
        numbers: places in the pool, in main memory.
        pool: texts, counted through.

    Raises:
        ShapeMismatchError: rows of several numbers.
    """
    require_single(numbers.row_shape)
    texts = Texts.joined([Texts.of(*each) for each in pool]).taken(numbers.values)
    masks = numbers.nulls.masks or (None,) * (numbers.lod.n_levels + 1)
    lengths = texts.lengths if masks[-1] is None else np.where(masks[-1], texts.lengths, 0)
    offsets = lengths_to_offsets(lengths, level=numbers.lod.n_levels)
    rows = texts.data[ranges(texts.starts, offsets)]
    lod = LoD._trusted([*numbers.lod.levels, offsets], [*numbers.lod.names, None])
    return LoDTensor(rows, lod, TEXT, Nulls.of([*masks, None]))


def lists_of(numbers: LoDTensor, offsets: Offsets) -> LoDTensor:
    """Return a list for each number n: those from offsets[n] to offsets[n + 1].

    Args:
        numbers: in main memory, one in a row; the list of a null is null.
        offsets: one more than there are numbers.

    Raises:
        ShapeMismatchError: rows of several numbers.

    >>> lists_of(LoDTensor([1, 0]), np.array([0, 2, 3])).to_list()
    [[2], [0, 1]]
    """
    masks = numbers.nulls.masks or (None,) * (numbers.lod.n_levels + 1)
    data, ends = listed(numbers.values, masks[-1], offsets, level=numbers.lod.n_levels)
    lod = LoD._trusted([*numbers.lod.levels, ends], [*numbers.lod.names, None])
    return LoDTensor(data, lod, nulls=Nulls.of([*masks, None]))
