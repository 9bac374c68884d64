"""Slices: a list index drops its level, a list range keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.index.selection import Key, select
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.oracles import gathered, lengths_of, rows_of, sequences_of, tree_of
from tests.strategies import tensors

LENGTHS = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
ARTICLES = LoD.from_lengths(LENGTHS, ["article", "sentence"])


@pytest.mark.parametrize(
    ("branch", "level", "lengths", "rows"),
    [
        ((2,), 0, [[2, 3]], (10, 15)),
        ((slice(2, 3),), 0, [[2], [2, 3]], (10, 15)),
        ((2, 0), 0, [], (10, 12)),
        ((2, slice(0, 1)), 0, [[2]], (10, 12)),
        ((2,), 1, [], (5, 9)),
        ((slice(3, 6),), 1, [[1, 2, 3]], (9, 15)),
        # Beyond the table of docs: from the end, open, past the end, the other way round.
        ((-1, -1), 0, [], (12, 15)),
        ((slice(None),), 0, LENGTHS, (0, 15)),
        ((slice(1, 99),), "article", [[1, 2], [1, 2, 3]], (9, 15)),
        ((slice(2, 1),), "sentence", [[]], (5, 5)),
        ((0, 2, slice(1, 3)), 0, [], (6, 8)),
        ((1, slice(1, 3)), "sentence", [], (4, 5)),
    ],
)
def test_a_slice_of_the_articles(
    branch: tuple[Key, ...], level: int | str, lengths: list[list[int]], rows: tuple[int, int]
) -> None:
    found = select(ARTICLES, 15, branch, level)
    assert found.lod.recursive_sequence_lengths() == lengths
    assert (found.rows.start, found.rows.stop) == rows
    assert not found.drops_row_axis


def test_one_index_more_than_levels_is_a_single_row() -> None:
    for lod, rows, branch, taken, drops in (
        (ARTICLES, 15, (2, 1, -1), slice(14, 15), True),
        (LoD(), 4, (1,), slice(1, 2), True),
        (LoD(), 4, (slice(1, 3),), slice(1, 3), False),
    ):
        found = select(lod, rows, branch)
        assert (found.lod, found.rows, found.drops_row_axis) == (LoD(), taken, drops)


def test_names_of_the_levels_that_stay_are_kept() -> None:
    assert select(ARTICLES, 15, (slice(0, 1),)).lod.names == ("article", "sentence")
    assert select(ARTICLES, 15, (0,)).lod.names == ("sentence",)


@pytest.mark.parametrize(
    ("branch", "level", "message"),
    [
        ((3,), 0, r"article: no item 3, there are 3 here \(-3 to 2\)"),
        ((-4,), 0, "article: no item -4"),
        ((1, 1), 0, r"sentence: no item 1, there are 1 here \(-1 to 0\)"),
        ((1, 0, 1), 0, "rows: no item 1, there are 1 here"),
        ((6,), 1, "sentence: no item 6"),
        ((0, 0, 0, 0), 0, "the branch has 4 parts, expected at most 3: 2 levels from level 0 down"),
        ((0, 0, 0), 1, "the branch has 3 parts, expected at most 2: 1 level from level 1 down"),
        ((slice(0, 1), 0), 0, "part 0 of the branch is a range; only the last"),
        ((slice(0, 3, 2),), 0, "a range has no step here, found 2"),
        ((slice(None, None, -1),), 0, "a range has no step here, found -1"),
        ((), 0, "an empty branch"),
        ((0,), 2, "no level 2"),
        ((0,), "word", "no level named 'word'"),
        ((0.5,), 0, "an item is a whole number, not 0.5"),
        (("a",), 0, "an item is a whole number, not 'a'"),
        (([0],), 0, r"an item is a whole number, not \[0\]"),
        ((True,), 0, "an item is a whole number, not True"),
        ((np.array([1.5]),), 0, "an item is a whole number, not array"),
    ],
)
def test_a_missing_item_is_named(branch: tuple[Any, ...], level: int | str, message: str) -> None:
    with pytest.raises(SelectionError, match=message):
        select(ARTICLES, 15, branch, level)


def test_selecting_from_an_empty_index_is_an_error() -> None:
    with pytest.raises(
        SelectionError, match=r"level 0: no item 0, there are 0 here \(none is valid"
    ):
        select(LoD([[0]]), 0, (0,))
    with pytest.raises(SelectionError, match="no level 1: there are 0 levels"):
        select(LoD(), 3, (0,), level=1)


@given(tensors(min_levels=0, any_bits=True), st.data())
def test_slices_are_list_indexing(tensor: LoDTensor, data: st.DataObject) -> None:
    levels = tensor.lod.n_levels
    tree = tree_of(tensor.recursive_sequence_lengths(), tensor.rows)
    level = data.draw(st.integers(0, max(levels - 1, 0)), "level")
    part = sequences_of(tree, level)
    branch: list[Key] = []
    for _ in range(data.draw(st.integers(0, levels - level), "indices")):
        assume(part)
        branch.append(data.draw(st.integers(-len(part), len(part) - 1), "index"))
        part = part[branch[-1]]
        level += 1
    if not branch or data.draw(st.booleans(), "range last"):
        bounds = st.none() | st.integers(-4, 4)
        branch.append(slice(data.draw(bounds, "start"), data.draw(bounds, "stop")))
        part = part[branch[-1]]
    first = level + 1 - len(branch) if isinstance(branch[-1], slice) else level - len(branch)
    found = tensor.select(*branch, level=first)
    assert found.recursive_sequence_lengths() == lengths_of(part, levels - level)
    assert found.data.tobytes() == gathered(tensor.data, rows_of(part)).tobytes()
    assert found.dtype == tensor.dtype
    assert not found.data.size or np.shares_memory(found.data, tensor.data)
