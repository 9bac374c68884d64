"""Batches of a limited size, against plain loops."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.index.batch_plans import packed_batches, padded_batches

LENGTHS = st.lists(st.integers(0, 12), max_size=60)


@given(LENGTHS, st.integers(12, 40))
def test_padded_batches_are_those_of_a_loop(lengths: list[int], limit: int) -> None:
    expected, batch = [0], 0
    longest = 0
    for number, length in enumerate(lengths):
        longest = max(longest, length)
        if longest * (number - batch + 1) > limit:
            expected.append(number)
            batch, longest = number, length
    if lengths:
        expected.append(len(lengths))
    assert padded_batches(np.array(lengths, np.int64), limit).tolist() == expected


@given(LENGTHS, st.integers(12, 40))
def test_packed_batches_are_those_of_best_fit_decreasing(lengths: list[int], limit: int) -> None:
    order, batches = packed_batches(np.array(lengths, np.int64), limit)
    assert sorted(order.tolist()) == list(range(len(lengths)))
    found = [[lengths[item] for item in order[a:b]] for a, b in pairwise(batches)]
    assert all(sum(batch) <= limit for batch in found)
    rooms: list[int] = []
    for length in sorted(lengths, reverse=True):
        fitting = [n for n, room in enumerate(rooms) if room >= length]
        best = min(fitting, key=lambda n: rooms[n], default=len(rooms))
        if best == len(rooms):
            rooms.append(limit)
        rooms[best] -= length
    # Which of several batches with the same room is taken changes no room.
    assert sorted(limit - sum(batch) for batch in found) == sorted(rooms)
