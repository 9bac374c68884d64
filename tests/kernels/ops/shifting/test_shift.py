"""Shifted rows and differences against plain loops, Polars, pandas, NumPy, and by hand."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.shifting.shift import (
    sequence_diff,
    sequence_diff_grad,
    sequence_shift,
    sequence_shift_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.simd import row_copies
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.marks import Decimals, Marks, Times
from lodcli.kernels.tensor.nulls import Nulls
from tests.cases_ops import BACKENDS, on_every_backend
from tests.kernels.ops.walled import walled
from tests.oracles_ops import pieces_of, row_lengths
from tests.strategies import BFLOAT16, tensors

LAGS = (1, 2, 0, -1, -3, 9, -9)
every_lag = pytest.mark.parametrize("lag", LAGS)
# Long ones among short ones, of several pieces of work.
LENGTHS = [3, 0, 1, 70, 2, 0, 5000, 1, 7, 0]
WORDS = LoDTensor(np.array([1, 4, 9, 5, 7]), [[3, 0, 2]])


@on_every_backend
@pytest.mark.parametrize(
    ("lag", "shifted", "differences", "padded"),
    [
        (1, [-1, 1, 4, -1, 5], [[3, 5], [], [2]], [-1, 3, 5, -1, 2]),
        (2, [-1, -1, 1, -1, -1], [[8], [], []], [-1, -1, 8, -1, -1]),
        (0, [1, 4, 9, 5, 7], [[0, 0, 0], [], [0, 0]], [0, 0, 0, 0, 0]),
        (-1, [4, 9, -1, 7, -1], [[-3, -5], [], [-2]], [-3, -5, -1, -2, -1]),
        (4, [-1, -1, -1, -1, -1], [[], [], []], [-1, -1, -1, -1, -1]),
    ],
)
def test_by_hand(lag: int, shifted: Any, differences: Any, padded: Any, backend: Backend) -> None:
    found = sequence_shift(WORDS, lag, pad_value=-1, backend=backend)
    assert found.data.tolist() == shifted
    assert found.lod is WORDS.lod
    assert sequence_diff(WORDS, lag, backend=backend).to_list() == differences
    found = sequence_diff(WORDS, lag, pad_value=-1, backend=backend)
    assert found.data.tolist() == padded
    assert found.lod is WORDS.lod


@on_every_backend
def test_a_sequence_of_an_upper_level_is_all_its_rows(backend: Backend) -> None:
    lod = LoD.from_lengths([[2, 0, 3], [3, 1, 0, 2, 1]], ["article", "sentence"])
    words = LoDTensor(np.array([1, 3, 6, 10, 2, 5, 9]), lod)
    found = sequence_shift(words, level="article", backend=backend)
    assert found.to_list() == [[[0, 1, 3], [6]], [], [[], [0, 2], [5]]]
    found = sequence_diff(words, level=0, backend=backend)
    assert found.to_list() == [[[2, 3], [4]], [], [[], [3], [4]]]
    assert found.lod.names == lod.names
    found = sequence_diff(words, -3, level=0, backend=backend)
    assert found.to_list() == [[[-9], []], [], [[], [], []]]
    found = sequence_diff(words, 3, level=0, backend=backend)
    assert found.to_list() == [[[], [9]], [], [[], [], []]]


def earlier(values: list[Any], lag: int) -> list[tuple[Any, Any]]:
    """Return each value with the one `lag` before it, or None."""
    return [
        (value, values[t - lag] if 0 <= t - lag < len(values) else None)
        for t, value in enumerate(values)
    ]


@settings(deadline=None)
@given(tensors(min_levels=1), st.data(), st.integers(-4, 4))
def test_any_tensor_is_shifted_as_lists_are(
    tensor: LoDTensor, data: st.DataObject, lag: int
) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    backend = data.draw(st.sampled_from(BACKENDS))
    lengths = row_lengths(tensor.recursive_sequence_lengths(), level)
    pairs = [
        pair
        for piece in pieces_of(list(range(tensor.rows)), lengths)
        for pair in earlier(piece, lag)
        if pair[1] is not None
    ]
    expected = np.zeros_like(tensor.data)
    for row, before in pairs:
        expected[row] = tensor.data[before]
    found = sequence_shift(tensor, lag, level=level, backend=backend)
    assert found.dtype == tensor.dtype
    assert found.data.tobytes() == expected.tobytes()
    assert found.lod is tensor.lod

    wide = tensor.data.astype(np.int64) if tensor.dtype.kind in "iub" else tensor.data
    differences = np.ones_like(wide)
    with np.errstate(all="ignore"):
        for row, before in pairs:
            differences[row] = wide[row] - wide[before]
    padded = sequence_diff(tensor, lag, level=level, pad_value=1, backend=backend)
    np.testing.assert_array_equal(padded.data, differences, strict=True)
    kept = [row for row, _ in pairs]
    found = sequence_diff(tensor, lag, level=level, backend=backend)
    np.testing.assert_array_equal(found.data, differences[kept], strict=True)
    ends = [sum(row < end for row in kept) for end in tensor.lod.levels[-1].tolist()]
    assert found.lod.levels[-1].tolist() == ends
    assert found.recursive_sequence_lengths()[:-1] == tensor.recursive_sequence_lengths()[:-1]


@on_every_backend
@every_lag
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float16", BFLOAT16, "f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("width", [1, 3, 40])
def test_rows_of_every_width_in_several_pieces(
    width: int, dtype: Any, lag: int, backend: Backend
) -> None:
    generator = np.random.default_rng(width)
    rows = generator.integers(0, 99, (sum(LENGTHS), width)).astype(dtype)
    tensor = LoDTensor(rows, [LENGTHS])
    wide = rows.astype(np.int64) if rows.dtype.kind in "iu" else rows
    shifted, padded, left = [], [], []
    for part, whole in zip(
        np.split(rows, tensor.lod.levels[0][1:-1]),
        np.split(wide, tensor.lod.levels[0][1:-1]),
        strict=True,
    ):
        count = min(abs(lag), len(part))
        fill, pads = np.full((count, width), 7, rows.dtype), np.full((count, width), 7, wide.dtype)
        kept, cut = len(part) - count, whole[:0]
        if lag >= 0:
            shifted += [fill, part[:kept]]
            cut = whole[count:] - whole[:kept]
            padded += [pads, cut]
        else:
            shifted += [part[count:], fill]
            cut = whole[:kept] - whole[count:]
            padded += [cut, pads]
        left.append(cut)
    options: Any = {"lag": lag, "backend": backend}
    for found, wanted in (
        (sequence_shift(tensor, pad_value=7, **options), shifted),
        (sequence_diff(tensor, pad_value=7, **options), padded),
        (sequence_diff(tensor, **options), left),
    ):
        expected = np.concatenate(wanted)
        assert found.dtype == expected.dtype
        assert found.data.tobytes() == expected.tobytes()


@on_every_backend
@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "c8", "i8"])
@pytest.mark.parametrize("width", [1, 5])
def test_gradients_of_rows_of_several_pieces(
    width: int, dtype: str, padded: bool, lag: int, backend: Backend
) -> None:
    tensor = LoDTensor(np.zeros((sum(LENGTHS), width)), [LENGTHS])
    pad: Any = {"pad_value": 0} if padded else {}
    count = sequence_diff(tensor, lag, **pad).rows
    draws = np.random.default_rng(3)
    flow = draws.integers(-9, 9, (count, width)).astype(dtype)
    found = sequence_diff_grad(flow, tensor, lag, backend=backend, **pad)
    expected, given = np.zeros(tensor.data.shape, dtype), iter(flow)
    for piece in pieces_of(list(range(tensor.rows)), LENGTHS):
        for row, before in earlier(piece, lag):
            if before is not None:
                one = next(given)
                expected[row] += one
                expected[before] -= one
            elif padded:
                next(given)
    np.testing.assert_array_equal(found.data, expected, strict=True)


def frame(lengths: list[int], values: Any) -> Any:
    polars = pytest.importorskip("polars")
    keys = np.repeat(np.arange(len(lengths)), lengths)
    return polars.DataFrame({"key": keys, "x": values})


@on_every_backend
@every_lag
def test_numbers_are_those_of_polars_and_pandas(lag: int, backend: Backend) -> None:
    polars = pytest.importorskip("polars")
    lengths = [4, 0, 1, 9, 2]
    values = np.random.default_rng(1).normal(size=sum(lengths))
    table, tensor = frame(lengths, values), LoDTensor(values, [lengths])
    column = polars.col("x")
    for found, wanted in (
        (sequence_shift(tensor, lag, pad_value=np.nan, backend=backend), column.shift(lag)),
        (sequence_diff(tensor, lag, pad_value=np.nan, backend=backend), column.diff(lag)),
    ):
        expected = table.select(wanted.over("key"))["x"].to_numpy()
        np.testing.assert_array_equal(found.data, expected)
    pandas = pytest.importorskip("pandas")
    groups = pandas.DataFrame(table.to_dict(as_series=False)).groupby("key")["x"]
    shifted = sequence_shift(tensor, lag, pad_value=np.nan, backend=backend)
    np.testing.assert_array_equal(shifted.data, groups.shift(lag).to_numpy())
    differences = sequence_diff(tensor, lag, pad_value=np.nan, backend=backend)
    np.testing.assert_array_equal(differences.data, groups.diff(lag).to_numpy())


@on_every_backend
def test_differences_are_those_of_numpy_of_each_sequence(backend: Backend) -> None:
    lengths = [4, 0, 1, 9, 2]
    rows = np.random.default_rng(1).normal(size=(sum(lengths), 3))
    tensor = LoDTensor(rows, [lengths])
    found = sequence_diff(tensor, backend=backend)
    for one, given_rows in zip(found, tensor, strict=True):
        np.testing.assert_array_equal(one.data, np.diff(given_rows.data, axis=0))


@pytest.mark.parametrize("seed", range(20))
@every_lag
def test_nulls_are_those_of_polars(seed: int, lag: int) -> None:
    polars = pytest.importorskip("polars")
    rng = Random(seed)
    lists = [
        None
        if rng.random() < 0.2
        else [rng.choice([None, 1, 5, 7]) for _ in range(rng.randrange(5))]
        for _ in range(5)
    ]
    tensor = LoDTensor.from_lists(lists, levels=1, dtype=np.int64)
    table = polars.DataFrame({"x": polars.Series(lists, dtype=polars.List(polars.Int64))})
    element = polars.element()

    def of(expression: Any) -> Any:
        return table.select(polars.col("x").list.eval(expression))["x"].to_list()

    assert sequence_shift(tensor, lag, pad_value=9).to_list() == of(
        element.shift(lag, fill_value=9)
    )
    pairs: list[Any] = [[] if one is None else earlier([*range(len(one))], lag) for one in lists]
    values = [[] if one is None else one for one in of(element.diff(lag))]
    every = [list(zip(*both, strict=True)) for both in zip(pairs, values, strict=True)]
    left = [[value for (_, before), value in one if before is not None] for one in every]
    padded = [[0 if before is None else value for (_, before), value in one] for one in every]
    for found, wanted in (
        (sequence_diff(tensor, lag), left),
        (sequence_diff(tensor, lag, pad_value=0), padded),
    ):
        rows = zip(wanted, lists, strict=True)
        assert found.to_list() == [None if given_list is None else one for one, given_list in rows]


def test_times_and_categories_without_a_row_are_null() -> None:
    times = LoDTensor([10, 25, 40], [[2, 1]], Marks(unit=Times("timestamp", "s")))
    found = sequence_shift(times)
    assert found.marks == times.marks
    assert found.nulls == Nulls.of([None, [False, True, False]])
    assert found.values.tolist() == [0, 10, 0]
    assert not sequence_shift(times, 0).nulls
    found = sequence_shift(times, pad_value="1970-01-01T00:00:07")
    assert found.data.tolist() == [7, 10, 7]
    labels = LoDTensor([0, 1, 1], [[2, 1]]).as_categories(["no", "yes"])
    assert sequence_shift(labels, -1).to_list() == [["yes", None], [None]]
    assert sequence_shift(labels, pad_value="yes").to_list() == [["yes", "no"], ["yes"]]
    with pytest.raises(InvalidDataError, match="pad_value: no category 'maybe'"):
        sequence_shift(labels, pad_value="maybe")


def test_differences_of_times_are_numbers_of_their_unit() -> None:
    times = LoDTensor([10, 25, 40], [[2, 1]], Marks(unit=Times("timestamp", "ms")))
    found = sequence_diff(times)
    assert found.to_list() == [[15], []]
    assert not found.marks
    assert sequence_diff(times, pad_value="PT1S").to_list() == [[1000, 15], [1000]]
    assert sequence_diff(times, pad_value=timedelta(seconds=2)).data.tolist() == [2000, 15, 2000]  # type: ignore[arg-type]
    prices = LoDTensor([150, 225], [[2]], Marks(unit=Decimals(5, 2)))
    assert sequence_diff(prices).data.tolist() == [75]
    assert sequence_shift(prices, pad_value=1.5).marks.unit == Decimals(5, 2)
    assert sequence_shift(prices, pad_value=1.5).data.tolist() == [150, 150]


def test_whole_numbers_do_not_wrap_in_their_dtype() -> None:
    small = LoDTensor(np.array([200, 3, 250], np.uint8), [[3]])
    assert sequence_diff(small).data.tolist() == [-197, 247]
    assert sequence_diff(LoDTensor([True, False, True], [[3]])).data.tolist() == [-1, 1]
    large = LoDTensor(np.array([2**63 + 1, 2**63 + 5], np.uint64), [[2]])
    assert sequence_diff(large).data.tolist() == [4]


@on_every_backend
def test_huge_lags_leave_nothing(backend: Backend) -> None:
    for lag in (2**63 - 1, -(2**63), 10**30, -(10**30)):
        assert sequence_diff(WORDS, lag, backend=backend).to_list() == [[], [], []]
        assert sequence_shift(WORDS, lag, backend=backend).data.tolist() == [0] * 5
        assert sequence_shift_grad(np.ones(5), WORDS, lag, backend=backend).data.tolist() == [0] * 5


def test_invalid_arguments_are_errors() -> None:
    with pytest.raises(SelectionError, match="sequence_diff: the tensor has no levels"):
        sequence_diff(LoDTensor([1, 2]))
    with pytest.raises(SelectionError, match="no level 1"):
        sequence_shift(WORDS, level=1)
    with pytest.raises(InvalidDataError, match="lag: expected an int, found float"):
        sequence_shift(WORDS, 1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="int64 cannot hold the pad_value nan"):
        sequence_diff(WORDS, pad_value=np.nan)
    with pytest.raises(InvalidDataError, match="pad_value: expected a number, found 'x'"):
        sequence_diff(WORDS, pad_value="x")
    for count in (4, 6):
        with pytest.raises(ShapeMismatchError, match="the upstream gradient must have"):
            sequence_diff_grad(np.zeros(count), WORDS)
        with pytest.raises(ShapeMismatchError, match="the upstream gradient must have"):
            sequence_shift_grad(np.zeros(count), WORDS)
    with pytest.raises(ShapeMismatchError, match="is not segmented as the result"):
        sequence_diff_grad(LoDTensor(np.zeros(3), [[3, 0, 0]]), WORDS)


@pytest.mark.parametrize("width", [1, 4, 63, 64, 65, 300])
@every_lag
def test_large_results_that_bypass_the_caches_are_the_same(
    lag: int, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = np.random.default_rng(width).integers(0, 255, (sum(LENGTHS), width), np.uint8)
    tensor = LoDTensor(rows, [LENGTHS])
    wanted = sequence_shift(tensor, lag, pad_value=7, backend="numpy")
    for name in ("STREAMED_BYTES", "RANGE_BYTES"):
        monkeypatch.setattr(row_copies, name, 0)
    found = sequence_shift(tensor, lag, pad_value=7, backend="numba")
    np.testing.assert_array_equal(found.data, wanted.data)


@pytest.mark.skipif("cupy" in BACKENDS, reason="reads main memory")
@every_lag
@pytest.mark.parametrize("width", [1, 3])
def test_nothing_beside_the_rows_is_read(lag: int, width: int) -> None:
    values = walled().view(np.int64)
    count = values.size // width
    lengths = [5, 0, 1, count - 16, 2, 8]
    for part in (values[: count * width], values[values.size - count * width :]):
        tensor = LoDTensor(part.reshape(count, width), [lengths])
        for pad in ({}, {"pad_value": 7}):
            found, wanted = (
                sequence_diff(tensor, lag, backend=backend, **pad) for backend in ("numba", "numpy")
            )
            np.testing.assert_array_equal(found.data, wanted.data)
            flow = part.reshape(count, width)[: found.rows]
            gradients = [
                sequence_diff_grad(flow, tensor, lag, backend=backend, **pad)
                for backend in ("numba", "numpy")
            ]
            np.testing.assert_array_equal(gradients[0].data, gradients[1].data)
        shifted = [sequence_shift(tensor, lag, backend=each) for each in ("numba", "numpy")]
        np.testing.assert_array_equal(shifted[0].data, shifted[1].data)
