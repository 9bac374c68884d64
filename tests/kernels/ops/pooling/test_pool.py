"""Pooling against PaddlePaddle 2.6.2, plain loops, and by hand, on every backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.pooling import pool, pool_grad
from lodcli.kernels.runtime.dispatch import Backend, on
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, Array, close, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase
from tests.kernels.ops.walled import walled
from tests.oracles_ops import by_column, extreme, row_lengths
from tests.slow import compiled_for, slow
from tests.strategies import BFLOAT16, DTYPES, FLOATS, tensors

KINDS = {
    "SUM": (pool.sequence_sum, pool_grad.sequence_sum_grad),
    "AVERAGE": (pool.sequence_mean, pool_grad.sequence_mean_grad),
    "SQRT": (pool.sequence_sqrt, pool_grad.sequence_sqrt_grad),
    "FIRST": (pool.sequence_first, pool_grad.sequence_first_grad),
    "LAST": (pool.sequence_last, pool_grad.sequence_last_grad),
}
OTHERS = tuple(np.dtype(name) for name in ("float16", "bool", "int16", "complex64"))
some_dtypes = pytest.mark.parametrize("dtypes", [FLOATS, slow(OTHERS)], ids=["floats", "others"])


@on_every_backend
@golden("sequence_pool")
def test_golden(case: GoldenCase, backend: Backend) -> None:
    x, pad, out = case.tensor("X"), case.attrs["pad_value"], case.outputs["Out"]
    kind = case.attrs["pooltype"]
    if kind == "MAX":
        found, index = pool.sequence_max_index(x, pad_value=pad, backend=backend)
        alone = pool.sequence_max(x, pad_value=pad, backend=backend)
        np.testing.assert_array_equal(alone.data, found.data)
        if "MaxIndex" in case.outputs:
            np.testing.assert_array_equal(index.data, case.outputs["MaxIndex"].data)
        if case.upstream:
            for taken in (None, index, index.data):
                gradient = pool_grad.sequence_max_grad(
                    case.upstream["Out"].data, x, index=taken, backend=backend
                )
                close(gradient.data, case.grads["X"].data)
    else:
        forward, backward = KINDS[kind]
        found = forward(x, pad_value=pad, backend=backend)
        if case.upstream:
            upstream = case.upstream["Out"].data
            close(backward(upstream, x, backend=backend).data, case.grads["X"].data)
    close(found.data, out.data)
    assert found.lod == LoD(out.lod)


@on_every_backend
@golden_rejects("sequence_pool")
def test_golden_rejects(case: GoldenCase, backend: Backend) -> None:
    x = case.tensor("X")
    if case.note == "reject":
        with pytest.raises(SelectionError, match="no levels"):
            pool.sequence_sum(x, backend=backend)
        return
    found = pool.sequence_sum(x, pad_value=2, backend=backend)
    lengths = x.recursive_sequence_lengths()
    assert found.recursive_sequence_lengths() == lengths[:-1]
    np.testing.assert_array_equal(found.data, by_column(x.data, lengths[-1], sum, 2))


@on_every_backend
def test_sum_of_an_empty_sequence_is_zero_or_the_pad_value(backend: Backend) -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    tensor = LoDTensor(rows, LoD.from_lengths([[2, 0, 1]]))
    found = pool.sequence_sum(tensor, backend=backend)
    np.testing.assert_array_equal(found.data, [[4, 6], [0, 0], [5, 6]])  # by hand
    found = pool.sequence_mean(tensor, pad_value=-1, backend=backend)
    np.testing.assert_array_equal(found.data, [[2, 3], [-1, -1], [5, 6]])


@on_every_backend
def test_an_upper_level_pools_all_the_rows_below_it(backend: Backend) -> None:
    words = LoDTensor(np.arange(15.0), LoD([[0, 3, 4, 6], [0, 3, 5, 9, 10, 12, 15]], ["a", "s"]))
    found = pool.sequence_sum(words, level="a", backend=backend)
    np.testing.assert_array_equal(found.data, [36, 9, 60])  # 0..8, 9, 10..14
    assert found.lod.n_levels == 0
    sentences = pool.sequence_last(words, backend=backend)
    assert sentences.data.tolist() == [2, 4, 8, 9, 11, 14]
    assert sentences.lod == LoD([[0, 3, 4, 6]], ["a"])


@on_every_backend
def test_nan_stays_from_the_first_row_and_is_passed_over_in_others(backend: Backend) -> None:
    nan = math.nan
    rows = np.array([[nan, 1.0], [2.0, nan], [3.0, 0.0], [-math.inf, nan], [nan, -math.inf]])
    tensor = LoDTensor(rows, [[3, 2]])
    value, index = pool.sequence_max_index(tensor, backend=backend)
    np.testing.assert_array_equal(value.data, [[nan, 1], [-math.inf, nan]])
    np.testing.assert_array_equal(index.data, [[0, 0], [3, 3]])
    value, index = pool.sequence_min_index(tensor, backend=backend)
    np.testing.assert_array_equal(value.data, [[nan, 0], [-math.inf, nan]])
    np.testing.assert_array_equal(index.data, [[0, 2], [3, 3]])


# Arithmetic with a signalling NaN raises a floating-point exception.
SIGNALLING = {
    "float16": 0x7D00,
    "bfloat16": 0x7F81,
    "float32": 0x7F800001,
    "float64": 0x7FF0000000000001,
}


@on_every_backend
@pytest.mark.parametrize("name", ["max", "min", "max_index", "min_index", "sum", "mean", "sqrt"])
@pytest.mark.parametrize("dtype", SIGNALLING)
def test_a_signalling_nan_gives_no_warning(dtype: str, name: str, backend: Backend) -> None:
    kind = np.dtype(BFLOAT16 if dtype == "bfloat16" else dtype)
    nan = SIGNALLING[dtype]
    rows = np.array([0, nan, 0, nan, nan, 0], f"u{kind.itemsize}").view(kind).reshape(3, 2)
    found = getattr(pool, f"sequence_{name}")(LoDTensor(rows, [[3]]), backend=backend)
    values = (found[0] if isinstance(found, tuple) else found).data
    with np.errstate(invalid="ignore"):
        assert np.isnan(values).tolist() == [[name in ("sum", "mean", "sqrt"), True]]


def test_of_zeros_of_both_signs_the_first_is_the_extreme() -> None:
    rows = np.array([[0.0, -0.0], [-0.0, 0.0], [0.0, -1.0], [-0.0, -0.0], [0.0, 0.0]])
    tensor = LoDTensor(rows, [[3, 2]])
    for found in (
        pool.sequence_max(tensor, backend="numpy"),
        pool.sequence_max_index(tensor, backend="numpy")[0],
    ):
        assert np.signbit(found.data).tolist() == [[False, True], [True, True]]
    least = pool.sequence_min(tensor, backend="numpy")
    np.testing.assert_array_equal(least.data, [[0, -1], [0, 0]])
    assert np.signbit(least.data).tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize(
    ("dtype", "backend"), compiled_for(["int8"], ["uint8", "int8", "bool"], BACKENDS)
)
def test_integers_do_not_overflow_their_dtype(dtype: str, backend: Backend) -> None:
    ones = LoDTensor(np.full(1000, True if dtype == "bool" else 100, dtype), [[1000]])
    found = pool.sequence_sum(ones, backend=backend)
    assert found.dtype == ("uint64" if dtype == "uint8" else "int64")
    assert found.data.tolist() == [1000 * int(ones.data[0])]
    assert pool.sequence_mean(ones, backend=backend).data.tolist() == [float(ones.data[0])]


@on_every_backend
def test_means_of_whole_numbers_are_sums_over_lengths(backend: Backend) -> None:
    high = np.array([[2**63, 3], [2**62, 4], [7, 2**53 + 1]], np.uint64)  # as int64 below 0
    tensor = LoDTensor(high, [[2, 0, 1]])
    total = float(2**63 + 2**62)
    means = pool.sequence_mean(tensor, pad_value=-1, backend=backend)
    assert means.data.tolist() == [[total / 2, 3.5], [-1, -1], [7, float(2**53 + 1)]]
    roots = pool.sequence_sqrt(tensor, backend=backend)
    assert roots.data.tolist()[0] == [total / math.sqrt(2), 7 / math.sqrt(2)]
    low = pool.sequence_mean(LoDTensor(np.array([-7, 2, 1]), [[3]]), backend=backend)
    assert low.data.tolist() == [-4 / 3]


@on_every_backend
@pytest.mark.parametrize("rows", [2, 200])
def test_sums_of_whole_numbers_wrap_at_64_bits(rows: int, backend: Backend) -> None:
    far = LoDTensor(np.full(rows, 2**63 - 1), [[rows]])
    assert pool.sequence_sum(far, backend=backend).data.tolist() == [-rows]


@on_every_backend
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_means_do_not_wrap_where_the_sum_exceeds_64_bits(dtype: str, backend: Backend) -> None:
    far = np.array([2**62, 2**62 + 2048, 2**62, 2**62, 2**62, 5], dtype)  # such as times in ns
    total = 5 * 2**62 + 2048
    tensor = LoDTensor(far, [[5, 0, 1]])
    means = pool.sequence_mean(tensor, pad_value=-1, backend=backend)
    assert means.data.tolist() == [total / 5, -1, 5]
    roots = pool.sequence_sqrt(tensor, backend=backend)
    assert roots.data.tolist()[0] == total / math.sqrt(5)
    if dtype == "int64":
        low = pool.sequence_mean(LoDTensor(-far, [[5, 1]]), backend=backend)
        assert low.data.tolist() == [-total / 5, -5]


@on_every_backend
@pytest.mark.parametrize("dtype", ["int8", "int16", "uint16", "uint32"])
@pytest.mark.parametrize("width", [1, 2, 3, 8, 13, 40, 100])
def test_sums_of_extreme_integers_are_exact(width: int, dtype: str, backend: Backend) -> None:
    limits = np.iinfo(dtype)
    kinds, lengths = [limits.min, limits.max, 0, 1, limits.max - 1], [1, 0, 2, 7, 300, 16, 0, 9]
    generator = np.random.default_rng(width)
    rows = np.array(kinds, dtype)[generator.integers(0, len(kinds), (sum(lengths), width))]
    parts = np.split(rows.astype(np.int64), np.cumsum(lengths)[:-1])
    wanted = np.array([part.sum(axis=0) if len(part) else np.full(width, 7) for part in parts])
    found = pool.sequence_sum(LoDTensor(rows, [lengths]), pad_value=7, backend=backend)
    assert found.data.tolist() == wanted.tolist()


@on_every_backend
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@pytest.mark.parametrize("width", [1, 2, 3, 5, 8, 13, 40, 100])
def test_means_of_extreme_integers_are_those_of_exact_sums(
    width: int, dtype: str, backend: Backend
) -> None:
    limits = np.iinfo(dtype)
    kinds = [limits.min, limits.max, 0, 1, limits.max - 1, 2**31, 2**32 - 1, 2**53 + 1]
    lengths = [1, 0, 2, 7, 300, 16, 0, 3]
    generator = np.random.default_rng(width)
    rows = np.array(kinds, dtype)[generator.integers(0, len(kinds), (sum(lengths), width))]
    rows[:1], rows[1:3], rows[3:10] = limits.min, limits.max, 2**62
    tensor = LoDTensor(rows, [lengths])
    parts = np.split(rows.astype(object), np.cumsum(lengths)[:-1])
    sums = np.array([part.sum(axis=0) + np.zeros(width) for part in parts], np.float64)
    counts = np.maximum(1, lengths)[:, None]
    means, roots = (
        op(tensor, backend=backend).data for op in (pool.sequence_mean, pool.sequence_sqrt)
    )
    # A GPU adds them in double precision.
    bound = np.finfo(float).eps * float(limits.max) * 300 * (backend == "cupy")
    np.testing.assert_allclose(means, sums / counts, rtol=0, atol=bound)
    np.testing.assert_allclose(roots, sums / np.sqrt(counts), rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("dtype", "backend"), compiled_for([], [np.dtype(np.float16), BFLOAT16], BACKENDS), ids=str
)
def test_halves_are_summed_in_more_than_half_precision(
    dtype: np.dtype[Any], backend: Backend
) -> None:
    # Added one by one in float16 the sum would stop at 2048, in bfloat16 at 256.
    ones = LoDTensor(np.ones((4096, 1), dtype), [[4096]])
    assert pool.sequence_sum(ones, backend=backend).data.astype(float).tolist() == [[4096.0]]
    assert pool.sequence_sum(ones, backend=backend).dtype == dtype


@pytest.mark.parametrize("width", [1, 2, 17, 48, 63, 64, 100, 200, 300, 500])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_long_segment_and_many_short_ones_are_summed_as_exactly(width: int, dtype: Any) -> None:
    from lodcli.kernels.ops.pooling import pool_native as twin

    generator = np.random.default_rng(3)
    longest, long = (15_013, 4_999) if width < 300 else (7_013, 1_999)
    lengths = [0, longest, 0, 0, *generator.integers(0, 40, 300).tolist(), long, 0]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = (generator.random((offsets[-1], width)) + 0.5).astype(dtype)
    expected = pool.segment_sum(data.astype(np.float64), offsets)
    limit = 4e-6 if dtype == np.float32 else 1e-12  # golden/README.md
    np.testing.assert_allclose(twin.segment_sum(data, offsets), expected, rtol=limit)
    for name in ("segment_max_index", "segment_min_index"):
        values, index = getattr(twin, name)(data, offsets)
        reference = getattr(pool, name)(data, offsets)
        np.testing.assert_array_equal(values, reference[0])
        np.testing.assert_array_equal(index, reference[1])
        np.testing.assert_array_equal(
            getattr(twin, name.removesuffix("_index"))(data, offsets), values
        )


@pytest.mark.parametrize("width", [65, 150, 257, 300, 385, 600])
def test_wide_rows_are_added_one_after_another_in_pieces(width: int) -> None:
    """On every processor, however many registers it has: decision 0022."""
    from lodcli.kernels.ops.pooling import pool_native as twin

    data = np.random.default_rng(5).normal(size=(601, width)).astype(np.float32)
    piece = min(256, 131_072 // width)
    expected = np.zeros(width, np.float32)
    for lo in range(1, len(data), piece):
        total = np.zeros(width, np.float32)
        for row in data[lo : lo + piece]:
            total += row
        expected += total
    found = twin.segment_sum(data, np.array([0, 1, 601]))
    np.testing.assert_array_equal(found, [data[0], expected])


@pytest.mark.parametrize("width", [385, 600, 1023])
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.float32, np.float64])
def test_extremes_of_wide_rows_in_pieces(dtype: Any, width: int) -> None:
    from lodcli.kernels.ops.pooling import pool_native as twin

    generator = np.random.default_rng(8)
    # Of few values, so that many rows hold the greatest; of floats some are NaN.
    data = generator.integers(0, 9, (601, width)).astype(dtype)
    if data.dtype.kind == "f":
        data[generator.random(data.shape) < 0.01] = np.nan
        data[300:302] = -np.inf
    offsets = np.array([0, 1, 1, 300, 302, 601])
    for name in ("segment_max_index", "segment_min_index"):
        expected = getattr(pool, name)(data, offsets, pad_value=3)
        for found, wanted in zip(
            getattr(twin, name)(data, offsets, pad_value=3), expected, strict=True
        ):
            np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(
            getattr(twin, name.removesuffix("_index"))(data, offsets, pad_value=3), expected[0]
        )


@pytest.mark.parametrize("width", [*range(1, 20), 31, 33, 63, 65, 70, 200])
def test_first_and_last_of_rows_of_any_width_that_lie_apart(width: int) -> None:
    from lodcli.kernels.ops.pooling import pool_native as twin

    lengths = np.random.default_rng(6).integers(0, 900, 200)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = np.random.default_rng(7).integers(0, 256, (offsets[-1], width)).astype(np.uint8)
    for name in ("segment_first", "segment_last"):
        expected = getattr(pool, name)(data, offsets, pad_value=9)
        np.testing.assert_array_equal(getattr(twin, name)(data, offsets, pad_value=9), expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", ["sum", "max", "max_index", "first", "last"])
def test_nothing_beside_the_rows_is_read(name: str, dtype: str) -> None:
    from lodcli.kernels.ops.pooling import pool_native as twin

    memory = walled()
    for width in (*range(1, 37), 48, 63, 65, 100):
        size = width * np.dtype(dtype).itemsize
        for count in (1, 2, 3, 4, 5, 8, 9):
            # Up to the last byte of the memory, and from the first one on.
            for part in (memory[-count * size :], memory[: count * size]):
                rows = part.view(dtype).reshape(count, width)
                found = getattr(twin, f"segment_{name}")(rows, np.array([0, count // 2, count]))
                expected = getattr(pool, f"segment_{name}")(rows, np.array([0, count // 2, count]))
                np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("width", [1, 5, 100, 500])
@pytest.mark.parametrize(
    "name", ["segment_sum", "segment_mean", "segment_sqrt", "segment_max", "segment_min_index"]
)
def test_neither_threads_nor_other_segments_change_a_bit(
    name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.ops.pooling import pool_native as twin

    generator = np.random.default_rng(4)
    pieces = 131_072 // width  # rows that are reduced at once
    lengths = [
        *(7, 0, 4 * pieces + 9, 0, 0, 2 * pieces),
        *generator.integers(0, pieces // 64, 300).tolist(),
        *(pieces, 0),
    ]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = generator.normal(size=(offsets[-1], width)).astype(np.float32)

    def reduced(lo: int, hi: int, part: Array) -> Array:
        found = getattr(twin, name)(data[lo:hi], part)
        return np.asarray(found[0] if isinstance(found, tuple) else found)

    alone = [
        reduced(lo, hi, np.array([0, hi - lo]))
        for lo, hi in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    ]
    for threads in (1, 2, 5):
        monkeypatch.setenv("LOD_THREADS", str(threads))
        found = reduced(0, int(offsets[-1]), offsets)
        np.testing.assert_array_equal(found, np.concatenate(alone))


@pytest.mark.parametrize(("dtype", "backend"), compiled_for(FLOATS, DTYPES, BACKENDS), ids=str)
def test_every_dtype_goes_through_every_op(dtype: np.dtype[Any], backend: Backend) -> None:
    tensor = LoDTensor(np.array([[1, 0], [0, 1], [1, 1]]).astype(dtype), [[0, 2, 1]])
    assert pool.sequence_sum(tensor, backend=backend).data.tolist() == [[0, 0], [1, 1], [1, 1]]
    assert pool.sequence_mean(tensor, backend=backend).data.tolist()[1] == [0.5, 0.5]
    assert pool.sequence_first(tensor, backend=backend).data.tolist()[1] == [1, 0]
    assert pool.sequence_last(tensor, backend=backend).dtype == dtype
    if dtype.kind == "c":
        with pytest.raises(InvalidDataError, match="no order"):
            pool.sequence_max(tensor, backend=backend)
    else:
        assert pool.sequence_min(tensor, backend=backend).data.tolist()[1] == [0, 0]
        value, index = pool.sequence_max_index(tensor, backend=backend)
        assert value.dtype == dtype
        assert index.data.tolist() == [[-1, -1], [0, 1], [2, 2]]


@some_dtypes
@settings(deadline=None)
@given(data=st.data())
def test_sums_are_those_of_plain_loops(dtypes: tuple[np.dtype[Any]], data: st.DataObject) -> None:
    tensor = data.draw(tensors(dtypes, min_levels=1))
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    lengths = row_lengths(tensor.recursive_sequence_lengths(), level)
    wide = tensor.data.astype(np.complex128)
    limit = 1e-2 if is_half(tensor.dtype) else 1e-5
    for backend in BACKENDS:
        for name, function in (
            ("sum", sum),
            ("mean", lambda values: sum(values) / len(values)),
            ("sqrt", lambda values: sum(values) / math.sqrt(len(values))),
            ("first", lambda values: values[0]),
            ("last", lambda values: values[-1]),
        ):
            found = getattr(pool, f"sequence_{name}")(
                tensor, level=level, pad_value=1, backend=backend
            )
            expected = by_column(wide, lengths, function, 1)
            assert found.lod == tensor.lod.above(level)
            np.testing.assert_allclose(
                found.data.astype(np.complex128), expected, rtol=limit, atol=limit
            )


@some_dtypes
@settings(deadline=None)
@given(data=st.data())
def test_extremes_are_those_of_plain_loops(
    dtypes: tuple[np.dtype[Any]], data: st.DataObject
) -> None:
    ordered = tuple(dtype for dtype in dtypes if dtype.kind != "c")
    tensor = data.draw(tensors(ordered, min_levels=1, any_bits=True))
    lengths = tensor.recursive_sequence_lengths()[-1]
    starts = np.cumsum([0, *lengths])[:-1].reshape(-1, *[1] * (tensor.data.ndim - 1))
    for sign, name in ((1, "max"), (-1, "min")):

        def place(values: list[Any], sign: int = sign) -> int:
            return extreme(values, sign)

        def value_at(values: list[Any], sign: int = sign) -> Any:
            return values[extreme(values, sign)]

        places = by_column(tensor.data, lengths, place, -1).astype(np.int64)
        expected = by_column(tensor.data, lengths, value_at, 1)
        for backend in BACKENDS:
            value, index = getattr(pool, f"sequence_{name}_index")(
                tensor, pad_value=1, backend=backend
            )
            np.testing.assert_array_equal(index.data, np.where(places < 0, -1, places + starts))
            np.testing.assert_array_equal(value.data, expected.astype(tensor.dtype))
            alone = getattr(pool, f"sequence_{name}")(tensor, pad_value=1, backend=backend)
            np.testing.assert_array_equal(alone.data, value.data)


@on_every_backend
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "complex64"])
def test_shares_of_an_upstream_gradient_are_quotients_in_float64(
    dtype: str, shape: tuple[int, ...], backend: Backend
) -> None:
    flow = (np.random.default_rng(4).normal(size=(4, *shape)) * 9).astype(dtype)
    offsets = np.array([0, 3, 3, 10, 11])
    for flows in (flow, np.repeat(flow, 2, axis=0)[::2]):
        for gradient, by in (
            (pool_grad.segment_mean_grad, (3.0, 7.0, 1.0)),
            (pool_grad.segment_sqrt_grad, (math.sqrt(3), math.sqrt(7), 1.0)),
        ):
            found = on(backend, gradient)(flows, offsets)
            assert found.dtype == ("float64" if dtype == "int32" else dtype)
            wide = flow.astype("float32") if dtype == "float16" else flow
            each = [wide[s] / np.float64(n) for s, n in zip((0, 2, 3), by, strict=True)]
            expected = np.repeat(np.stack(each), [3, 7, 1], axis=0).astype(found.dtype)
            if backend == "cupy":  # which divides float32 by roots in float32
                np.testing.assert_allclose(found, expected, rtol=2 * np.finfo(found.dtype).eps)
            else:
                assert found.tobytes() == expected.tobytes()


@on_every_backend
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,)])
@pytest.mark.parametrize("index_dtype", ["int64", "int16"])
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex64", "complex128"])
def test_values_go_to_the_rows_named_for_them_and_nowhere_for_none(
    dtype: str, index_dtype: str, shape: tuple[int, ...], backend: Backend
) -> None:
    random = np.random.default_rng(5)
    flow = (random.normal(size=(4, *shape)) * 9).astype(dtype)
    # Each segment has indices of its own rows; -1 is no row.
    index = np.stack([random.integers(3 * s, 3 * s + 3, shape) for s in range(4)])
    index[2] = -1
    index = index.astype(index_dtype)
    expected = np.zeros((13, *shape), dtype)
    for s, *column in np.ndindex(flow.shape):
        if index[(s, *column)] >= 0:
            expected[(index[(s, *column)], *column)] = flow[(s, *column)]
    found = on(backend, pool_grad.segment_max_grad)(flow, index, 13)
    assert found.dtype == dtype
    assert found.tobytes() == expected.tobytes()
    found = on(backend, pool_grad.segment_taken_grad)(flow, index, np.array([0, 3, 6, 9, 13]))
    assert found.tobytes() == expected.tobytes()


def test_a_gradient_that_does_not_fit_is_refused() -> None:
    tensor = LoDTensor(np.zeros(3), [[2, 1]])
    with pytest.raises(ShapeMismatchError, match=r"sum_grad: .* shape \(2,\), found \(3,\)"):
        pool_grad.sequence_sum_grad(np.zeros(3), tensor)
    with pytest.raises(ShapeMismatchError, match="outside 0 to 2"):
        pool_grad.sequence_max_grad(np.zeros(2), tensor, index=np.array([0, 3]))
    with pytest.raises(ShapeMismatchError, match=r"index: expected shape \(2,\), found \(1,\)"):
        pool_grad.sequence_max_grad(np.zeros(2), tensor, index=np.array([0]))


def test_a_pad_value_that_integers_cannot_hold_is_refused() -> None:
    words = LoDTensor(np.zeros(3, np.uint8), [[3]])
    with pytest.raises(InvalidDataError, match="uint8 cannot hold the pad_value -1"):
        pool.sequence_first(words, pad_value=-1)
    with pytest.raises(InvalidDataError, match=f"uint8 cannot hold the pad_value {10**30}"):
        pool.sequence_first(words, pad_value=10**30)
    assert not is_float(np.dtype(np.uint8))


@on_every_backend
def test_an_infinite_part_of_a_complex_number_is_divided_alone(backend: Backend) -> None:
    tensor = LoDTensor(np.array([1 + 1j, math.inf, 2 - 1j]), [[1, 0, 2]])
    means = pool.sequence_mean(tensor, backend=backend).data
    np.testing.assert_array_equal(means, [1 + 1j, 0, complex(math.inf, -0.5)])
    scaled = pool.sequence_sqrt(tensor, backend=backend).data
    np.testing.assert_array_equal(scaled, [1 + 1j, 0, complex(math.inf, -1 / math.sqrt(2))])
