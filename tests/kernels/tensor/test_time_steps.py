"""Items by time step, rank tables and items in turn: NumPy and compiled code as plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, InvalidLoDError
from lodcli.kernels.index.items import segment_steps
from lodcli.kernels.ops.joining.concat import segment_item_turns, segment_turns
from lodcli.kernels.ops.ranking.rank_table import segment_ranks
from lodcli.kernels.ops.ranking.split_by_mask import segment_merged, segment_split
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.time_steps import longest_first
from tests.cases_ops import BACKENDS
from tests.oracles import steps_of

LENGTHS = st.lists(st.integers(0, 6), max_size=7)


def offsets(lengths: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([0, *itertools.accumulate(lengths)], np.int64)


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=LENGTHS, data=st.data())
def test_step_t_holds_item_t_of_every_sequence_that_has_one(
    backend: Backend, lengths: list[int], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(lengths))))
    numbers = iter(range(sum(lengths)))
    sequences = [list(itertools.islice(numbers, length)) for length in lengths]
    items, bounds = on(backend, segment_steps)(offsets(lengths), np.array(order, np.int64))
    expected = steps_of(sequences, order)
    assert items.tolist() == [item for step in expected for item in step]
    places, ends = on(backend, segment_steps)(
        offsets(lengths), np.array(order, np.int64), back=True
    )
    assert items[places].tolist() == list(range(items.size))
    assert ends.tolist() == bounds.tolist()
    assert bounds.tolist() == [0, *itertools.accumulate(map(len, expected))]


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=LENGTHS)
def test_a_rank_table_tells_the_order_and_the_offsets_of_its_sequences(
    backend: Backend, lengths: list[int]
) -> None:
    order = sorted(range(len(lengths)), key=lambda place: -lengths[place])
    table = np.array([[place, lengths[place]] for place in order], np.int64).reshape(-1, 2)
    found = on(backend, segment_ranks)(table)
    assert [one.tolist() for one in found] == [order, [0, *itertools.accumulate(lengths)]]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[0, 2], [0, 1]], "each sequence 0 to 1 once"),
        ([[0, 2], [2, 1]], "each sequence 0 to 1 once"),
        ([[-1, 2], [0, 1]], "each sequence 0 to 1 once"),
        ([[1, 1], [0, 2]], r"row 1: longest first \(expected at most 1, found 2\)"),
    ],
)
def test_an_invalid_rank_table_is_an_error(
    backend: Backend, table: list[list[int]], message: str
) -> None:
    with pytest.raises(InvalidDataError, match=message):
        on(backend, segment_ranks)(np.array(table))


@pytest.mark.parametrize("backend", BACKENDS)
@given(data=st.data(), parts=st.integers(1, 3), ranges=st.integers(0, 4))
def test_items_take_turns_range_by_range(
    backend: Backend, data: st.DataObject, parts: int, ranges: int
) -> None:
    counts = data.draw(
        st.lists(
            st.lists(st.integers(0, 3), min_size=ranges, max_size=ranges),
            min_size=parts,
            max_size=parts,
        )
    )
    lengths = [[data.draw(st.integers(0, 5)) for _ in range(sum(each))] for each in counts]
    rest = [iter(each) for each in lengths]
    mixed = [next(rest[part]) for i in range(ranges) for part in range(parts)
             for _ in range(counts[part][i])]  # fmt: skip
    found, inner = on(backend, segment_turns)(
        [offsets(each) for each in lengths], [offsets(each) for each in counts]
    )
    assert found.tolist() == [0, *itertools.accumulate(mixed)]
    for part, those in enumerate(inner):
        ends = itertools.accumulate(counts[part], initial=0)
        assert those.tolist() == [sum(lengths[part][:end]) for end in ends]


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=st.integers(0, 4).flatmap(
    lambda count: st.lists(
        st.lists(st.integers(0, 5), min_size=count, max_size=count), min_size=1, max_size=3
    )
))  # fmt: skip
def test_items_take_turns_one_by_one(backend: Backend, lengths: list[list[int]]) -> None:
    found = on(backend, segment_item_turns)([offsets(each) for each in lengths])
    mixed = [length for item in zip(*lengths, strict=True) for length in item]
    assert found.tolist() == [0, *itertools.accumulate(mixed)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_turns_of_more_rows_than_int64_counts_are_refused(backend: Backend) -> None:
    huge = [np.array([0, 1 << 62]), np.array([0, 1 << 62])]
    with pytest.raises(InvalidLoDError, match=r"expected a total below 2\*\*63"):
        on(backend, segment_turns)(huge, [np.array([0, 1])] * 2)
    with pytest.raises(InvalidLoDError, match=r"expected a total below 2\*\*63"):
        on(backend, segment_item_turns)(huge)


@pytest.mark.parametrize("most", [1, 300, 70_000])
@pytest.mark.parametrize("count", [5, 500])
def test_the_longest_come_first_and_equal_ones_in_their_order(count: int, most: int) -> None:
    lengths = np.random.default_rng(0).integers(0, most, count)
    expected = sorted(range(count), key=lambda place: -lengths[place])
    assert longest_first(lengths).tolist() == expected


@pytest.mark.parametrize("backend", BACKENDS)
@given(mask=st.lists(st.booleans(), max_size=9), step=st.sampled_from([1, 2]), data=st.data())
def test_a_mask_takes_the_next_sequence_of_one_part_or_the_other(
    backend: Backend, mask: list[bool], step: int, data: st.DataObject
) -> None:
    kept = mask[::step]
    lengths = [[data.draw(st.integers(0, 5)) for one in kept if one == side] for side in (1, 0)]
    parts = [offsets(each) for each in lengths]
    found = on(backend, segment_merged)(np.array(mask, np.bool_)[::step], *parts)
    assert found is not None
    merged, bounds = found
    rest = [iter(each) for each in lengths]
    taken = [(next(rest[0]), 0) if one else (0, next(rest[1])) for one in kept]
    assert merged.tolist() == [0, *itertools.accumulate(map(sum, taken))]
    for part, those in enumerate(bounds):
        assert those.tolist() == [0, *itertools.accumulate(each[part] for each in taken)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mask", [[True, True, True], [True, False, False], [False] * 3])
def test_a_mask_of_other_parts_merges_nothing(backend: Backend, mask: list[bool]) -> None:
    assert on(backend, segment_merged)(np.array(mask), offsets([1, 2]), offsets([3])) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_parts_of_more_rows_than_int64_counts_are_refused(backend: Backend) -> None:
    huge = np.array([0, 1 << 62])
    with pytest.raises(InvalidLoDError, match=r"expected a total below 2\*\*63"):
        on(backend, segment_merged)(np.array([True, False]), huge, huge)


@pytest.mark.parametrize("backend", BACKENDS)
@given(lengths=LENGTHS, step=st.sampled_from([1, 2]), data=st.data())
def test_a_mask_splits_the_sequences_of_a_level(
    backend: Backend, lengths: list[int], step: int, data: st.DataObject
) -> None:
    mask = data.draw(st.lists(st.booleans(), min_size=len(lengths), max_size=len(lengths)))
    given_mask = np.repeat(np.array(mask, np.bool_), step)[::step]
    found = on(backend, segment_split)(given_mask, offsets(lengths))
    begins = offsets(lengths).tolist()
    for side, (starts, bounds) in zip((True, False), found, strict=True):
        those = [place for place, one in enumerate(mask) if one == side]
        assert starts.tolist() == [begins[place] for place in those]
        assert bounds.tolist() == offsets([lengths[place] for place in those]).tolist()
