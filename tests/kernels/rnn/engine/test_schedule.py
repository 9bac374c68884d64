"""Which thread runs which sequences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.rnn.engine.native.schedule import Schedule, group_size, schedule
from lodcli.kernels.rnn.engine.plan import plan_steps
from tests.oracles_rnn import offsets_of

pytest.importorskip("numba", reason="a checkout compiles its kernels")
MOST = 327


def numbers(plans: Schedule) -> list[list[list[int]]]:
    return [[group.numbers.tolist() for group in groups] for groups in plans.groups]


def test_the_longest_goes_to_the_thread_with_the_least() -> None:
    plan = plan_steps(offsets_of([2, 5, 0, 3, 4]))
    plans = schedule(plan, False, 2, MOST)
    assert not plans.together
    assert numbers(plans) == [[[1, 0]], [[4, 3]]]  # 5 + 2 rows, and 4 + 3
    (one,), (two,) = plans.groups
    assert [one.firsts.tolist(), one.lengths.tolist(), one.ranks.tolist()] == [
        [2, 0],
        [5, 2],
        [0, 3],
    ]
    assert [two.firsts.tolist(), two.lengths.tolist(), two.ranks.tolist()] == [
        [10, 7],
        [4, 3],
        [1, 2],
    ]
    assert [one.total, one.onward] == [2, 1]


def test_in_reverse_the_last_row_runs_first() -> None:
    ((group,),) = schedule(plan_steps(offsets_of([2, 3])), True, 1, MOST).groups
    assert [group.firsts.tolist(), group.onward] == [[4, 1], -1]


@pytest.mark.parametrize(("lengths", "together"), [([5, 3], False), ([6, 3], True), ([], False)])
def test_all_threads_run_all_sequences_if_their_shares_would_be_uneven(
    lengths: list[int], together: bool
) -> None:
    plans = schedule(plan_steps(offsets_of(lengths)), False, 2, MOST)
    assert plans.together == together
    if together:
        assert numbers(plans) == [[[0, 1]]]


@given(st.lists(st.integers(0, 9), max_size=70), st.integers(1, 4), st.booleans())
def test_every_sequence_with_rows_is_in_one_group_longest_first(
    lengths: list[int], threads: int, reverse: bool
) -> None:
    offsets = offsets_of(lengths)
    plans = schedule(plan_steps(offsets), reverse, threads, 24)
    seen: list[int] = []
    for groups in plans.groups:
        for group in groups:
            assert group.total == len(group.numbers) <= 24
            assert group.lengths.tolist() == sorted(group.lengths.tolist(), reverse=True)
            for first, length, number in zip(
                group.firsts.tolist(), group.lengths.tolist(), group.numbers.tolist(), strict=True
            ):
                assert length == lengths[number]
                assert first == (offsets[number + 1] - 1 if reverse else offsets[number])
            seen += group.numbers.tolist()
    assert sorted(seen) == [n for n, length in enumerate(lengths) if length]
    loads = [sum(int(g.lengths.sum()) for g in plans.groups_of(n)) for n in range(threads)]
    assert plans.together or max(loads) * threads <= 1.25 * sum(lengths)
    assert np.all(np.diff([g.ranks[0] for groups in plans.groups[:1] for g in groups]) > 0)


@pytest.mark.parametrize(
    ("row_bytes", "most", "few"),
    [(800, 327, 32), (256, 1024, 128), (400, 655, 64), (1 << 20, 24, 32)],
)
def test_a_group_has_rows_for_a_part_of_the_cache(row_bytes: int, most: int, few: int) -> None:
    assert (group_size(row_bytes), group_size(row_bytes, few=True)) == (most, few)
