"""sequence_topk_avg_pooling: by hand, loops, finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.pooling.topk_avg_pooling import (
    segment_topk_avg_pooling,
    segment_topk_avg_pooling_grad,
    sequence_topk_avg_pooling,
    sequence_topk_avg_pooling_grad,
)
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import check_gradient, compiled, near, on_every_backend
from tests.strategies import FLOATS, LAYOUTS, laid_out


@on_every_backend
def test_two_channels_stand_beside_each_other(backend: Backend) -> None:
    # Channel 0 is [[1, 5, 3], [2, 2, 4]], channel 1 is [[0, 0, 6], [9, 8, 7]].
    values = np.array([1, 5, 3, 2, 2, 4, 0, 0, 6, 9, 8, 7], np.float32)
    row, column = LoD.from_lengths([[2]], ["line"]), LoD.from_lengths([[3]])
    out = sequence_topk_avg_pooling(
        LoDTensor(values, [[12]]), row, column, topks=[2, 1, 4], channel_num=2, backend=backend
    )
    assert out.data.tolist() == [
        [4, 5, 9 / 4, 3, 6, 6 / 4],  # channel 0: (5+3)/2, 5, (5+3+1)/4; channel 1
        [3, 4, 8 / 4, 8.5, 9, 24 / 4],
    ]
    assert out.lod is row
    assert out.dtype == np.float32


@on_every_backend
def test_no_columns_give_zeros_and_no_rows_nothing(backend: Backend) -> None:
    row, column = LoD.from_lengths([[2, 0, 1]]), LoD.from_lengths([[0, 3, 1]])
    out = sequence_topk_avg_pooling(
        LoDTensor(np.array([[-20_000_000.0]]), [[0, 0, 1]]),
        row,
        column,
        topks=[1, 2],
        channel_num=1,
        backend=backend,
    )
    # Below what PaddlePaddle finds at all.
    assert out.data.tolist() == [[0, 0], [0, 0], [-20_000_000.0, -10_000_000.0]]


@on_every_backend
def test_nan_is_taken_last_and_infinity_first(backend: Backend) -> None:
    values = np.array([np.nan, 1.0, np.inf, np.nan, -np.inf, 2.0])
    six, one = LoD.from_lengths([[6]]), LoD.from_lengths([[1]])
    out = sequence_topk_avg_pooling(
        LoDTensor(values[[0, 1, 4, 5]], [[4]]),
        one,
        LoD.from_lengths([[4]]),
        topks=[2, 4],
        channel_num=1,
        backend=backend,
    )
    np.testing.assert_array_equal(out.data, [[1.5, np.nan]])
    whole = sequence_topk_avg_pooling(
        LoDTensor(values, [[6]]), one, six, topks=[1, 3], channel_num=1, backend=backend
    )
    np.testing.assert_array_equal(whole.data, [[np.inf, np.inf]])


@st.composite
def batches(draw: st.DrawFn) -> tuple[list[int], list[int], int, list[int]]:
    rows = draw(st.lists(st.integers(0, 3), max_size=4))
    columns = [draw(st.integers(0, 5)) for _ in rows]
    topks = draw(st.lists(st.integers(1, 7), min_size=1, max_size=3))
    return rows, columns, draw(st.integers(1, 3)), topks


@on_every_backend
@compiled
@given(
    batch=batches(),
    dtype=st.sampled_from(FLOATS),
    layout=st.sampled_from(LAYOUTS),
    seed=st.integers(0, 1000),
)
def test_averages_are_those_of_the_loops(
    backend: Backend,
    batch: tuple[list[int], list[int], int, list[int]],
    dtype: Any,
    layout: str,
    seed: int,
) -> None:
    rows, columns, channels, topks = batch
    lengths = [channels * r * c for r, c in zip(rows, columns, strict=True)]
    generator = np.random.default_rng(seed)
    data = laid_out(generator.integers(-3, 4, (sum(lengths), 1)).astype(dtype), layout)
    tensor = LoDTensor(data, [lengths])
    out = sequence_topk_avg_pooling(
        tensor,
        LoD.from_lengths([rows]),
        LoD.from_lengths([columns]),
        topks=topks,
        channel_num=channels,
        backend=backend,
    )
    wanted = [np.zeros((0, channels * len(topks)))]
    parts = oracles_ids.sequences(data.ravel(), tensor.lod.levels[0])
    for x, r, c in zip(parts, rows, columns, strict=True):
        wanted.append(oracles_ids.topk_average(x, r, c, channels, topks))
    assert out.dtype == dtype
    near(out.data, np.concatenate(wanted), 4e-6 if dtype == np.float32 else 1e-12)


@on_every_backend
def test_gradient_is_that_of_finite_differences(backend: Backend) -> None:
    generator = np.random.default_rng(6)
    # Distinct values, far apart, so that no small step changes their order.
    data = generator.permutation(2 * 3 * 4 + 2 * 1 * 2).astype(np.float64)
    levels = np.array([0, 24, 24, 28]), np.array([0, 3, 5, 6]), np.array([0, 4, 4, 6])
    arguments: Any = {
        **dict(zip(("offsets", "row_offsets", "column_offsets"), levels, strict=True)),
        "topks": np.array([3, 1, 5]),
        "channel_num": 2,
    }
    upstream = generator.normal(size=(6, 6))
    gradient = on(backend, segment_topk_avg_pooling_grad)(data, **arguments, grad=upstream)
    check_gradient(lambda at: segment_topk_avg_pooling(at, **arguments), data, upstream, gradient)


@on_every_backend
def test_of_equal_values_the_first_gets_the_gradient(backend: Backend) -> None:
    offsets = np.array([0, 4])
    found = on(backend, segment_topk_avg_pooling_grad)(
        np.array([1.0, 7.0, 7.0, 7.0]),
        offsets,
        np.array([0, 1]),
        offsets,
        np.array([1, 2]),
        1,
        np.array([[10.0, 4.0]]),
    )
    assert found.tolist() == [0, 12, 2, 0]


@on_every_backend
def test_gradients_too_large_for_float16_are_infinite(backend: Backend) -> None:
    tensor = LoDTensor(np.ones(1, np.float16), [[1]])
    one = LoD.from_lengths([[1]])
    found = sequence_topk_avg_pooling_grad(
        [[6e4, 6e4]], tensor, one, one, topks=[1, 1], channel_num=1, backend=backend
    )
    assert found.data.tolist() == [np.inf]


def test_invalid_arguments_are_errors() -> None:
    tensor, two = LoDTensor(np.zeros(4), [[4]]), LoD.from_lengths([[2]])
    options: Any = {"topks": [1], "channel_num": 1}
    with pytest.raises(ShapeMismatchError, match="sequence 0 has 4 values, expected 2 x 2 x 2"):
        sequence_topk_avg_pooling(tensor, two, two, topks=[1], channel_num=2)
    with pytest.raises(ShapeMismatchError, match="1 sequences, but 2 in column"):
        sequence_topk_avg_pooling(tensor, two, LoD.from_lengths([[2, 0]]), **options)
    with pytest.raises(InvalidDataError, match="topks must be at least 1, found 0"):
        sequence_topk_avg_pooling(tensor, two, two, topks=[0], channel_num=1)
    with pytest.raises(InvalidDataError, match="at least one number in topks"):
        sequence_topk_avg_pooling(tensor, two, two, topks=[], channel_num=1)
    with pytest.raises(InvalidDataError, match="channel_num must be at least 1"):
        sequence_topk_avg_pooling(tensor, two, two, topks=[1], channel_num=0)
    for wrong in ({"topks": [1, 2**70]}, {"channel_num": 2**70}):
        with pytest.raises(InvalidDataError, match=r"below 2\*\*61, found"):
            sequence_topk_avg_pooling(tensor, two, two, **options | wrong)
    with pytest.raises(InvalidDataError, match="one value per row"):
        sequence_topk_avg_pooling(LoDTensor(np.zeros((4, 2)), [[4]]), two, two, **options)
    with pytest.raises(SelectionError, match="no level"):
        sequence_topk_avg_pooling(tensor, LoD(), two, **options)
