"""What a range picks of every group, and the numbers of ranges: as Python's own slices."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.index.forms import ranges
from lodcli.kernels.index.groups import segment_cut
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
    found, bounds = on(backend, segment_cut)(np.array(offsets), np.array(groups, np.int64), part)
    picked = [list(range(offsets[group], offsets[group + 1]))[part] for group in groups]
    assert found.tolist() == list(itertools.chain.from_iterable(picked))
    assert bounds.tolist() == [0, *itertools.accumulate(map(len, picked))]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "part", [slice(10**30), slice(-(10**30), None), slice(None, None, 10**30), slice(10**30, 0, -1)]
)
def test_numbers_beyond_int64_pick_what_a_slice_does(backend: Backend, part: slice) -> None:
    found, bounds = on(backend, segment_cut)(np.array([0, 3]), np.array([0]), part)
    assert found.tolist() == list(range(3))[part]
    assert bounds.tolist() == [0, found.size]


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


def test_what_is_no_offsets_writes_nothing_beyond_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "is_shipped", lambda: True)
    with pytest.raises(ValueError, match="negative"):
        ranges(np.array([0, 0, 0]), np.array([0, 1 << 20, 0, 3]))
