"""The best rows of each segment, and values by column: NumPy and compiled code as plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.ops.sorting.sort import segment_best, segment_picked
from lodcli.kernels.runtime.dispatch import Backend, on
from tests.cases_ops import BACKENDS


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(), (2,), (2, 3), (0,)])
@given(
    counts=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=5),
    seed=st.integers(0, 9),
)
def test_the_best_are_the_first_of_the_order_and_places_count_from_the_segment(
    backend: Backend, shape: tuple[int, ...], counts: list[tuple[int, int]], seed: int
) -> None:
    lengths = [max(pair) for pair in counts]
    kept = [min(pair) for pair in counts]
    offsets = np.array([0, *itertools.accumulate(lengths)])
    order = np.random.default_rng(seed).integers(0, 99, (int(offsets[-1]), *shape))
    bounds = np.array([0, *itertools.accumulate(kept)])
    rows, places = on(backend, segment_best)(order, offsets, bounds)
    parts = [order[lo : lo + n] for lo, n in zip(offsets, kept, strict=False)]
    none = [np.empty((0, *shape), np.int64)]
    np.testing.assert_array_equal(rows, np.concatenate([*parts, *none]))
    counted = [part - lo for part, lo in zip(parts, offsets, strict=False)]
    np.testing.assert_array_equal(places, np.concatenate([*counted, *none]))


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
