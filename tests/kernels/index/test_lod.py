"""The index itself: rules, parts, names, identity."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidLoDError, SelectionError, ShapeMismatchError
from lodcli.kernels.index import lod as index
from lodcli.kernels.index.checks import same_offsets
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.native import load
from tests.oracles import lengths_of, rows_of, sequences_of, tree_of
from tests.strategies import lengths_trees, lods

ARTICLES = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])


def rows_in(lengths: list[list[int]]) -> int:
    return sum(lengths[-1]) if lengths else 0


def test_offsets_are_stored_nested_as_int64() -> None:
    assert [offsets.tolist() for offsets in ARTICLES.levels] == [
        [0, 3, 4, 6],
        [0, 3, 5, 9, 10, 12, 15],
    ]
    assert {offsets.dtype for offsets in ARTICLES.levels} == {np.dtype(np.int64)}
    assert (ARTICLES.n_levels, len(ARTICLES), ARTICLES.rows) == (2, 2, 15)


def test_no_levels_at_all_is_a_plain_tensor() -> None:
    assert (LoD().n_levels, LoD().rows, LoD().recursive_sequence_lengths()) == (0, None, [])


@pytest.mark.parametrize(
    ("levels", "level", "position", "expected", "found"),
    [
        ([[1, 3]], 0, 0, 0, 1),
        ([[-1, 3]], 0, 0, 0, -1),
        ([[0, 3], [0, 1, 5, 4]], 1, 3, 5, 4),
        ([[0, 1, 1, 4], [0, 2, 3]], 0, 3, 2, 4),
        ([[0, 1], [0, 2], [0, 1, 1, 5]], 1, 1, 3, 2),
        ([[]], 0, None, "at least 1 offset", 0),
        ([[0, 2], [0.0, 1.0, 2.0]], 1, None, "integers", "float64"),
        ([[False, True]], 0, None, "integers", "bool"),
        ([["0", "1"]], 0, None, "integers", "<U1"),
        ([[[0, 1]]], 0, None, 1, 2),
        ([7], 0, None, 1, 0),
        ([np.array([0, 2**63], np.uint64)], 0, 1, "at most 2**63 - 1", 2**63),
    ],
)
def test_a_broken_rule_names_level_position_expected_and_found(
    levels: list[object], level: int, position: int | None, expected: object, found: object
) -> None:
    with pytest.raises(InvalidLoDError, match=f"^level {level}") as caught:
        LoD(levels)
    error = caught.value
    assert (error.level, error.position) == (level, position)
    assert (error.expected, error.found) == (expected, found)


@pytest.mark.parametrize(
    ("lengths", "level", "position"),
    [
        ([[-1, 7]], 0, 0),
        ([[2], [1, -2]], 1, 1),
        ([[2**62, 2**62]], 0, 1),
        ([[2, 2], [1, 1, 1]], 0, 2),
    ],
)
def test_lengths_that_are_none_are_refused_by_place(
    lengths: list[list[int]], level: int, position: int
) -> None:
    with pytest.raises(InvalidLoDError) as caught:
        LoD.from_lengths(lengths)
    assert (caught.value.level, caught.value.position) == (level, position)


def test_ragged_offsets_are_refused_as_no_flat_list() -> None:
    with pytest.raises(InvalidLoDError, match="level 0: offsets must be a flat list"):
        LoD([[[0], [1, 2]]])


@given(lengths_trees(max_levels=4))
def test_lengths_survive_being_stored_as_offsets(lengths: list[list[int]]) -> None:
    lod = LoD.from_lengths(lengths)
    assert lod.recursive_sequence_lengths() == lengths
    assert LoD([offsets.tolist() for offsets in lod.levels]) == lod
    assert [lod.count(level) for level in range(lod.n_levels)] == [len(c) for c in lengths]
    assert [lod.lengths(level).tolist() for level in range(lod.n_levels)] == lengths


@given(lengths_trees(min_levels=1, max_levels=4))
def test_absolute_offsets_count_the_rows_under_each_sequence(lengths: list[list[int]]) -> None:
    tree = tree_of(lengths, rows_in(lengths))
    lod = LoD.from_lengths(lengths)
    for level in range(lod.n_levels):
        sizes = [len(rows_of(item)) for item in sequences_of(tree, level)]
        assert np.diff(lod.absolute(level)).tolist() == sizes
        assert lod.absolute(level)[0] == 0


@given(lengths_trees(min_levels=1), st.data())
def test_items_are_cut_out_with_all_below_them(
    lengths: list[list[int]], data: st.DataObject
) -> None:
    lod = LoD.from_lengths(lengths)
    level = data.draw(st.integers(0, lod.n_levels - 1))
    start = data.draw(st.integers(0, lod.count(level)))
    stop = data.draw(st.integers(start, lod.count(level)))
    found, rows = lod.items(level, start, stop)
    part = sequences_of(tree_of(lengths, rows_in(lengths)), level)[start:stop]
    # Not by lengths alone: they hide offsets that do not start with 0.
    assert found == LoD.from_lengths(lengths_of(part, lod.n_levels - level))
    assert list(range(rows.start, rows.stop)) == rows_of(part)


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 4)])
def test_items_that_are_not_there_are_refused(start: int, stop: int) -> None:
    with pytest.raises(
        SelectionError, match=f"level 0 has 3 items; no items {start}:{stop}"
    ) as info:
        ARTICLES.items(0, start, stop)
    assert info.value.level == 0


# -- levels and their names ------------------------------------------------------------


def test_a_level_is_found_by_number_from_either_end_and_by_name() -> None:
    assert [ARTICLES.level(key) for key in (0, 1, -1, -2, "article", "sentence")] == [
        *(0, 1, 1, 0),
        *(0, 1),
    ]
    assert ARTICLES.absolute("article").tolist() == [0, 9, 10, 15]


@pytest.mark.parametrize(
    ("lod", "key", "message"),
    [
        (ARTICLES, 2, "no level 2: there are 2 levels; use 0 to 1"),
        (ARTICLES, -3, "no level -3"),
        (ARTICLES, "word", r"no level named 'word'.*article, sentence"),
        (LoD([[0]]), "word", "none has a name"),
        (LoD(), 0, "no level 0: there are 0 levels$"),
        (LoD([[0], [0]], ["a", "a"]), "a", "several levels are named 'a'"),
    ],
)
def test_a_level_that_is_not_there_lists_those_that_are(
    lod: LoD, key: int | str, message: str
) -> None:
    with pytest.raises(SelectionError, match=message):
        lod.level(key)


@pytest.mark.parametrize(
    "names", [["a"], ["a", "b", "c"], "ab", ["a", "1"], ["a", ""], ["a", "b c"]]
)
def test_names_that_could_be_taken_for_something_else_are_refused(names: list[str]) -> None:
    with pytest.raises(InvalidLoDError, match="name"):
        LoD([[0, 1], [0, 1]], names)


def test_parts_keep_their_names() -> None:
    assert ARTICLES.above("sentence").names == ("article",)
    assert ARTICLES.below("article") == LoD.from_lengths([[3, 2, 4, 1, 2, 3]], ["sentence"])
    assert ARTICLES.without_finest() == ARTICLES.above(1)
    assert ARTICLES.items(1, 0, 2)[0].names == ("sentence",)
    finer = ARTICLES.above(1).with_finer([0, 3, 5, 9, 10, 12, 15], "sentence")
    assert finer == ARTICLES
    assert ARTICLES.with_names(None) != ARTICLES


def test_a_finer_level_must_fit_the_one_above() -> None:
    with pytest.raises(InvalidLoDError, match="level 1"):
        ARTICLES.with_finer([0, 1])


# -- identity and immutability ---------------------------------------------------------


def test_the_index_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        ARTICLES.levels = ()
    with pytest.raises(AttributeError, match="immutable"):
        del ARTICLES.names
    with pytest.raises(ValueError, match="read-only"):
        ARTICLES.levels[0][1] = 2
    with pytest.raises(ValueError, match="read-only"):
        ARTICLES.absolute(0)[1] = 2


def test_offsets_somebody_may_still_write_to_are_copied() -> None:
    mine = np.array([0, 2, 3])
    lod = LoD([mine])
    mine[1] = 3
    assert lod.levels[0].tolist() == [0, 2, 3]
    for array in (mine, np.array([0, 2, 3, 9])[:3]):
        array.flags.writeable = False  # its owner can take that back
        assert not np.shares_memory(LoD([array]).levels[0], array)


def test_immutable_offsets_are_shared() -> None:
    again = LoD(ARTICLES.levels)
    assert again.levels[0] is ARTICLES.levels[0]


@given(lods())
def test_copies_of_an_index_are_equal_and_immutable(lod: LoD) -> None:
    for again in (pickle.loads(pickle.dumps(lod)), copy.deepcopy(lod), copy.copy(lod)):
        assert again == lod
        assert hash(again) == hash(lod)
        assert all(map(is_immutable, again.levels))


def test_equal_means_equal_names_too() -> None:
    unnamed = ARTICLES.with_names(None)
    assert unnamed != ARTICLES
    assert unnamed.same_levels(ARTICLES)
    assert unnamed.difference(ARTICLES) is None
    assert ARTICLES != "a string"


def test_indexes_found_to_be_equal_are_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (LoD.from_lengths([[1] * 400, [2] * 400]) for _ in range(2))
    other = LoD.from_lengths([[1] * 400, [1] * 400])
    held = two.levels
    assert one.same_levels(two)
    assert not one.same_levels(other)
    # What a file shares depends on which arrays are held.
    assert two.levels is held
    assert one.levels[0] is not held[0]
    monkeypatch.setattr(index, "same_levels", lambda *_: False)
    assert one.same_levels(two)
    del two
    assert not one.same_levels(LoD(held))


@pytest.mark.parametrize("shipped", [False, True])
@pytest.mark.parametrize("count", [0, 7, 300, 1 << 15, 100_000])
def test_offsets_that_differ_in_any_place_are_not_the_same(
    count: int, shipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "is_shipped", lambda: shipped)
    offsets = np.arange(count + 1)
    assert same_offsets(offsets, offsets.copy())
    for place in {0, count // 2, count}:
        other = offsets.copy()
        other[place] += 1
        assert not same_offsets(offsets, other)


@pytest.mark.parametrize("shipped", [False, True])
@pytest.mark.parametrize("count", [1, 7, 300])
def test_offsets_that_decrease_in_any_place_are_refused(
    count: int, shipped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "is_shipped", lambda: shipped)
    offsets = np.arange(count + 1) // 2
    assert LoD([offsets]).levels[0].tolist() == offsets.tolist()
    for place in {1, count // 2 + 1, count}:
        other = offsets.copy()
        other[place] = other[place - 1] - 1
        with pytest.raises(InvalidLoDError, match="decrease") as caught:
            LoD([other])
        assert caught.value.position == place


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ([[3, 1, 2]], "2 levels against 1"),
        ([[3, 1, 2], [3, 2, 4, 2, 1, 3]], "level 1, item 3 has length 1 against 2"),
        ([[3, 1, 2, 0], [3, 2, 4, 1, 2, 3]], "level 0 has 3 items against 4"),
    ],
)
def test_a_difference_is_described_in_words(other: list[list[int]], message: str) -> None:
    assert ARTICLES.difference(LoD.from_lengths(other)) == message


@given(st.lists(lengths_trees(min_levels=2, max_levels=2), min_size=1, max_size=4))
def test_concatenated_batches_stand_one_after_another(batches: list[list[list[int]]]) -> None:
    whole = LoD.concatenate([LoD.from_lengths(lengths) for lengths in batches])
    joined = [[n for lengths in batches for n in lengths[level]] for level in range(2)]
    assert whole.recursive_sequence_lengths() == joined


def test_batches_of_unequal_depth_do_not_concatenate() -> None:
    with pytest.raises(ShapeMismatchError, match="part 0 has 2 levels, part 1 has 1"):
        LoD.concatenate([ARTICLES, ARTICLES.below(0)])
    with pytest.raises(ShapeMismatchError, match="nothing to concatenate"):
        LoD.concatenate([])


def test_a_long_index_is_shown_short() -> None:
    assert repr(ARTICLES) == (
        "LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], names=['article', 'sentence'])"
    )
    assert repr(LoD.from_lengths([[1] * 99])).endswith(".. 99 items]])")


def test_masked_lengths_are_refused() -> None:
    masked = np.ma.array([1, 1], mask=[False, True])
    with pytest.raises(InvalidLoDError, match="level 0: lengths are a masked array"):
        LoD.from_lengths([masked])
    assert LoD.from_lengths([np.ma.array([1, 1])]) == LoD.from_lengths([[1, 1]])
