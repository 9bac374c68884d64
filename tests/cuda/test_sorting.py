"""Sequences of every length are sorted as NumPy sorts them, in shared memory or by CuPy."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.kernels.ops.pooling import topk_avg_pooling
from lodcli.kernels.ops.sorting import sort
from lodcli.kernels.runtime.dispatch import on
from tests.sampling import by_turns

cupy: Any = pytest.importorskip("cupy")
order_of: Any = importlib.import_module("lodcli.kernels.ops.sorting.sort_cupy").order_of
pytestmark = pytest.mark.gpu

# Runs that are counted, halves of runs that are not whole, and more than a block has room for.
LENGTHS = {
    "runs": [0, 3, 32, 1, 33, 0, 64, 65, 17, 31, 0],
    "halves": [300, 0, 97, 129, 2, 256, 1, 64, 33, 200, 5] * 3,
    "longest": [1024, 1, 1023, 1024, 0, 513, 1000],
    "longer": [7, 1025, 0, 40],
}
DTYPES = ("int8", "uint16", "int64", "float16", "float32", "float64")


def rows_of(lengths: list[int], columns: int, dtype: str) -> tuple[Any, Any]:
    """Return rows with many equal values, and of floats NaN and both zeros; and their offsets."""
    offsets = lengths_to_offsets(np.array(lengths), level=0)
    shape = (int(offsets[-1]), columns)
    rows = np.random.default_rng(columns).integers(0, 60, shape).astype(dtype)
    if rows.dtype.kind == "f":
        rows -= 30
        rows[rows == 29] = np.nan
        rows[rows == 1] = -0.0
    return rows, offsets


@pytest.mark.parametrize(
    ("lengths", "columns", "dtype"), by_turns(3, LENGTHS, (1, 3, 8, 19), DTYPES)
)
def test_an_order_is_numpys_down_to_equal_values(lengths: str, columns: int, dtype: str) -> None:
    rows, offsets = rows_of(LENGTHS[lengths], columns, dtype)
    for descending in (False, True):
        found = on("cupy", sort.segment_order)(cupy.asarray(rows), offsets, descending)
        wanted = sort.segment_order(rows, offsets, descending)
        np.testing.assert_array_equal(cupy.asnumpy(found), wanted)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_the_order_of_negatives_has_a_nan_last(lengths: str) -> None:
    rows, offsets = rows_of(LENGTHS[lengths], 2, "float32")
    found = order_of(cupy.asarray(rows), offsets, "NEGATED")
    np.testing.assert_array_equal(
        cupy.asnumpy(found), sort.segment_order(-rows, offsets, descending=False)
    )


@pytest.mark.parametrize("columns", [[3, 0, 40], [70, 33, 1], [2, 1030, 5]])
def test_averages_and_their_gradients_are_numpys(columns: list[int]) -> None:
    rows, channels, topks = np.array([2, 3, 4]), 2, np.array([3, 1, 50])
    lengths = channels * rows * columns
    data, offsets = rows_of(lengths.tolist(), 1, "float64")
    index = (offsets, *(lengths_to_offsets(np.asarray(one), level=0) for one in (rows, columns)))
    grad = np.random.default_rng(0).normal(size=(int(rows.sum()), channels * topks.size))
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (topk_avg_pooling.segment_topk_avg_pooling, ()),
        (topk_avg_pooling.segment_topk_avg_pooling_grad, (grad,)),
    ]
    for op, more in cases:
        wanted = op(data[:, 0], *index, topks, channels, *more)
        there = (cupy.asarray(one) for one in more)
        found = on("cupy", op)(cupy.asarray(data[:, 0]), *index, topks, channels, *there)
        np.testing.assert_array_equal(cupy.asnumpy(found), wanted)
