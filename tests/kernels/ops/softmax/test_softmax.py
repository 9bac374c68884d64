"""Softmax against PaddlePaddle 2.6.2, plain loops, and by hand, on every backend."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.softmax.softmax import (
    sequence_log_softmax,
    sequence_log_softmax_grad,
    sequence_softmax,
    sequence_softmax_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, close, golden, golden_rejects, on_every_backend
from tests.golden_data import GoldenCase, tensor_of
from tests.oracles_ops import pieces_of, row_lengths, softmax
from tests.strategies import BFLOAT16, tensors

FLOATS = (*(np.dtype(name) for name in ("float16", "float32", "float64")), BFLOAT16)


@on_every_backend
@golden("sequence_softmax")
def test_golden(case: GoldenCase, backend: Backend) -> None:
    x = case.tensor("X")
    found = sequence_softmax(x, backend=backend)
    assert found.lod is x.lod
    close(found.data, case.outputs["Out"].data)
    upstream = tensor_of(case.upstream["Out"])
    for result in (None, found, found.data):
        gradient = sequence_softmax_grad(upstream, x, result=result, backend=backend)
        close(gradient.data, case.grads["X"].data)


@on_every_backend
@golden_rejects("sequence_softmax")
def test_golden_rejects(case: GoldenCase, backend: Backend) -> None:
    x = case.tensor("X")
    if case.note == "reject":
        with pytest.raises(SelectionError, match="no levels"):
            sequence_softmax(x, backend=backend)
    else:
        found = sequence_softmax(x, backend=backend).data
        assert np.isfinite(found).all()
        sums = np.add.reduceat(found, x.lod.levels[-1][:-1], axis=0)
        np.testing.assert_allclose(sums, 1, rtol=1e-6)


@on_every_backend
def test_large_numbers_and_infinities_do_not_overflow(backend: Backend) -> None:
    rows = np.array([1000.0, 1001.0, -math.inf, 3.0], np.float32)
    found = sequence_softmax(LoDTensor(rows, [[3, 1]]), backend=backend).data
    e = 1 / (1 + math.e)  # by hand
    np.testing.assert_allclose(found, [e, 1 - e, 0, 1], rtol=1e-6)
    logs = sequence_log_softmax(LoDTensor(rows[[0, 1, 3]], [[2, 1]]), backend=backend).data
    np.testing.assert_allclose(logs, [math.log(e), math.log(1 - e), 0], rtol=1e-6)


@on_every_backend
def test_a_nan_spoils_its_own_column_of_its_own_sequence(backend: Backend) -> None:
    rows = np.zeros((4, 2))
    rows[1, 0] = math.nan
    found = sequence_softmax(LoDTensor(rows, [[2, 2]]), backend=backend).data
    assert np.isnan(found).tolist() == [[True, False], [True, False], [False] * 2, [False] * 2]


@settings(deadline=None)
@given(tensors(FLOATS, min_levels=1), st.data())
def test_softmax_is_that_of_plain_loops(tensor: LoDTensor, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    lengths = row_lengths(tensor.recursive_sequence_lengths(), level)
    flat = tensor.data.astype(float).reshape(tensor.rows, math.prod(tensor.row_shape))
    expected = np.zeros(flat.shape)
    for rows in pieces_of(list(range(tensor.rows)), lengths):
        for column in range(flat.shape[1]) if rows else ():
            expected[rows, column] = softmax([flat[row, column] for row in rows])
    limit = 1e-2 if is_half(tensor.dtype) else 4e-6
    for backend in BACKENDS:
        found = sequence_softmax(tensor, level=level, backend=backend)
        assert found.dtype == tensor.dtype
        values = found.data.astype(float).reshape(flat.shape)
        np.testing.assert_allclose(values, expected, rtol=limit, atol=limit)
        logs = sequence_log_softmax(tensor, level=level, backend=backend)
        values = np.exp(logs.data.astype(float)).reshape(flat.shape)
        np.testing.assert_allclose(values, expected, rtol=10 * limit, atol=10 * limit)


@on_every_backend
def test_an_upstream_gradient_beyond_the_dtype_of_the_result_is_not_rounded(
    backend: Backend,
) -> None:
    rows, upstream = LoDTensor(np.zeros(2, np.float32), [[2]]), np.array([0, 1e50])
    # As softmax and log_softmax could have returned them.
    result = np.array([1, 1e-30], np.float32)
    found = sequence_softmax_grad(upstream, rows, result=result, backend=backend)
    np.testing.assert_allclose(found.data, [-1e20, 1e20], rtol=1e-6)
    # exp(-200) is 0 in float32.
    result, upstream = np.array([-200, 0], np.float32), np.array([0, 1e100])
    found = sequence_log_softmax_grad(upstream, rows, result=result, backend=backend)
    np.testing.assert_allclose(found.data, [-math.exp(-200) * 1e100, 0], rtol=1e-6)


@on_every_backend
def test_gradients_of_doubles_keep_digits_and_range_that_the_upstream_gradient_has_not(
    backend: Backend,
) -> None:
    rows, upstream = LoDTensor(np.zeros(2), [[2]]), np.array([1.5, 1.75], np.float32) * 2.0**127
    found = sequence_log_softmax_grad(upstream, rows, result=np.array([-1.0, 0]), backend=backend)
    wanted = np.array([1.5 - 3.25 * math.exp(-1), -1.5]) * 2.0**127
    np.testing.assert_allclose(found.data, wanted, rtol=1e-15)


def test_whole_numbers_and_gradients_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidDataError, match="sequence_softmax: expected floating numbers"):
        sequence_softmax(LoDTensor(np.arange(3), [[3]]))
    rows = LoDTensor(np.zeros(3), [[3]])
    with pytest.raises(ShapeMismatchError, match=r"softmax_grad: the upstream .* found \(2,\)"):
        sequence_softmax_grad(np.zeros(2), rows)
    with pytest.raises(ShapeMismatchError, match=r"result: expected shape \(3,\), found \(2,\)"):
        sequence_softmax_grad(np.zeros(3), rows, result=np.zeros(2))


@on_every_backend
@pytest.mark.parametrize("shape", [(300_001,), (7_000, 50)], ids=["values", "rows"])
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
def test_one_long_sequence_among_short_ones(
    shape: tuple[int, ...], log: bool, backend: Backend
) -> None:
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((shape[0] + 9, *shape[1:]), np.float32)
    lod = LoD.from_lengths([[5, shape[0], 0, 4]])
    op = sequence_log_softmax if log else sequence_softmax
    found = op(LoDTensor(rows, lod), backend=backend).data
    for part in np.split(rows.astype(np.float64), lod.levels[0][1:-1]):
        powers = np.exp(part - part.max(axis=0, initial=-np.inf))
        expected = powers / powers.sum(axis=0)
        mine, found = found[: len(part)], found[len(part) :]
        np.testing.assert_allclose(mine, np.log(expected) if log else expected, 0, 4e-6)


@on_every_backend
def test_a_nan_spoils_its_long_sequence_and_no_other(backend: Backend) -> None:
    rows = np.zeros(300_010)
    rows[100_000] = np.nan
    found = sequence_softmax(LoDTensor(rows, [[5, 300_000, 5]]), backend=backend).data
    assert np.isnan(found[5:-5]).all()
    assert found[:5].tolist() == found[-5:].tolist() == [0.2] * 5


@on_every_backend
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
def test_gradient_of_one_long_sequence(log: bool, backend: Backend) -> None:
    rng = np.random.default_rng(6)
    lod = LoD.from_lengths([[3, 140_000]])
    rows, flow = rng.standard_normal((2, 140_003, 2))
    op, gradient = (
        (sequence_log_softmax, sequence_log_softmax_grad)
        if log
        else (sequence_softmax, sequence_softmax_grad)
    )
    tensor = LoDTensor(rows, lod)
    result = op(tensor, backend="numpy")
    found = gradient(flow, tensor, result=result, backend=backend).data
    y, dy = result.data[3:], flow[3:]
    expected = dy - np.exp(y) * dy.sum(axis=0) if log else y * (dy - (dy * y).sum(axis=0))
    np.testing.assert_allclose(found[3:], expected, 1e-10, 1e-12)


WIDTHS = [1, 2, 3, 5, 7, 8, 9, 16, 17, 64, 100, 129, 300]
LENGTHS = [*range(40), 257, 0, 600]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
def test_gradients_of_rows_of_any_width_and_number(width: int, log: bool, dtype: Any) -> None:
    from lodcli.kernels.ops.softmax import softmax_native as twin

    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    flow, y = np.random.default_rng(7).uniform(-1, 1, (2, offsets[-1], width)).astype(dtype)
    y = -np.abs(y)
    flow[offsets[30] + 17, 0] = np.nan
    op = twin.segment_log_softmax_grad if log else twin.segment_softmax_grad
    found = op(flow, y, offsets)
    for lo, hi in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        up, own = flow[lo:hi], y[lo:hi]
        alone = op(up, own, np.array([0, hi - lo]))
        np.testing.assert_array_equal(found[lo:hi], alone)
        up, own = up.astype(np.float64), own.astype(np.float64)
        expected = up - np.exp(own) * up.sum(axis=0) if log else own * (up - (up * own).sum(axis=0))
        # A rounding error for each of up to 600 numbers added.
        tolerance = 150 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(found[lo:hi], expected, tolerance, tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
def test_rows_of_any_width_and_number_depend_on_their_sequence_alone(
    width: int, log: bool, dtype: Any
) -> None:
    from lodcli.kernels.ops.softmax import softmax_native as twin

    offsets = np.concatenate([[0], np.cumsum(LENGTHS)])
    data = np.random.default_rng(8).normal(size=(offsets[-1], width)).astype(dtype)
    data[offsets[30] + 17, 0] = np.nan
    op = twin.segment_log_softmax if log else twin.segment_softmax
    found = op(data, offsets)
    for lo, hi in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        rows = data[lo:hi]
        np.testing.assert_array_equal(found[lo:hi], op(rows, np.array([0, hi - lo])))
        # Of values near 0 no greatest one need be subtracted.
        powers = np.exp(rows.astype(np.float64))
        expected = powers / powers.sum(axis=0)
        expected = np.log(expected) if log else expected
        # A rounding error for each of up to 600 numbers added, most of which cancel.
        tolerance = 25 * float(np.finfo(dtype).eps)
        np.testing.assert_allclose(found[lo:hi], expected, tolerance, tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("log", [False, True], ids=["plain", "log"])
@pytest.mark.parametrize("shift", [0, 24, 3], ids=["line", "value", "byte"])
@pytest.mark.parametrize("width", [64, 112, 272])
def test_large_results_of_wide_rows_are_those_of_small_ones(
    width: int, shift: int, log: bool, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.ops.softmax import softmax_native as twin

    lengths = [*range(40), 0, 257, 600, 3]
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    x, flow = np.random.default_rng(9).normal(size=(2, offsets[-1], width)).astype(dtype)
    x[offsets[30] + 17, 0] = np.nan
    op, gradient = (
        (twin.segment_log_softmax, twin.segment_log_softmax_grad)
        if log
        else (twin.segment_softmax, twin.segment_softmax_grad)
    )
    expected = op(x, offsets)
    expected_gradient = gradient(flow, expected, offsets)
    # Results of segments of up to 300 rows bypass the caches; columns of wide rows are copied.
    monkeypatch.setattr(twin, "STREAMED_BYTES", 0)
    monkeypatch.setattr(twin, "COPIED_ROWS", 300)
    memory = np.zeros(x.nbytes + 128, np.uint8)
    begin = -memory.ctypes.data % twin.LINE_BYTES + shift
    out = memory[begin:][: x.nbytes].view(dtype).reshape(x.shape)
    assert op(x, offsets, out=out) is out
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(gradient(flow, out, offsets), expected_gradient)
    assert not memory[:begin].any()
    assert not memory[begin + x.nbytes :].any()


@on_every_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_powers_are_as_good_as_large_ones(dtype: Any, backend: Backend) -> None:
    least = -87.0 if dtype == np.float32 else -708.0
    values = np.linspace(least, 0, 1001)[:, None].astype(dtype)
    found = sequence_softmax(LoDTensor(values, [[0, 1001]]), backend=backend).data
    exact = values.astype(np.float64)
    expected = np.exp(exact) / np.exp(exact).sum()
    # Two units in the last place of the power, and as many of the sum and the quotient.
    np.testing.assert_allclose(found, expected, rtol=8 * float(np.finfo(dtype).eps))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_long_sequence_of_rows_without_values_gives_such_rows(backend: Backend) -> None:
    tensor = LoDTensor(np.zeros((300_000, 0), np.float32), [[299_999, 1]])
    found = sequence_softmax(tensor, backend=backend)
    assert found.data.shape == tensor.data.shape
    assert sequence_softmax_grad(found, tensor, backend=backend).data.shape == tensor.data.shape


# Below and above the size from which all threads compute one sequence.
MANY_ROWS = [(262_143, 1), (87_380, 3), (16_383, 16), (16_383, 40), (1_000_000, 2)]


@on_every_backend
@pytest.mark.parametrize("shape", MANY_ROWS, ids=str)
def test_sums_over_many_rows_are_precise(shape: tuple[int, int], backend: Backend) -> None:
    """One after another, equal powers of float32 are rounded in the same direction."""
    rows = np.zeros(shape, np.float32)
    rows[0] = 0.3
    tensor = LoDTensor(rows, [[len(rows)]])
    exact = np.exp(rows.astype(np.float64)) / np.exp(rows.astype(np.float64)).sum(axis=0)
    found = sequence_softmax(tensor, backend=backend).data
    np.testing.assert_allclose(found, exact, rtol=5e-6)
    logs = sequence_log_softmax(tensor, backend=backend).data
    np.testing.assert_allclose(logs, np.log(exact), rtol=0, atol=5e-6)


@on_every_backend
@pytest.mark.parametrize("shape", MANY_ROWS, ids=str)
def test_gradients_of_many_rows_sum_to_zero(shape: tuple[int, int], backend: Backend) -> None:
    """Not so if the sum of the upstream gradient is imprecise."""
    tensor = LoDTensor(np.zeros(shape, np.float32), [[shape[0]]])
    upstream = np.full(shape, 0.1, np.float32)
    found = sequence_log_softmax_grad(upstream, tensor, backend=backend).data
    # Logarithms of -14 are rounded to 5e-7, so that their exponentials are off by as much.
    np.testing.assert_allclose(found, 0, atol=1e-6)
    found = sequence_softmax_grad(upstream, tensor, backend=backend).data
    np.testing.assert_allclose(found * np.float32(len(tensor.data)), 0, atol=1e-6)
