"""Gathering whole items of a level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.runtime import dispatch
from lodcli.kernels.tensor.gather import take_items
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.oracles import gathered, lengths_of, rows_of, sequences_of, tree_of
from tests.strategies import tensors

ARTICLES = LoDTensor(
    np.arange(15),
    LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"]),
)


def test_articles_move_with_their_sentences() -> None:
    taken = take_items(ARTICLES, [2, 1, 2])
    assert taken.recursive_sequence_lengths() == [[2, 1, 2], [2, 3, 1, 2, 3]]
    assert taken.data.tolist() == [10, 11, 12, 13, 14, 9, 10, 11, 12, 13, 14]
    assert taken.lod.names == ("article", "sentence")


def test_sentences_leave_their_articles() -> None:
    taken = take_items(ARTICLES, np.array([4, 0], np.uint8), "sentence")
    assert taken.recursive_sequence_lengths() == [[2, 3]]
    assert taken.data.tolist() == [10, 11, 0, 1, 2]
    assert taken.lod.names == ("sentence",)


@pytest.mark.parametrize("compiled", [False, True])
@settings(deadline=None)
@given(tensor=tensors(any_bits=True), data=st.data())
def test_taken_items_are_those_of_the_list(
    compiled: bool, tensor: LoDTensor, data: st.DataObject
) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, max(levels - 1, 0)))
    sequences = sequences_of(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), level)
    last = max(len(sequences) - 1, 0)
    items = data.draw(st.lists(st.integers(0, last), max_size=6 if sequences else 0))
    part = [sequences[item] for item in items]
    with pytest.MonkeyPatch.context() as patch:
        if compiled:
            patch.setattr(dispatch, "COMPILED_BYTES", 0)
        taken = take_items(tensor, items, level)
    assert taken.recursive_sequence_lengths() == lengths_of(part, levels - level)
    expected = gathered(tensor.data, rows_of(part))
    assert taken.data.tobytes() == expected.tobytes()
    assert (taken.dtype, taken.data.shape) == (tensor.dtype, expected.shape)
    assert taken.lod.names == tensor.lod.names[level:]


@pytest.mark.parametrize(
    ("items", "level", "error", "message"),
    [
        ([0, 3], 0, SelectionError, "items, position 1: no item 3, there are 3"),
        ([-1], 0, SelectionError, "items, position 0: no item -1"),
        ([6], 1, SelectionError, "no item 6, there are 6"),
        ([0], 2, SelectionError, "no level 2"),
        ([0.0], 0, InvalidDataError, "whole numbers, found 1 dimensions of float64"),
        ([[0]], 0, InvalidDataError, "found 2 dimensions"),
        ([True, False, True], 0, InvalidDataError, "of bool"),
    ],
)
def test_items_that_cannot_be_taken_are_named(
    items: Any, level: int, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        take_items(ARTICLES, items, level)


def test_without_levels_there_is_no_level_to_take_from() -> None:
    plain = LoDTensor(np.arange(4) * 10)
    assert take_items(plain, [3, 0]).data.tolist() == [30, 0]
    with pytest.raises(SelectionError, match="no level 1"):
        take_items(plain, [0], 1)


def test_ranges_may_be_empty() -> None:
    assert ranges(np.array([5, 9, 2]), np.array([0, 0, 2, 2])).tolist() == [9, 10]
    assert ranges(np.zeros(0, np.int64), np.zeros(1, np.int64)).tolist() == []
