"""Picking with numbers, ranges and positions in every group, compared with Python's indexing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.index.checks import Offsets
from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.groups import near_step, segment_cut, segment_number, segment_places
from lodcli.kernels.native import load
from lodcli.kernels.runtime.dispatch import Backend, on
from tests.cases_ops import BACKENDS

BOUNDS = st.none() | st.integers(-7, 7)
STEPS = st.none() | st.integers(-4, 4).filter(bool)


@pytest.mark.parametrize("backend", BACKENDS)
@given(
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    part=st.builds(slice, BOUNDS, BOUNDS, STEPS),
    data=st.data(),
)
def test_a_range_picks_of_each_group_what_a_slice_does(
    backend: Backend, lengths: list[int], part: slice, data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6))
    offsets = [0, *itertools.accumulate(lengths)]
    starts, bounds = on(backend, segment_cut)(np.array(offsets), np.array(groups, np.int64), part)
    found = ranges(starts, bounds, near_step(part))
    picked = [list(range(offsets[group], offsets[group + 1]))[part] for group in groups]
    assert found.tolist() == list(itertools.chain.from_iterable(picked))
    assert bounds.tolist() == [0, *itertools.accumulate(map(len, picked))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "part", [slice(10**30), slice(-(10**30), None), slice(None, None, 10**30), slice(10**30, 0, -1)]
)
def test_numbers_beyond_int64_pick_what_a_slice_does(backend: Backend, part: slice) -> None:
    starts, bounds = on(backend, segment_cut)(np.array([0, 3]), np.array([0]), part)
    found = ranges(starts, bounds, near_step(part))
    assert found.tolist() == list(range(3))[part]
    assert bounds.tolist() == [0, found.size]


GROUPS = st.lists(st.integers(2, 4) | st.integers(0, 4), min_size=1, max_size=6)
# Most of them in most groups.
PLACES = st.lists(st.integers(-2, 1) | st.integers(-5, 4), max_size=3)


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=GROUPS, number=st.integers(-5, 4), data=st.data())
def test_a_number_picks_an_item_of_each_group_or_nothing(
    backend: Backend, lengths: list[int], number: int, data: st.DataObject
) -> None:
    groups, offsets = _groups(lengths, data)
    found = on(backend, segment_number)(offsets, np.array(groups, np.int64), number)
    try:
        expected = [_items(offsets, group)[number] for group in groups]
    except IndexError:
        assert found is None
    else:
        assert found is not None
        assert found.tolist() == expected


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [10**30, -(10**30)])
def test_no_group_has_an_item_beyond_int64(backend: Backend, number: int) -> None:
    assert on(backend, segment_number)(np.array([0, 3]), np.array([0]), number) is None


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=GROUPS, places=PLACES, length=st.just(-1) | st.integers(0, 4), data=st.data())
def test_places_pick_the_same_items_of_each_group_or_nothing(
    backend: Backend, lengths: list[int], places: list[int], length: int, data: st.DataObject
) -> None:
    groups, offsets = _groups(lengths, data)
    found = on(backend, segment_places)(
        offsets, np.array(groups, np.int64), np.array(places, np.int64), length
    )
    held = [_items(offsets, group) for group in groups]
    fits = all(length in (-1, len(one)) for one in held)
    if not fits or any(not -len(one) <= place < len(one) for one in held for place in places):
        assert found is None
        return
    assert found is not None
    assert found[0].tolist() == [one[place] for one in held for place in places]
    assert found[1].tolist() == [len(places) * n for n in range(len(groups) + 1)]


def _groups(lengths: list[int], data: st.DataObject) -> tuple[list[int], Offsets]:
    groups = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=5))
    return groups, np.array([0, *itertools.accumulate(lengths)])


def _items(offsets: Offsets, group: int) -> list[int]:
    return list(range(offsets[group], offsets[group + 1]))


@pytest.mark.parametrize("shipped", [False, True])
@given(lengths=st.lists(st.integers(0, 5), max_size=6), data=st.data())
def test_ranges_are_the_numbers_from_each_start_on(
    shipped: bool, lengths: list[int], data: st.DataObject
) -> None:
    starts = data.draw(st.lists(st.integers(-9, 9), min_size=len(lengths), max_size=len(lengths)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "is_shipped", lambda: shipped)
        offsets = np.array([0, *itertools.accumulate(lengths)], np.int64)
        found = ranges(np.array(starts, np.int64), offsets)
    both = zip(starts, lengths, strict=True)
    assert found.tolist() == [n for start, length in both for n in range(start, start + length)]


def test_decreasing_offsets_write_nothing_beyond_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "is_shipped", lambda: True)
    with pytest.raises(ValueError, match="negative"):
        ranges(np.array([0, 0, 0]), np.array([0, 1 << 20, 0, 3]))
