"""Plans: sorting by length and the rows of each step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidLoDError
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.native import load
from lodcli.kernels.rnn.engine.plan import checked_offsets, plan_steps
from tests.oracles_rnn import offsets_of


def test_the_seeds_example_is_planned_as_drawn() -> None:
    # xxxx / xx / xxx, seed 003, "sorted by length" and "SegmentInputs".
    plan = plan_steps(offsets_of([4, 2, 3]))
    assert plan.order.tolist() == [0, 2, 1]
    assert plan.lengths.tolist() == [4, 3, 2]
    assert plan.starts.tolist() == [0, 6, 4]
    assert plan.step_sizes.tolist() == [3, 3, 2, 1]
    assert [plan.rows(t).tolist() for t in range(4)] == [[0, 6, 4], [1, 7, 5], [2, 8], [3]]


def test_reversed_steps_begin_at_each_sequences_own_last_row() -> None:
    plan = plan_steps(offsets_of([4, 2, 3]))
    rows = [plan.rows(t, reverse=True).tolist() for t in range(4)]
    assert rows == [[3, 8, 5], [2, 7, 4], [1, 6], [0]]


def test_equal_lengths_keep_their_order() -> None:
    assert plan_steps(offsets_of([1, 2, 1, 2, 2])).order.tolist() == [1, 3, 4, 0, 2]
    # Many, because numpy sorts a few of them stably with any algorithm.
    many = plan_steps(offsets_of([1, 2] * 100)).order.tolist()
    assert many == [*range(1, 200, 2), *range(0, 200, 2)]


@pytest.mark.parametrize("lengths", [[], [0], [0, 0, 0]])
def test_a_batch_without_rows_has_no_steps(lengths: list[int]) -> None:
    plan = plan_steps(offsets_of(lengths))
    assert plan.step_sizes.tolist() == []
    assert plan.order.tolist() == list(range(len(lengths)))
    assert plan.order.dtype == plan.step_sizes.dtype == plan.starts.dtype == np.int64


@given(st.lists(st.integers(0, 7), max_size=9), st.booleans())
def test_every_row_runs_once_in_its_sequences_order(lengths: list[int], reverse: bool) -> None:
    offsets = offsets_of(lengths)
    plan = plan_steps(offsets)
    steps = [plan.rows(t, reverse=reverse).tolist() for t in range(len(plan.step_sizes))]
    assert [len(step) for step in steps] == plan.step_sizes.tolist()
    assert len(steps) == max(lengths, default=0)
    for place, sequence in enumerate(plan.order.tolist()):
        wanted = list(range(offsets[sequence], offsets[sequence + 1]))
        ran = [step[place] for step in steps if place < len(step)]
        assert ran == (wanted[::-1] if reverse else wanted)


@given(st.lists(st.integers(0, 7), max_size=9))
def test_compiled_code_plans_as_numpy_does(lengths: list[int]) -> None:
    pytest.importorskip("numba", reason="a checkout compiles its kernels")
    offsets = offsets_of(lengths)
    wanted = plan_steps(offsets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(load, "is_shipped", lambda: True)
        found = plan_steps(offsets)
    for name, array in vars(wanted).items():
        assert vars(found)[name].tolist() == array.tolist()
        assert vars(found)[name].dtype == array.dtype


@pytest.mark.parametrize(
    ("offsets", "position", "message"),
    [
        ([1, 3], 0, "first offset"),
        ([0, 3, 2, 3], 2, "decrease"),
        ([0, 2], 1, "number of rows"),
    ],
)
def test_offsets_that_do_not_cut_the_rows_are_refused(
    offsets: list[int], position: int, message: str
) -> None:
    with pytest.raises(InvalidLoDError, match=message) as caught:
        checked_offsets(offsets, 3)
    assert caught.value.position == position


def test_offsets_cannot_change_between_check_and_use() -> None:
    """A thread of the caller may change them; compiled code would write out of bounds."""
    offsets = np.array([0, 2, 3])
    found = checked_offsets(offsets, 3, kept=False)
    assert not np.shares_memory(found, offsets)
    assert found.tolist() == [0, 2, 3]
    frozen = immutable(offsets)
    assert checked_offsets(frozen, 3, kept=False) is frozen
