"""Offsets of picked items and of lengths: NumPy and compiled code do as plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.checks import joined_offsets, lengths_to_offsets, offsets_to_lengths
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.index.items import segment_inner, segment_pick
from lodcli.kernels.native import load
from lodcli.kernels.ops.slicing import slice_native
from lodcli.kernels.ops.slicing.slice import segment_part
from lodcli.kernels.runtime.dispatch import Backend, on
from tests.cases_ops import BACKENDS

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=8)


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=LENGTHS, data=st.data())
def test_picked_items_begin_where_they_did_and_keep_their_lengths(
    backend: Backend, lengths: list[int], data: st.DataObject
) -> None:
    items = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))
    offsets = np.array([0, *itertools.accumulate(lengths)])
    begins, bounds = on(backend, segment_pick)(offsets, np.array(items, np.int64))
    assert begins.tolist() == [sum(lengths[:item]) for item in items]
    assert bounds.tolist() == [0, *itertools.accumulate(lengths[item] for item in items)]
    assert is_immutable(bounds)


@pytest.mark.parametrize("backend", BACKENDS)
def test_more_rows_than_int64_counts_cannot_be_picked(backend: Backend) -> None:
    with pytest.raises(
        InvalidLoDError, match=r"position 1: length: expected a total below 2\*\*63"
    ):
        on(backend, segment_pick)(np.array([0, 1 << 62]), np.array([0, 0]))


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=LENGTHS, data=st.data())
def test_ranges_of_items_hold_what_their_items_hold(
    backend: Backend, lengths: list[int], data: st.DataObject
) -> None:
    places = st.integers(0, len(lengths))
    ends = data.draw(st.lists(st.tuples(places, places).map(sorted), max_size=5))
    offsets = np.array([0, *itertools.accumulate(lengths)])
    starts = np.array([start for start, _ in ends], np.int64)
    bounds = np.array([0, *itertools.accumulate(stop - start for start, stop in ends)])
    lower, begins, inner = on(backend, segment_inner)(offsets, starts, bounds)
    items = [item for start, stop in ends for item in range(start, stop)]
    assert lower.tolist() == [0, *itertools.accumulate(lengths[item] for item in items)]
    assert begins.tolist() == [sum(lengths[:start]) for start, _ in ends]
    held = [sum(lengths[start:stop]) for start, stop in ends]
    assert inner.tolist() == [0, *itertools.accumulate(held)]
    assert is_immutable(lower)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ranges_of_more_rows_than_int64_counts_are_refused(backend: Backend) -> None:
    with pytest.raises(InvalidLoDError, match=r"expected a total below 2\*\*63"):
        on(backend, segment_inner)(np.array([0, 1 << 62]), np.array([0, 0]), np.array([0, 1, 2]))


@pytest.fixture(params=["in a checkout", "in a package"])
def shipped(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy makes offsets, and then compiled code as in a package."""
    monkeypatch.setattr(load, "is_shipped", lambda: request.param == "in a package")


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("step", [1, 2])
def test_offsets_are_immutable_prefix_sums(step: int) -> None:
    offsets = lengths_to_offsets(np.array([2, 9, 0, 9, 3, 9])[::step], level=0)
    assert offsets.tolist() == [0, *itertools.accumulate([2, 9, 0, 9, 3, 9][::step])]
    assert is_immutable(offsets)
    assert lengths_to_offsets(np.zeros(0, np.int64), level=0).tolist() == [0]


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("offsets", [[0], [0, 0, 0], [0, 2, 2, 5, 9], [0, 1 << 62]])
def test_lengths_are_new_differences_of_offsets(offsets: list[int], step: int) -> None:
    found = offsets_to_lengths(np.repeat(offsets, step)[::step])
    assert found.tolist() == [b - a for a, b in itertools.pairwise(offsets)]
    assert found.flags.writeable
    assert found.flags.owndata


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, -1], "level 2, position 1: length: expected 0 or more, found -1"),
        ([1 << 62, 1 << 62], "level 2, position 1: length: expected a total below 2"),
        ([5, -9, 1 << 62], "level 2, position 1: length: expected 0 or more, found -9"),
    ],
)
def test_lengths_that_are_none_are_refused_with_their_place(
    lengths: list[int], message: str
) -> None:
    with pytest.raises(InvalidLoDError, match=message):
        lengths_to_offsets(np.array(lengths), level=2)


@pytest.mark.parametrize("wrong", [None, 0, 4, 6])
def test_parts_are_the_same_in_one_piece_and_in_several(
    wrong: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_native, "PIECE_SEGMENTS", 3)
    offsets, first = np.array([0, 2, 5, 5, 9, 10, 13, 14]), np.array([1, 0, 0, 2, 1, 0, 1])
    count = np.array([1, 3, 0, 1, 0, 2, 0])
    if wrong is not None:
        count[wrong] += 5
    starts, bounds, fits = slice_native.segment_part(offsets, first, count)
    expected = segment_part(offsets, first, count)
    assert fits == expected[2] == (wrong is None)
    if fits:
        np.testing.assert_array_equal(starts, expected[0])
        np.testing.assert_array_equal(bounds, expected[1])


@pytest.mark.usefixtures("shipped")
@given(parts=st.lists(LENGTHS | st.just([]), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joined_offsets_are_those_of_all_lengths(parts: list[list[int]]) -> None:
    joined = joined_offsets([np.array([0, *itertools.accumulate(each)]) for each in parts])
    assert joined.tolist() == [0, *itertools.accumulate(itertools.chain(*parts))]
    assert is_immutable(joined)
