"""Texts with others in place of those that are null."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from lodcli.commands.choose.item_values import both_valid
from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import TEXT
from lodcli.kernels.tensor.nulls import Nulls


def coalesced_texts(parts: Sequence[LoDTensor | str]) -> LoDTensor:
    """Return the first text that is not null of several, for each text; null lists stay null.

    Args:
        parts: tensors of texts under one index, the first of them a tensor, and words.

    Raises:
        ShapeMismatchError: lists of texts of different lengths.
    """
    tensors = [one.to_device("cpu") for one in parts if isinstance(one, LoDTensor)]
    lod, count = tensors[0].lod.without_finest(), tensors[0].lod.levels[-1].size - 1
    for one in tensors[1:]:
        differs = lod.difference(one.lod.without_finest())
        texts = one.lod.levels[-1].size - 1
        if differs is None and texts != count:
            differs = f"{count} against {texts} texts"
        if differs:
            raise ShapeMismatchError(f"texts under indexes that differ: {differs}")
    starts, lengths, size = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
    known = np.zeros(count, np.bool_)
    data = []
    for part in parts:
        if isinstance(part, str):
            letters = np.frombuffer(part.encode(), np.uint8)
            first, length, valid = np.zeros(1, np.int64), np.array([letters.size]), None
        else:
            letters, offsets = part.to_device("cpu").values, part.lod.levels[-1]
            first, length = offsets[:-1], offsets_to_lengths(offsets)
            valid = part.nulls.masks[-2] if part.nulls else None
        chosen = ~known if valid is None else valid & ~known
        starts, lengths = np.where(chosen, first + size, starts), np.where(chosen, length, lengths)
        known |= chosen
        data.append(letters)
        size += letters.size
    offsets = lengths_to_offsets(lengths, level=lod.n_levels)
    rows = np.concatenate(data)[ranges(starts, offsets)]
    above = zip(*(one.nulls.masks[:-2] for one in tensors if one.nulls), strict=True)
    masks = [functools.reduce(both_valid, levels) for levels in above] or [None] * lod.n_levels
    nulls = Nulls.of([*masks, known, None])
    return LoDTensor(rows, LoD._trusted([*lod.levels, offsets], [*lod.names, None]), TEXT, nulls)
