"""The best values of each segment, their gradient, and values by column, as plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.index.items import segment_capped
from lodcli.kernels.ops.sorting.sort import segment_best, segment_picked, segment_unsorted
from lodcli.kernels.runtime.dispatch import Backend, on
from tests.cases_ops import BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (0,)])
@given(
    counts=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
    seed=st.integers(0, 9),
)
def test_the_best_are_the_first_of_the_order_and_go_back_to_where_they_were(
    backend: Backend, shape: tuple[int, ...], counts: list[tuple[int, int]], seed: int
) -> None:
    lengths = [max(pair) for pair in counts]
    kept = [min(pair) for pair in counts]
    offsets = np.array([0, *itertools.accumulate(lengths)])
    random = np.random.default_rng(seed)
    data = random.normal(size=(int(offsets[-1]), *shape))
    # In any order, within segments.
    order = np.empty(data.shape, np.int64)
    for lo, hi in itertools.pairwise(offsets):
        rows = np.broadcast_to(
            np.arange(lo, hi).reshape(-1, *(1 for _ in shape)), (hi - lo, *shape)
        )
        order[lo:hi] = random.permuted(rows, axis=0)
    bounds = np.array([0, *itertools.accumulate(kept)])
    values, places = on(backend, segment_best)(data, order, offsets, bounds)
    back = on(backend, segment_unsorted)(values, order, offsets, bounds)
    expected = np.zeros_like(data)
    for s, (start, count) in enumerate(zip(offsets, kept, strict=False)):
        for m in range(count):
            for column in np.ndindex(shape):
                row = order[(start + m, *column)]
                assert values[(bounds[s] + m, *column)] == data[(row, *column)]
                assert places[(bounds[s] + m, *column)] == row - start
                expected[(row, *column)] = data[(row, *column)]
    assert values.shape == places.shape == (bounds[-1], *shape)
    np.testing.assert_array_equal(back, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "int64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("count", [0, 7, 5000])  # none, one piece, several
def test_each_column_is_picked_by_its_own_rows(
    backend: Backend, dtype: str, shape: tuple[int, ...], count: int
) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(0, 99, (2 * 9, *shape)).astype(dtype)[::2]  # strided
    rows = rng.integers(0, 9, (count, *shape))
    found = on(backend, segment_picked)(data, rows)
    assert (found.dtype, found.shape) == (data.dtype, rows.shape)
    for place in np.ndindex(rows.shape):
        assert found[place] == data[(rows[place], *place[1:])]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lengths", [[], [3, 0, 5]])
@pytest.mark.parametrize("most", [-1, 0, 2, 1 << 60])
def test_one_number_caps_all_segments_alike(
    backend: Backend, lengths: list[int], most: int
) -> None:
    offsets = np.array([0, *itertools.accumulate(lengths)], np.int64)
    found = on(backend, segment_capped)(offsets, most)
    if most < 0:
        assert found is None
    else:
        assert found is not None
        kept = [min(most, length) for length in lengths]
        assert found.tolist() == [0, *itertools.accumulate(kept)]
