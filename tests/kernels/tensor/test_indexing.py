"""Keys of a tensor: as lists are indexed, and as Awkward does it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.exchange.lists import is_nested
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Marks, Times
from tests.strategies import lods

LENGTHS = [[3, 1, 2], [3, 2, 4, 1, 2, 3]]
WORDS = LoDTensor(np.arange(15), LoD.from_lengths(LENGTHS, ["article", "sentence"]))
FRAMES = LoDTensor(np.arange(24).reshape(6, 2, 2), [[3, 1, 2]])
HOLES = LoDTensor(np.arange(5), [[2, 0, 3]])


def listed(value: Any) -> Any:
    return value.to_list() if isinstance(value, LoDTensor) else value.tolist()


def by_hand(tree: Any, parts: list[Any]) -> Any:
    """Return what a key picks of nested lists: the oracle, one level at a time."""
    if not parts:
        return tree
    part, *rest = parts
    if isinstance(part, int):
        return by_hand(tree[part], rest)
    if isinstance(part, slice):
        return [by_hand(item, rest) for item in tree[part]]
    if part and isinstance(part[0], bool):
        if len(part) != len(tree):
            raise IndexError("as many booleans as items")
        part = [place for place, wanted in enumerate(part) if wanted]
    return [by_hand(tree[place], rest) for place in part]


@st.composite
def keys(draw: st.DrawFn, axes: int) -> list[Any]:
    """Draw a key with a part for some of the axes, one of them an array at most."""
    place = st.integers(-4, 3)
    bound = st.none() | st.integers(-5, 5)
    step = st.none() | st.sampled_from((-3, -2, -1, 1, 2, 3))
    part: st.SearchStrategy[Any] = place | st.builds(slice, bound, bound, step)
    parts = draw(st.lists(part, min_size=1, max_size=axes))
    array = st.lists(place, max_size=3) | st.lists(st.booleans(), min_size=1, max_size=3)
    if draw(st.booleans()):
        parts[draw(st.integers(0, len(parts) - 1))] = draw(array)
    return parts


@given(lods(max_levels=3), st.data())
def test_a_key_picks_what_it_picks_of_nested_lists(lod: LoD, data: st.DataObject) -> None:
    rows = lod.rows if lod.rows is not None else 4
    tensor = LoDTensor(np.arange(rows * 2).reshape(rows, 2), lod)
    parts = data.draw(keys(lod.n_levels + 2))
    try:
        expected = by_hand(tensor.to_list(), parts)
    except IndexError:
        with pytest.raises(SelectionError):
            tensor[tuple(parts)]
        return
    if not leaves(expected):  # where there are no rows, lists know nothing of their axes
        parts = parts[: lod.n_levels + 1]
        expected = by_hand(tensor.to_list(), parts)
    found = tensor[tuple(parts)]
    if isinstance(found, LoDTensor) and not found.rows:
        # Lists do not tell how long the rows are that none of them has.
        assert lengths_only(listed(found)) == lengths_only(expected)
    else:
        assert listed(found) == expected


def leaves(tree: Any) -> list[int]:
    return [leaf for item in tree for leaf in leaves(item)] if isinstance(tree, list) else [tree]


def lengths_only(tree: Any) -> Any:
    """Return nested lists without what is empty at their ends."""
    return [lengths_only(item) for item in tree] if isinstance(tree, list) else None


KEYS: list[Any] = [
    *(2, slice(None, None, 2), slice(None, None, -1), [2, 0, 2], [True, False, True]),
    *((2, 1), (slice(None), 0), (slice(None), -1), (slice(None), slice(1, None))),
    *((slice(None), slice(None), slice(None, None, -1)), ([2, 0], slice(None, 1)), (0, [2, 0])),
    *((slice(None), [0, -1]), (slice(None), slice(None), 0), (0, slice(None), slice(0, 2))),
    *((..., 0), (0, ...), (slice(1, None), ..., slice(None, 2)), np.array([], np.int64)),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_awkward_picks_the_same(key: Any) -> None:
    ak = pytest.importorskip("awkward")
    assert listed(WORDS[key]) == ak.to_list(WORDS.to_awkward()[key])


@given(lods(max_levels=3, min_levels=1), st.data())
def test_a_tensor_of_booleans_picks_as_awkward_does(lod: LoD, data: st.DataObject) -> None:
    ak = pytest.importorskip("awkward")
    tensor = LoDTensor(np.arange(lod.rows or 0), lod)
    depth = data.draw(st.integers(1, lod.n_levels), "depth")
    upper = LoD(lod.levels[:depth])
    flags = data.draw(st.lists(st.booleans(), min_size=upper.rows or 0, max_size=upper.rows or 0))
    mask = LoDTensor(np.array(flags, np.bool_), upper)
    found = tensor[mask]
    assert found.to_list() == ak.to_list(tensor.to_awkward()[mask.to_awkward()])
    assert found.lod.names == lod.names


@given(lods(max_levels=2, min_levels=1), st.data())
def test_a_tensor_of_places_picks_as_awkward_does(lod: LoD, data: st.DataObject) -> None:
    ak = pytest.importorskip("awkward")
    tensor = LoDTensor(np.arange(lod.rows or 0), lod)
    places = [
        data.draw(st.lists(st.integers(-length, length - 1), max_size=3)) if length else []
        for length in lod.lengths(-1).tolist()
    ]
    lengths = [*lod.recursive_sequence_lengths()[:-1], [len(part) for part in places]]
    key = LoDTensor(np.array([n for part in places for n in part], np.int64), lengths)
    assert tensor[key].to_list() == ak.to_list(tensor.to_awkward()[key.to_awkward()])


def test_an_array_of_one_number_without_axes_is_a_number() -> None:
    zero, last = np.array(0), np.array(-1, np.int8)
    assert WORDS[last].to_list() == WORDS[-1].to_list()
    assert WORDS[zero, last, zero] == WORDS[0, -1, 0]
    assert WORDS[:, zero].to_list() == WORDS[:, 0].to_list()
    with pytest.raises(SelectionError, match="not 0 dimensions of bool"):
        WORDS[np.array(True)]


def test_a_comparison_filters() -> None:
    assert HOLES[HOLES % 2 == 1].to_list() == [[1], [], [3]]
    assert WORDS[WORDS > 11].to_list() == [[[], [], []], [[]], [[], [12, 13, 14]]]


def test_a_name_starts_at_its_level() -> None:
    assert WORDS["sentence", 3:6].identical(WORDS.select(slice(3, 6), level="sentence"))
    assert WORDS["sentence", ::-2, 0].to_list() == [12, 9, 3]
    assert WORDS["sentence"].recursive_sequence_lengths() == [LENGTHS[1]]
    assert WORDS["article", 1].to_list() == [[9]]


def test_the_axes_of_a_row_are_picked_last() -> None:
    assert FRAMES[0, 1, 1, 0] == FRAMES.data[1, 1, 0]
    np.testing.assert_array_equal(FRAMES[0, 1, :, 0].data, FRAMES.data[1, :, 0])
    found = FRAMES[:, ::-1, 1]
    assert found.recursive_sequence_lengths() == [[3, 1, 2]]
    np.testing.assert_array_equal(found.data, FRAMES.data[[2, 1, 0, 3, 5, 4], 1])
    assert FRAMES[..., 0].lod is not None
    np.testing.assert_array_equal(FRAMES[..., 0].data, FRAMES.data[..., 0])


def test_ranges_without_a_step_are_views() -> None:
    for key in (slice(1, 3), (2, slice(0, 1)), ("sentence", slice(3, 6)), (..., 0)):
        source = FRAMES if key == (..., 0) else WORDS
        assert np.shares_memory(source[key].data, source.data)
    for whole in (WORDS[()], WORDS[...], WORDS[:]):
        assert whole.identical(WORDS)


def test_a_range_of_python_is_an_array_of_its_numbers() -> None:
    assert WORDS[range(2, -1, -2)].identical(WORDS[[2, 0]])
    assert WORDS["sentence", :, range(1)].identical(WORDS["sentence", :, [0]])
    assert len(WORDS[range(0)]) == 0
    with pytest.raises(SelectionError, match="article: no item 3, there are 3 here"):
        WORDS[range(4)]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ((slice(None), [True, False, True]), "sentence: 3 booleans for 1 item in item 1"),
        ((slice(None), 1), "sentence: no item 1 in item 1, there are 1 here"),
        ((slice(None), slice(None), 3), "rows: no item 3 in item 0, there are 3 here"),
        ([0, 5], "article: no item 5, there are 3 here"),
        ([True, False], "article: 2 booleans for 3 items"),
        (([0], [0]), "at most one array"),
        ((0, 0, 0, 0), "the key has 4 parts, but there are only 2 levels, the rows and 0 axes"),
        (slice(None, None, 0), "other than 0"),
        (slice("a", None), "from one whole number to another"),
        (1.5, "index by whole numbers, ranges, arrays"),
        (None, "not None"),
        (True, "not True"),
        ([[0, 1]], "2 dimensions of int64"),
        ([0.5], "1 dimensions of float64"),
        ((..., ...), r"at most one \.\.\."),
        ("word", "no level named 'word'"),
        (np.array([0, 2**64 - 1], np.uint64), f"key, position 1: no item {2**64 - 1}"),
        ((slice(None), [2**63]), f"key, position 0: no item {2**63}"),
    ],
    ids=str,
)
def test_an_invalid_key_is_an_error_with_the_reason(key: Any, said: str) -> None:
    with pytest.raises(SelectionError, match=said):
        WORDS[key]


def test_an_error_of_a_key_has_the_level() -> None:
    keys: list[tuple[Any, int]] = [
        ([True, False], 0),
        ((slice(None), [True, False]), 1),
        (LoDTensor([0, 0, 0], [[1, 1, 1]]), 1),  # the second sequence has no rows
    ]
    for key, level in keys:
        with pytest.raises(SelectionError) as info:
            HOLES[key]
        assert info.value.level == level


def test_a_place_of_2_to_the_63_is_no_place_from_the_end() -> None:
    key = LoDTensor(np.array([0, 2**64 - 1], np.uint64), [[1, 0, 1]])
    with pytest.raises(SelectionError, match=f"key, position 1: no item {2**64 - 1}"):
        WORDS[key]


@pytest.mark.parametrize("far", [2**63, 10**30])
def test_ends_and_steps_of_a_range_may_be_more_than_an_int64_holds(far: int) -> None:
    rows = LoDTensor(np.arange(6), [[3, 1, 2]])
    assert rows[::far].to_list() == [[0, 1, 2]]
    assert rows[2:0:-far].to_list() == [[4, 5]]
    assert rows[:, ::far].to_list() == [[0], [3], [4]]
    assert rows[-far:far:2].to_list() == [[0, 1, 2], [4, 5]]
    assert LoDTensor(np.arange(6))[::far].to_list() == [0]


def test_a_tensor_as_key_must_have_the_same_sequences() -> None:
    with pytest.raises(
        ShapeMismatchError, match="key: its sequences are not the tensor's: level 0"
    ):
        HOLES[LoDTensor(np.ones(5, bool), [[3, 2, 0]])]
    with pytest.raises(ShapeMismatchError, match="2 levels, more than the 1"):
        HOLES[LoDTensor(np.ones(5, bool), [[3], [2, 0, 3]])]
    with pytest.raises(ShapeMismatchError, match="level 0 has 3 items against 2"):
        HOLES[LoDTensor([0, 0], [[1, 1]])]
    with pytest.raises(SelectionError, match="position 1: rows: no item 0 in item 1, there are 0"):
        HOLES[LoDTensor([0, 0, 0], [[1, 1, 1]])]
    with pytest.raises(SelectionError, match="holds booleans or positions"):
        HOLES[HOLES / 2]


# -- setting ---------------------------------------------------------------------------


@given(lods(max_levels=2), st.data())
def test_setting_changes_what_getting_gives(lod: LoD, data: st.DataObject) -> None:
    rows = lod.rows if lod.rows is not None else 4
    tensor = LoDTensor(np.arange(rows * 2).reshape(rows, 2), lod)
    key = tuple(data.draw(keys(lod.n_levels + 1)))
    try:
        chosen = tensor[key]
    except SelectionError:
        return
    before, numbers = tensor.copy(), np.unique(chosen.data)
    tensor[key] = -1
    assert (tensor[key].data == -1).all()
    np.testing.assert_array_equal(tensor.data == -1, np.isin(before.data, numbers))


def test_booleans_of_the_shape_of_rows_set_single_values() -> None:
    rows = np.array([[1.0, np.nan], [-3, 4], [np.nan, 6]])
    wide = LoDTensor(rows.copy(), [[2, 0, 1]])
    wide[np.isnan(wide)] = 0
    wide[wide < 0] = [9]
    assert wide.to_list() == [[[1, 0], [9, 4]], [], [[0, 6]]]
    wide[LoDTensor(np.isnan(rows))] = [7, 8]  # without levels, as NumPy
    assert wide.data.tolist() == [[1, 7], [9, 4], [8, 6]]
    with pytest.raises(ShapeMismatchError, match="level 0"):
        wide[LoDTensor(np.isnan(rows), [[3]])] = 0
    with pytest.raises(ShapeMismatchError, match=r"\(3, 1\) booleans for values of shape \(3, 2\)"):
        wide[LoDTensor(np.isnan(rows[:, :1]), wide.lod)] = 0
    with pytest.raises(ShapeMismatchError, match="cannot assign 3 input values"):
        wide[LoDTensor(np.isnan(rows), wide.lod)] = [1, 2, 3]
    with pytest.raises(SelectionError, match=r"np\.where chooses among the values of rows"):
        wide[wide > 0]


def test_nested_lists_are_set_where_their_sequences_fit() -> None:
    words = LoDTensor(np.arange(6, dtype=np.uint8), [[2, 1], [3, 1, 2]])
    words[:] = [[[7, 8, 9], [6]], [[5, 4]]]
    assert words.to_list() == [[[7, 8, 9], [6]], [[5, 4]]]
    words[0] = [[1, 2, 3], [0]]
    words[:, -1] = [[5], [250, 251]]
    assert words.to_list() == [[[1, 2, 3], [5]], [[250, 251]]]
    with pytest.raises(ShapeMismatchError, match="level 0, item 0 has length 3 against 2"):
        words[0] = [[1, 2], [3, 4]]
    with pytest.raises(InvalidDataError, match="900"):
        words[0] = [[1, 2, 900], [3]]
    wide = LoDTensor(np.zeros((3, 2)), [[2, 1]])
    wide[:] = [[[1, 2], [3, 4]], [[5, 6]]]
    wide[..., 0] = [[7, 8], [9]]
    assert wide.to_list() == [[[7, 2], [8, 4]], [[9, 6]]]
    wide[:] = [0, 1]  # a row, as before
    assert wide.data.tolist() == [[0, 1]] * 3
    days = LoDTensor.from_lists([[date(2020, 1, 1)], []])
    days[:] = [[date(2021, 1, 1)], []]
    assert days.to_list() == [[date(2021, 1, 1)], []]


def test_nested_lists_set_times_decimals_and_words_in_the_unit_of_the_tensor() -> None:
    seconds = LoDTensor(np.arange(3), [[2, 1]], marks=Marks(unit=Times("timestamp", "s")))
    seconds[:] = [[datetime(2020, 1, 1), "2020-01-01T00:00:01"], [7]]
    assert seconds.data.tolist() == [1577836800, 1577836801, 7]
    with pytest.raises(InvalidDataError, match=r"is not a timestamp\[s\]"):
        seconds[0] = [datetime(2020, 1, 1, 0, 0, 0, 5), 0]
    prices = LoDTensor.from_lists([[Decimal("10.25"), Decimal(1)], [Decimal(2)]])
    prices[:] = [[Decimal("1.5"), Decimal(3)], [Decimal("0.07")]]
    assert prices.data.tolist() == [150, 300, 7]
    words = LoDTensor.from_lists([["u", "v"], ["w"]]).as_categories()
    words[:] = [["w", "u"], ["v"]]
    assert words.to_list() == [["w", "u"], ["v"]]
    words[1:] = [["u"]]
    assert words.to_list() == [["w", "u"], ["u"]]
    with pytest.raises(InvalidDataError, match="no category 'x'; there are: 'u', 'v', 'w'"):
        words[:] = [["u", "x"], ["v"]]
    with pytest.raises(ShapeMismatchError, match="level 0, item 0 has length 2 against 1"):
        words[:] = [["u"], ["v", "w"]]


def test_lists_of_times_without_an_end_are_refused() -> None:
    days = LoDTensor.from_lists([[date(2020, 1, 1)], []])
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, [[date(2021, 1, 1)], endless]):
        with pytest.raises(InvalidDataError, match="nested too deeply, or one contains itself"):
            days[:] = value


def test_lists_of_one_item_each_are_broadcast() -> None:
    values = LoDTensor(np.arange(3.0), [[2, 1]])
    values[:] = [[1, 2, 3]]
    assert values.data.tolist() == [1, 2, 3]
    values[:] = [[5]]
    assert values.data.tolist() == [5, 5, 5]
    one = LoDTensor(np.arange(3), [[1], [3]])
    one[:] = [[[4, 5, 6]]]
    assert one.data.tolist() == [4, 5, 6]
    with pytest.raises(ShapeMismatchError, match="level 1, item 0 has length 3 against 2"):
        one[:] = [[[4, 5]]]


def test_lists_are_set_without_visiting_every_value() -> None:
    class Values(list[float]):
        visited = 0

        def __iter__(self) -> Iterator[float]:
            for one in super().__iter__():
                self.visited += 1
                yield one

    many = Values([0.0] * 1000)
    assert not is_nested(many, 2)
    assert is_nested([[], many], 2)
    assert many.visited == 2
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = [1.0]
    for _ in range(2000):
        deep = [deep]
    for value in (endless, deep):
        assert not is_nested(value, 2)
        with pytest.raises(InvalidDataError, match=r"^value: "):
            LoDTensor(np.arange(3.0), [[2, 1]])[:] = value


def test_a_mask_picks_from_a_tensor_with_all_sequences() -> None:
    words = WORDS.copy()
    words[words > 6] = words * 10
    assert words.to_list()[0] == [*WORDS.to_list()[0][:2], [5, 6, 70, 80]]
    words[words > 0] = WORDS  # all but the first
    assert words.identical(WORDS)
    flat = LoDTensor(np.arange(5))
    flat[flat > 2] = flat * 10
    assert flat.data.tolist() == [0, 1, 2, 30, 40]
    wide = LoDTensor(np.arange(6).reshape(3, 2), [[2, 1]])
    wide[wide > 3] = wide * 10
    assert wide.data.tolist() == [[0, 1], [2, 3], [40, 50]]
    items = LoDTensor(np.arange(3), [[2, 1]])
    items[LoDTensor(np.array([False, True]))] = items + 7
    assert items.data.tolist() == [0, 1, 9]
    with pytest.raises(ShapeMismatchError, match="value: its sequences are not those selected"):
        words[words > 6] = words[:1]


def test_a_tensor_is_set_where_its_sequences_fit() -> None:
    words = WORDS.copy()
    words[:, :, ::-1] = WORDS  # read and written at once: every sentence turned round
    assert words.to_list()[0] == [[2, 1, 0], [4, 3], [8, 7, 6, 5]]
    words[words > 7] = 0
    assert words.data.max() == 7
    with pytest.raises(ShapeMismatchError, match="value: its sequences are not those selected"):
        words[0] = WORDS[1]
    with pytest.raises(ShapeMismatchError, match="value: could not broadcast"):
        words[0, 0] = [1, 2]
    frames = FRAMES.copy()
    frames[:, 0, 1] = 5
    assert (frames.data[[0, 3, 4], 1] == 5).all()
    frames[0, 0, 0, 0] = 7
    assert frames.data[0, 0, 0] == 7


@pytest.mark.parametrize(
    "value",
    [
        *(None, [None], [1.0, None], np.array([1, None], object), np.datetime64("NaT", "s")),
        *(np.ma.masked, np.ma.array([1, 0], mask=[False, True])),
    ],
    ids=repr,
)
@pytest.mark.parametrize(
    "rows", [[1, 2], [1.0, 2.0], [date(2024, 1, 1)] * 2, [Decimal("1.5")] * 2, ["a", "b"]], ids=repr
)
def test_nulls_are_not_set(rows: list[Any], value: Any) -> None:
    words = LoDTensor.from_lists([rows])
    if isinstance(rows[0], str):
        words = LoDTensor([0, 1], [[2]]).as_categories(rows)
    before = words.copy()
    with pytest.raises(
        InvalidDataError, match=r"^value: (None|NaT|a masked value) is a null, which cannot be set"
    ):
        words[:] = value
    assert words.identical(before)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.datetime64("2024-01-01"), "expected numbers, found np.datetime64"),
        (np.array(["2024-01-01"], "M8[D]"), r"expected numbers, found datetime64\[D\]"),
        (date(2024, 1, 1), "expected numbers, found datetime.date"),
        ("5", "expected numbers, found '5'"),
        (["5", "6"], "expected numbers, found <U1"),
        (b"5", "expected numbers, found b'5'"),
    ],
)
def test_rows_of_numbers_are_set_to_numbers(value: Any, said: str) -> None:
    for dtype in (np.float32, np.int64):
        with pytest.raises(InvalidDataError, match=f"value: {said}"):
            LoDTensor(np.ones(2, dtype), [[2]])[:] = value
    whole = LoDTensor([1, 2], [[2]])
    with pytest.raises(InvalidDataError, match="value: not one of int64: cannot convert float NaN"):
        whole[0] = float("nan")
    whole[0] = [Decimal(3), 4]
    assert whole.to_list() == [[3, 4]]


def test_read_only_rows_are_not_set() -> None:
    rows = np.arange(5)
    rows.flags.writeable = False
    with pytest.raises(InvalidDataError, match="rows are read-only; set those of a copy"):
        LoDTensor(rows, HOLES.lod)[0] = 1


# -- a tensor as a collection ----------------------------------------------------------


def test_every_level_is_iterated() -> None:
    assert [part.to_list() for part in WORDS.iterate("sentence")][:2] == [[0, 1, 2], [3, 4]]
    assert [part.to_list() for part in WORDS.iterate()] == WORDS.to_list()
    with pytest.raises(SelectionError):
        next(WORDS.iterate(2))


def test_membership_is_of_items_and_of_values() -> None:
    assert 14 in WORDS
    assert 15 not in WORDS
    assert WORDS[1] in WORDS
    assert WORDS[1][0] not in WORDS  # a sentence, not an article
    assert np.array([2, 3, 4]) in HOLES
    assert np.array([2, 3]) not in HOLES
    assert 3 in LoDTensor([1, 2, 3])


def test_a_difference_says_where() -> None:
    other = WORDS.copy()
    other[1, 0, 0] = 0
    other[2] = 1
    said = "row 9, item <1,0,0>: 9 against 0 (6 values differ)"
    assert WORDS.difference(other) == said
    with pytest.raises(AssertionError) as raised:
        WORDS.assert_equal(other)
    assert str(raised.value) == f"the tensors differ: {said}"
    assert WORDS.difference(other, atol=14) is None
    WORDS.assert_equal(other, atol=14)
    with pytest.raises(AssertionError, match="item <1,0,0>"):
        WORDS.assert_equal(other, rtol=0.5)
    for changed, found in (
        (np.zeros(15, np.int32), "dtype int64 against int32"),
        (np.zeros((15, 2), np.int64), "shape (15,) against (15, 2)"),
    ):
        assert WORDS.difference(LoDTensor(changed, WORDS.lod)) == found
    assert (
        FRAMES.difference(FRAMES + (FRAMES == 5)) == "row 1, item <0,1>, value (0, 1): 5 against 6"
    )
    assert "level 0" in str(HOLES.difference(LoDTensor(HOLES.data, [[2, 1, 2]])))
    nameless = LoDTensor(WORDS.data, WORDS.lod.with_names(None))
    assert "names of levels ['article', 'sentence']" in str(WORDS.difference(nameless))


def test_nan_equals_nan_in_a_difference() -> None:
    rows = LoDTensor([1.0, np.nan], [[2]])
    assert rows.difference(rows.copy()) is None
    assert rows.difference(LoDTensor([1.0, 2.0], [[2]])) == "row 1, item <0,1>: nan against 2.0"
    assert rows.difference(LoDTensor([1.0 + 1e-9, np.nan], [[2]]), rtol=1e-6) is None


def test_only_infinity_is_near_infinity() -> None:
    for dtype in (np.float16, np.float64, np.complex128):
        finite, infinite = (LoDTensor(np.array([x], dtype), [[1]]) for x in (1, np.inf))
        assert infinite.difference(infinite.copy(), rtol=0.5, atol=1) is None
        for one, two in ((finite, infinite), (infinite, finite), (infinite, -infinite)):
            assert one.difference(two, rtol=0.5, atol=1) is not None


def test_copies_are_apart_and_share_the_index() -> None:
    for copied in (WORDS.copy(), copy.copy(WORDS), copy.deepcopy(WORDS)):
        assert copied.identical(WORDS)
        assert copied.lod is WORDS.lod
        assert not np.shares_memory(copied.data, WORDS.data)


def test_pickle_hands_rows_over_out_of_band() -> None:
    tensor = LoDTensor(np.arange(100_000.0), [[60_000, 40_000]])
    buffers: list[pickle.PickleBuffer] = []
    image = pickle.dumps(tensor, protocol=5, buffer_callback=buffers.append)
    assert len(image) < 2000
    again = pickle.loads(image, buffers=buffers)
    assert again.identical(tensor)
    assert np.shares_memory(again.data, tensor.data)
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(WORDS[1:], protocol)).identical(WORDS[1:])


def test_repr_shows_sequences() -> None:
    assert repr(HOLES) == "LoDTensor(5 int64, [[0, 1], [], [2, 3, 4]])"
    assert repr(FRAMES[1]) == "LoDTensor(1 x 2 x 2 int64, [((12, 13), (14, 15))])"
    assert repr(WORDS[1:]) == (
        "LoDTensor(6 int64, [[[9]], [[10, 11], [12, 13, 14]]], names=['article', 'sentence'])"
    )
    assert repr(LoDTensor(np.arange(1000.0), [[600, 400]])) == (
        "LoDTensor(1000 float64, LoD.from_lengths([[600, 400]]),\n"
        "          [[0, 1, 2, 3, .., 598, 599], [600, 601, 602, 603, .., 998, 999]])"
    )


def test_repr_shows_at_most_64_levels() -> None:
    deep = LoDTensor(np.arange(3), [*[[1]] * 2000, [3]])
    assert "[[[..]]]" in repr(deep)
    assert "[[[..]]]" in deep._repr_html_()
    most = LoDTensor(np.arange(3), [*[[1]] * 63, [3]])
    assert "[[[0, 1, 2]]]" in repr(most)


def test_repr_stays_short() -> None:
    deep = LoDTensor(np.zeros((4096, 9)), [[16] * 16, [16] * 256])
    assert len(repr(deep)) < 20_000
    assert repr(LoDTensor(np.zeros((0, 3)), [[0, 0]])) == "LoDTensor(0 x 3 float64, [[], []])"


def test_html_lists_the_outermost_items_and_escapes_names() -> None:
    shown = WORDS._repr_html_()
    assert shown.count("<tr>") == 4  # the head, and three articles
    assert "article: 3, sentence: 6" in shown
    assert "[[10, 11], [12, 13, 14]]" in shown
    many = LoDTensor(np.arange(1000), [[1] * 1000])._repr_html_()
    assert many.count("<tr>") == 14


def test_a_key_may_have_its_bytes_in_another_order() -> None:
    for kind in (">i8", ">u8", ">i2"):
        assert WORDS[np.array([2, 0], kind)].identical(WORDS[[2, 0]])
    with pytest.raises(SelectionError, match=r"key, position 1: no item 18446744073709551615"):
        WORDS[np.array([0, 2**64 - 1], ">u8")]


def test_a_masked_array_is_no_key() -> None:
    masked = np.ma.array([0, 1], mask=[False, True])
    with pytest.raises(InvalidDataError, match="key: a masked array, whose mask would be lost"):
        WORDS[masked]
