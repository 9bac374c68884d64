"""Order inside sequences against plain loops, and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.ops.sorting import sort as order
from lodcli.kernels.ops.sorting.sort import (
    sequence_argsort,
    sequence_deduplicate,
    sequence_histogram,
    sequence_searchsorted,
    sequence_sort,
    sequence_topk,
    sequence_unique,
    sequence_unique_counts,
)
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import Array, backends_of
from tests.oracles_ops import pieces_of, row_lengths
from tests.oracles_order import alike, bins, kept, place_of, sorted_places
from tests.strategies import DTYPES, LAYOUTS, ROW_SHAPES, laid_out, tensors

REAL = [dtype for dtype in DTYPES if dtype.kind != "c"]
COLUMNS = ((), (1,))
NAN = math.nan
backend = backends_of(order)


@st.composite
def crowded(
    draw: st.DrawFn, dtypes: Any = REAL, shapes: Any = ROW_SHAPES
) -> tuple[LoDTensor, int, list[int]]:
    """Draw a tensor of few different values, some NaN; a level; its lengths in rows."""
    tensor = draw(tensors(dtypes, shapes, min_levels=1))
    level = draw(st.integers(0, tensor.lod.n_levels - 1))
    seed = draw(st.integers(0, 2**32 - 1))
    few = np.random.default_rng(seed).integers(0, 4, tensor.data.shape)
    floats = tensor.dtype.kind == "c" or tensor.dtype.name.endswith(("16", "32", "64"))
    data = tensor.data.copy()
    data[...] = few
    if floats and tensor.dtype.kind not in "iu":
        data[few == 3] = NAN
    lengths = row_lengths(tensor.recursive_sequence_lengths(), level)
    arranged = laid_out(data, draw(st.sampled_from(LAYOUTS)))
    return LoDTensor(arranged, tensor.lod), level, lengths


def flat(data: Array) -> Array:
    wide: Array = data.astype(complex if data.dtype.kind == "c" else float)
    return wide.reshape(len(data), math.prod(data.shape[1:]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (2,)])
def test_a_nan_of_either_sign_is_the_greatest_and_zeros_are_equal(
    dtype: Any, shape: tuple[int, ...]
) -> None:
    values = [NAN, -NAN, 1, -0.0, 0.0, math.inf, -math.inf, -0.0, -2]
    rows = np.repeat(np.array(values, dtype), math.prod(shape)).reshape(-1, *shape)
    assert np.signbit(rows[1]).all()
    tensor = LoDTensor(rows, [[3, 6]])
    for descending, places in (
        (False, [2, 0, 1, *(3, 5, 0, 1, 4, 2)]),
        (True, [0, 1, 2, *(2, 0, 1, 4, 5, 3)]),
    ):
        found = sequence_argsort(tensor, descending=descending).data
        assert found.reshape(len(rows), -1).T.tolist() == [places] * math.prod(shape)


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.uint64, np.bool_])
def test_whole_numbers_are_sorted_from_the_least_to_the_greatest(dtype: Any) -> None:
    least, most = (0, 1) if dtype is np.bool_ else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    rows = np.array([[most, least], [1, 1], [0, 0], [least, most], [1, 0]], dtype)
    found = sequence_sort(LoDTensor(rows, [[4, 1]])).data
    columns = [sorted(column[:4].tolist()) + column[4:].tolist() for column in rows.T]
    assert found.T.tolist() == columns


def test_sorting_by_hand() -> None:
    rows = np.array([[3, 9], [1, 9], [3, 7], [5, 5], [0, 1], [0, 0]], np.uint8)
    tensor = LoDTensor(rows, [[2, 0, 1], [2, 1, 3]])
    found = sequence_sort(tensor, level=0)
    assert found.data.tolist() == [[1, 7], [3, 9], [3, 9], [0, 0], [0, 1], [5, 5]]
    assert found.dtype == np.uint8
    assert found.lod is tensor.lod
    found = sequence_argsort(tensor, level=0)
    assert found.data.tolist() == [[1, 2], [0, 0], [2, 1], [1, 2], [2, 1], [0, 0]]
    assert found.dtype == np.int64
    # Equal values keep their order this way too: 0 before 2, 1 before 2.
    down = sequence_argsort(tensor, level=0, descending=True)
    assert down.data.tolist() == [[0, 0], [2, 1], [1, 2], [0, 0], [1, 1], [2, 2]]
    finest = sequence_sort(tensor)
    assert finest.data[:3].tolist() == [[1, 9], [3, 9], [3, 7]]


def test_a_nan_is_the_greatest() -> None:
    tensor = LoDTensor(np.array([NAN, 1, math.inf, 2]), [[3, 1]])
    assert sequence_argsort(tensor).data.tolist() == [1, 2, 0, 0]
    assert sequence_argsort(tensor, descending=True).data.tolist() == [0, 2, 1, 0]


@settings(deadline=None)
@given(crowded(), st.booleans(), st.data())
def test_sorting_is_that_of_plain_loops(
    drawn: tuple[LoDTensor, int, list[int]], descending: bool, data: st.DataObject
) -> None:
    tensor, level, lengths = drawn
    k: Any = data.draw(
        st.integers(0, 4)
        | st.lists(st.integers(0, 4), min_size=len(lengths), max_size=len(lengths))
    )
    values = flat(tensor.data)
    counts = [k] * len(lengths) if isinstance(k, int) else k
    expected = np.zeros(values.shape, np.int64)
    taken: list[int] = []
    for rows, count in zip(pieces_of(list(range(tensor.rows)), lengths), counts, strict=True):
        for column in range(values.shape[1]):
            expected[rows, column] = sorted_places(list(values[rows, column]), descending)
        taken += rows[:count]
    expected = expected.reshape(tensor.data.shape)
    places = sequence_argsort(tensor, level=level, descending=descending)
    np.testing.assert_array_equal(places.data, expected)
    firsts = [
        lo
        for lo, length in zip(np.cumsum([0, *lengths]), lengths, strict=False)
        for _ in range(length)
    ]
    start = np.array(firsts, np.int64).reshape(-1, *[1] * (tensor.data.ndim - 1))
    ordered = np.take_along_axis(tensor.data, expected + start, axis=0)
    found = sequence_sort(tensor, level=level, descending=descending)
    assert found.dtype == tensor.dtype
    assert found.data.tobytes() == ordered.tobytes()
    best, where = sequence_topk(tensor, k, level=level, largest=descending)
    assert best.data.tobytes() == ordered[taken].tobytes()
    assert best.dtype == tensor.dtype
    np.testing.assert_array_equal(where.data, expected[taken])
    assert where.lod is best.lod
    assert best.lod.levels[:-1] == tensor.lod.levels[:level]
    assert best.lod.lengths(-1).tolist() == [
        min(a, b) for a, b in zip(lengths, counts, strict=True)
    ]


def test_topk_by_hand() -> None:
    tensor = LoDTensor(np.array([4, 8, 8, 1, 5, 6]), [[2, 1], [1, 2, 3]])
    values, places = sequence_topk(tensor, 2)
    assert values.data.tolist() == [4, 8, 8, 6, 5]
    assert places.data.tolist() == [0, 0, 1, 2, 1]
    assert values.recursive_sequence_lengths() == [[2, 1], [1, 2, 2]]
    values, places = sequence_topk(tensor, [1, 0], level=0, largest=False)
    assert (values.data.tolist(), places.data.tolist()) == ([4], [0])
    assert values.recursive_sequence_lengths() == [[1, 0]]


def test_unique_by_hand() -> None:
    tensor = LoDTensor(np.array([[3.0], [NAN], [3], [NAN], [1], [3]]), [[4, 0, 2]])
    values, counts = sequence_unique_counts(tensor)
    np.testing.assert_array_equal(values.data, [[3], [NAN], [1], [3]])
    assert counts.data.tolist() == [[2], [2], [1], [1]]
    assert counts.dtype == np.int64
    assert values.recursive_sequence_lengths() == [[2, 0, 2]]


@settings(deadline=None)
@given(crowded(shapes=COLUMNS))
def test_unique_is_that_of_plain_loops(drawn: tuple[LoDTensor, int, list[int]]) -> None:
    tensor, level, lengths = drawn
    wanted, counts, sizes = [], [], []
    for values in pieces_of(list(flat(tensor.data)[:, 0]), lengths):
        ordered = [values[place] for place in sorted_places(values, False)]
        different = [ordered[place] for place in kept([[value] for value in ordered], False)]
        wanted += different
        counts += [sum(alike([a], [b]) for b in values) for a in different]
        sizes.append(len(different))
    found, number = sequence_unique_counts(tensor, level=level)
    np.testing.assert_array_equal(flat(found.data)[:, 0], wanted)
    assert number.data.reshape(-1).tolist() == counts
    assert found.lod.lengths(-1).tolist() == sizes
    assert found.lod.levels[:-1] == tensor.lod.levels[:level]
    assert found.row_shape == number.row_shape == tensor.row_shape
    assert sequence_unique(tensor, level=level).identical(found)


def test_deduplicating_by_hand() -> None:
    rows = np.array([[1, 2], [1, 2], [2, 1], [1, 2], [1, 2], [1, 2]])
    tensor = LoDTensor(rows, [[1, 2], [2, 2, 2]])
    found = sequence_deduplicate(tensor)
    assert found.data.tolist() == [[1, 2], [2, 1], [1, 2], [1, 2]]
    assert found.recursive_sequence_lengths() == [[1, 2], [1, 2, 1]]
    found = sequence_deduplicate(tensor, level=0, adjacent=False)
    assert found.data.tolist() == [[1, 2], [2, 1], [1, 2]]
    assert found.recursive_sequence_lengths() == [[1, 2], [1, 2, 0]]


@settings(deadline=None)
@given(crowded(DTYPES), st.booleans())
def test_deduplicating_is_that_of_plain_loops(
    drawn: tuple[LoDTensor, int, list[int]], adjacent: bool
) -> None:
    tensor, level, lengths = drawn
    values, left = flat(tensor.data), []
    for rows in pieces_of(list(range(tensor.rows)), lengths):
        left += [rows[at] for at in kept([list(values[row]) for row in rows], adjacent)]
    found = sequence_deduplicate(tensor, level=level, adjacent=adjacent)
    assert found.data.tobytes() == tensor.data[left].tobytes()
    finest = row_lengths(tensor.recursive_sequence_lengths(), tensor.lod.n_levels - 1)
    parts = pieces_of(list(range(tensor.rows)), finest)
    assert found.lod.lengths(-1).tolist() == [sum(r in left for r in part) for part in parts]
    assert found.lod.levels[:-1] == tensor.lod.levels[:-1]


def test_searching_by_hand() -> None:
    tensor = LoDTensor(np.array([1, 3, 3, 2]), [[3, 0, 1]])
    values = LoDTensor(np.array([[3], [4], [7], [2], [1]]), [[2, 1, 2]])
    found = sequence_searchsorted(tensor, values)
    assert found.data.tolist() == [[1], [3], [0], [0], [0]]
    assert found.lod is values.lod
    found = sequence_searchsorted(tensor, values, side="right")
    assert found.data.tolist() == [[3], [3], [0], [1], [0]]


@settings(deadline=None)
@given(crowded(shapes=COLUMNS), st.booleans(), st.data())
def test_searching_is_that_of_plain_loops(
    drawn: tuple[LoDTensor, int, list[int]], right: bool, data: st.DataObject
) -> None:
    tensor, level, lengths = drawn
    count = len(lengths)
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    seed = data.draw(st.integers(0, 2**32 - 1))
    chosen = np.random.default_rng(seed).integers(0, 5, sum(sizes)).astype(tensor.dtype)
    # The values' own level has to have the same number; those above need not agree.
    above = [[1] * count] * level
    values = LoDTensor(chosen, [*above, sizes])
    ordered = sequence_sort(tensor, level=level)
    inside = pieces_of(list(flat(ordered.data)[:, 0]), lengths)
    wanted = [
        place_of(value, here, right)
        for here, part in zip(inside, pieces_of(list(flat(chosen)[:, 0]), sizes), strict=True)
        for value in part
    ]
    side: Any = "right" if right else "left"
    found = sequence_searchsorted(ordered, values, level=level, side=side)
    assert found.data.tolist() == wanted
    assert found.dtype == np.int64


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_histogram_of_a_signalling_nan_has_no_warning(dtype: str, backend: Any) -> None:
    bits = {"float16": 0x7D00, "float32": 0x7F800001}[dtype]
    rows = np.array([bits, 0], f"u{np.dtype(dtype).itemsize}").view(dtype)
    found = sequence_histogram(LoDTensor(rows, [[2]]), [0, 1], backend=backend)
    assert found.data.tolist() == [[1]]


def test_a_histogram_by_hand() -> None:
    tensor = LoDTensor(np.array([0, 1, 1.5, 3, NAN, -1, 3.5, 1]), [[2, 1], [7, 0, 1]])
    found = sequence_histogram(tensor, [0, 1, 3])
    assert found.data.tolist() == [[1, 3], [0, 0], [0, 1]]
    assert found.dtype == np.int64
    assert found.recursive_sequence_lengths() == [[2, 1]]
    assert sequence_histogram(tensor, [0, 1, 3], level=0).data.tolist() == [[1, 3], [0, 1]]


@pytest.mark.parametrize(
    ("values", "edges", "expected"),
    [
        (np.array([2**53 + 1], np.uint64), [0, 2**53 + 1, 2**60], [0, 1]),
        (np.array([2**63 - 1, 2**53 + 1]), [0.0, 2.0**53, 2.0**53 + 2, 2.0**63], [0, 1, 1]),
        (np.array([-1, 0, 2**63 - 1]), [-0.5, 0.5, 0.75, np.inf], [1, 0, 1]),
        (np.array([0, 2**64 - 1], np.uint64), [-(2**63), -1, 1], [0, 1]),
        (np.array([0, 5], np.uint64), [-(2.0**64), -1.0], [0]),
        (np.array([255], np.uint8), [254.5, 255.5, 2.0**54], [1, 0]),
    ],
)
def test_a_histogram_does_not_round_whole_numbers(
    values: Array, edges: list[float], expected: list[int]
) -> None:
    found = sequence_histogram(LoDTensor(values, [[len(values), 0]]), edges)
    assert found.data.tolist() == [expected, [0] * len(expected)]


@settings(deadline=None)
@given(crowded(shapes=COLUMNS), st.sets(st.sampled_from([-1.5, 0, 0.5, 1, 2, 3, 9]), min_size=2))
def test_a_histogram_is_that_of_plain_loops(
    drawn: tuple[LoDTensor, int, list[int]], cuts: set[float]
) -> None:
    tensor, level, lengths = drawn
    edges = sorted(cuts)
    wanted = [bins(part, edges) for part in pieces_of(list(flat(tensor.data)[:, 0]), lengths)]
    found = sequence_histogram(tensor, edges, level=level).data
    assert found.shape == (len(lengths), len(edges) - 1)
    assert found.tolist() == wanted


def test_values_without_an_order_and_tensors_that_do_not_fit_are_refused() -> None:
    numbers = LoDTensor(np.array([1, 2, 5, 4]), [[2, 2]])
    wide = LoDTensor(np.zeros((2, 3)), [[2]])
    for op in (sequence_sort, sequence_argsort, sequence_unique):
        with pytest.raises(InvalidDataError, match=rf"{op.__name__}: complex128 has no order"):
            op(LoDTensor(np.zeros(2, complex), [[2]]))
        with pytest.raises(SelectionError, match=rf"{op.__name__}: the tensor has no levels"):
            op(LoDTensor(np.zeros(2)))
    with pytest.raises(SelectionError, match="no level 1"):
        sequence_deduplicate(numbers, level=1)
    with pytest.raises(InvalidDataError, match="sequence_unique needs one value per row"):
        sequence_unique(wide)
    with pytest.raises(InvalidDataError, match="sequence_histogram needs one value per row"):
        sequence_histogram(wide, [0, 1])
    with pytest.raises(InvalidDataError, match="k must be at least 0, found -1"):
        sequence_topk(numbers, -1)
    with pytest.raises(InvalidDataError, match="k must be whole numbers, found float64"):
        sequence_topk(numbers, 1.5)
    with pytest.raises(InvalidDataError, match=f"k: {2**70} is out of range: no array is as long"):
        sequence_topk(numbers, [1, 2**70])
    with pytest.raises(InvalidDataError, match=rf"k: {-(2**70)} is out of range$"):
        sequence_topk(numbers, -(2**70))
    not_whole: list[Any] = [[None, 2**70], np.array([1, 2], object), [1.5, 2**70]]
    for wrong in not_whole:
        with pytest.raises(InvalidDataError, match="k must be whole numbers, found "):
            sequence_topk(numbers, wrong)
    with pytest.raises(ShapeMismatchError, match="k must be one number for each of 2"):
        sequence_topk(numbers, [1, 2, 3])


def test_edges_and_sorted_sequences_are_checked() -> None:
    numbers = LoDTensor(np.array([1, 2, 5, 4]), [[2, 2]])
    with pytest.raises(InvalidDataError, match="edges must ascend, found 2 and then 2 at 2"):
        sequence_histogram(numbers, [1, 2, 2])
    with pytest.raises(InvalidDataError, match=r"edges must ascend, found 0\.0 and then nan at 1"):
        sequence_histogram(numbers, [0, NAN])
    with pytest.raises(InvalidDataError, match="edges must be real numbers, found complex128"):
        sequence_histogram(numbers, [0, 1j])
    with pytest.raises(InvalidDataError, match="expected 2 or more edges"):
        sequence_histogram(numbers, [1])
    with pytest.raises(InvalidDataError, match="sequence 1 is not sorted: 5 and then 4 at its row"):
        sequence_searchsorted(numbers, numbers)
    good = sequence_sort(numbers)
    with pytest.raises(InvalidDataError, match="sorted values of int64, values of float64"):
        sequence_searchsorted(good, LoDTensor(np.zeros(2), [[1, 1]]))
    with pytest.raises(ShapeMismatchError, match="2 sorted sequences, 1 sequences of values"):
        sequence_searchsorted(good, LoDTensor(np.zeros(2, np.int64), [[2]]))
    with pytest.raises(InvalidDataError, match="side must be"):
        sequence_searchsorted(good, good, side="middle")  # type: ignore[arg-type]
    nan_first = LoDTensor(np.array([NAN, 1]), [[2]])
    with pytest.raises(InvalidDataError, match=r"not sorted: nan and then 1\.0"):
        sequence_searchsorted(nan_first, nan_first)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint64])
def test_the_first_value_out_of_order_is_named(dtype: Any) -> None:
    rows, size = 200_000, 50
    values = np.tile(np.arange(size), rows // size).astype(dtype)
    good = LoDTensor(values, [[size] * (rows // size)])
    sequence_searchsorted(good, good)
    for wrong in (rows - 1, rows // 2 + 7, 2):  # ever earlier
        values[wrong] = 0
        bad = LoDTensor(values, good.lod)
        where = f"sequence {wrong // size} is not sorted: .* at its row {wrong % size}; "
        with pytest.raises(InvalidDataError, match=where):
            sequence_searchsorted(bad, bad)


@pytest.mark.parametrize("length", [31, 32, 63, 64, 65, 128, 129, 257, 700])
@pytest.mark.parametrize("descending", [False, True])
def test_long_sequences_are_in_order_however_many_values_are_equal(
    length: int, descending: bool
) -> None:
    random = np.random.default_rng(length)
    sign = -1 if descending else 1
    for distinct in (2, 40, 10**6):
        rows = random.integers(-distinct, distinct, (length + 3, 2)).astype(np.float64)
        rows[random.random(rows.shape) < 0.1] = -0.0
        rows[random.random(rows.shape) < 0.05] = -np.inf
        tensor = LoDTensor(rows, [[2, length, 1]])
        found = sequence_argsort(tensor, descending=descending).data[2:-1]
        # Stable, as Python's sort is; -0.0 equals 0.0.
        for column, places in zip(rows[2:-1].T, found.T, strict=True):
            assert places.tolist() == sorted(range(length), key=lambda row: sign * column[row])
        for k in (1, 2, 7, 8, 32, 33):
            values, first = sequence_topk(tensor, k, largest=descending)
            kept = slice(min(k, 2), -1)
            np.testing.assert_array_equal(first.data[kept], found[:k])
            wanted = np.take_along_axis(rows[2:-1], found[:k], axis=0)
            np.testing.assert_array_equal(values.data[kept], wanted)
