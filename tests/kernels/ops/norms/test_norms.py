"""Normalised rows against plain loops, and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.norms.norms import (
    sequence_layer_norm,
    sequence_layer_norm_grad,
    sequence_rms_norm,
    sequence_rms_norm_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import Array, on_every_backend
from tests.oracles_order import normed
from tests.strategies import BFLOAT16, tensors

FLOATS = (*(np.dtype(name) for name in ("float16", "float32", "float64")), BFLOAT16)
ALL = (sequence_layer_norm, sequence_rms_norm)


@on_every_backend
def test_by_hand(backend: Backend) -> None:
    tensor = LoDTensor(np.array([[1.0, 5], [3, 3], [0, -8]]), [[2, 0, 1]])
    found = sequence_layer_norm(
        tensor, weight=[2, 3], bias=[10, 20], epsilon=1e-12, backend=backend
    )
    # Means 3, 3, -4; deviations 2, 0, 4.
    np.testing.assert_allclose(found.data, [[8, 23], [10, 20], [12, 17]], rtol=1e-12)
    assert found.lod is tensor.lod
    found = sequence_rms_norm(tensor, weight=[2, 3], epsilon=3, backend=backend)
    # Mean squares plus 3: 16, 12, 35.
    a, b = math.sqrt(12), math.sqrt(35)
    np.testing.assert_allclose(found.data, [[0.5, 3.75], [6 / a, 9 / a], [0, -24 / b]], rtol=1e-14)
    assert found.lod is tensor.lod


@on_every_backend
@settings(deadline=None)
@given(tensors(FLOATS), st.booleans(), st.integers(0, 2**32 - 1))
def test_norms_are_those_of_plain_loops(
    backend: Backend, tensor: LoDTensor, plain: bool, seed: int
) -> None:
    w, b = np.random.default_rng(seed).normal(size=(2, *tensor.row_shape))
    rows = tensor.data.astype(float).reshape(tensor.rows, math.prod(tensor.row_shape))
    scale, shift = (1.0, 0.0) if plain else (w.reshape(-1), b.reshape(-1))
    weight, bias = (None, None) if plain else (w, b)
    # Both sides of a row of nearly equal features are rounded: a large epsilon evens it out.
    limit = 4e-2 if is_half(tensor.dtype) else 1e-4
    for centred in (True, False):
        expected = np.array([normed(list(row), centred, 0.1) for row in rows])
        expected = expected.reshape(rows.shape) * scale + (shift if centred else 0)
        if centred:
            found = sequence_layer_norm(
                tensor, weight=weight, bias=bias, epsilon=0.1, backend=backend
            )
        else:
            found = sequence_rms_norm(tensor, weight=weight, epsilon=0.1, backend=backend)
        assert found.dtype == tensor.dtype
        assert found.lod is tensor.lod
        values = found.data.astype(float)
        expected = expected.reshape(tensor.data.shape)
        np.testing.assert_allclose(values, expected, rtol=limit, atol=limit)


@on_every_backend
def test_halves_are_worked_out_in_float32(backend: Backend) -> None:
    # 300 squared is beyond float16.
    tensor = LoDTensor(np.array([[300, -300]], np.float16), [[1]])
    for op in ALL:
        assert op(tensor, backend=backend).data.tolist() == [[1, -1]]
    grads = sequence_rms_norm_grad(np.ones((1, 2), np.float16), tensor, backend=backend)
    assert [grad.dtype for grad in grads] == [np.float16] * 2


@on_every_backend
@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0,)])
def test_no_rows_and_no_features_have_gradients(backend: Backend, shape: tuple[int, ...]) -> None:
    tensor = LoDTensor(np.zeros(shape), [[shape[0], 0]])
    rows, weight, bias = sequence_layer_norm_grad(np.zeros(shape), tensor, backend=backend)
    assert rows.data.shape == shape
    assert weight.shape == bias.shape == shape[1:]
    assert not weight.any()


@on_every_backend
def test_an_upstream_gradient_beyond_the_dtype_of_the_rows_is_not_rounded(backend: Backend) -> None:
    # The root mean square is 5e12.
    tensor = LoDTensor(np.array([[1e12, 7e12]], np.float32), [[1]])
    rows, _ = sequence_rms_norm_grad(np.array([[7e45, 0]]), tensor, backend=backend)
    np.testing.assert_allclose(rows.data, [[1.372e33, -1.96e32]], rtol=1e-6)


@on_every_backend
def test_gradients_beyond_their_dtype_are_infinite(backend: Backend) -> None:
    tensor = LoDTensor(np.array([[1.0, 3], [1, 3]], np.float32), [[2]])
    upstream = np.full((2, 2), 3e38, np.float32)
    _, weight, bias = sequence_layer_norm_grad(upstream, tensor, backend=backend)
    assert weight.tolist() == [-math.inf, math.inf]
    assert bias.tolist() == [math.inf, math.inf]


def test_invalid_arguments_are_errors() -> None:
    tensor = LoDTensor(np.zeros((2, 3)), [[2]])
    for op in ALL:
        with pytest.raises(InvalidDataError, match=rf"{op.__name__}: expected floating numbers"):
            op(LoDTensor(np.arange(3), [[3]]))
        with pytest.raises(ShapeMismatchError, match=rf"{op.__name__}: weight: expected shape"):
            op(tensor, weight=[1.0])
        with pytest.raises(InvalidDataError, match="weight must be real numbers, found complex"):
            op(tensor, weight=[1j, 1, 1])
        for epsilon in (0, math.nan):
            with pytest.raises(InvalidDataError, match="epsilon must be above 0"):
                op(tensor, epsilon=epsilon)
    with pytest.raises(ShapeMismatchError, match="sequence_layer_norm: bias: expected shape"):
        sequence_layer_norm(tensor, bias=np.zeros((2, 3)))
    for backward in (sequence_layer_norm_grad, sequence_rms_norm_grad):
        with pytest.raises(ShapeMismatchError, match=f"{backward.__name__}: the upstream"):
            backward(np.zeros(2), tensor)


@on_every_backend
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 7, 8, 9, 16, 17, 64, 100, 300])
def test_rows_of_any_width(width: int, dtype: Any, backend: Backend) -> None:
    rng = np.random.default_rng(width)
    rows, flow = rng.normal(3, 1, (2, 20, width)).astype(dtype)
    weight, bias = rng.normal(size=(2, width)).astype(dtype)
    tensor = LoDTensor(rows, [[0, 5, 0, 15]])
    x, w = rows.astype(np.float64), weight.astype(np.float64)
    near = 4 * np.sqrt(width) * float(np.finfo(dtype).eps)
    for centred in (True, False):
        over = 1 / np.sqrt((x.var(axis=1) if centred else (x**2).mean(axis=1)) + 0.1)[:, None]
        z = (x - x.mean(axis=1, keepdims=True) if centred else x) * over
        g = flow * w
        back = over * (g - centred * g.mean(1, keepdims=True) - z * (g * z).mean(1, keepdims=True))
        found_back: Any
        if centred:
            found = sequence_layer_norm(
                tensor, weight=weight, bias=bias, epsilon=0.1, backend=backend
            )
            found_back = sequence_layer_norm_grad(
                flow, tensor, weight=weight, bias=bias, epsilon=0.1, backend=backend
            )
        else:
            found = sequence_rms_norm(tensor, weight=weight, epsilon=0.1, backend=backend)
            found_back = sequence_rms_norm_grad(
                flow, tensor, weight=weight, epsilon=0.1, backend=backend
            )
        size = np.abs(x).max() ** 2
        np.testing.assert_allclose(found.data, z * w + centred * bias, near, near * size)
        of_rows, of_weight, *of_bias = (getattr(one, "data", one) for one in found_back)
        np.testing.assert_allclose(of_rows, back, near, near * size)
        np.testing.assert_allclose(of_weight, (flow * z).sum(axis=0), near, near * size)
        if of_bias:
            np.testing.assert_allclose(of_bias[0], flow.sum(axis=0), near, near * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [*range(1, 10), 17])
@pytest.mark.parametrize("centred", [True, False], ids=["layer", "rms"])
def test_a_row_has_the_same_bits_beside_others_as_alone(
    centred: bool, width: int, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lodcli.kernels.ops.norms import norms_native as twin

    rng = np.random.default_rng(width)
    # Pieces of 27 rows: three blocks of eight, and a few.
    monkeypatch.setattr(twin, "PIECE_BYTES", 27 * width * np.dtype(dtype).itemsize)
    rows, flow = rng.normal(3, 1, (2, 70, width)).astype(dtype)
    rows[[3, 66]], rows[11, -1] = -0.0, np.nan
    weight, bias = rng.normal(size=(2, width)).astype(dtype)
    bias[-1] = -0.0

    def both_of(at: slice) -> list[Array]:
        given = rows[at], weight
        if centred:
            values = twin.rows_layer_norm(*given, bias, 0.1)
            return [values, twin.rows_layer_norm_grad(flow[at], *given, 0.1)[0]]
        return [twin.rows_rms_norm(*given, 0.1), twin.rows_rms_norm_grad(flow[at], *given, 0.1)[0]]

    found = both_of(slice(None))
    alone = [both_of(slice(row, row + 1)) for row in range(len(rows))]
    for whole, parts in zip(found, zip(*alone, strict=True), strict=True):
        one_by_one = np.concatenate(parts)
        np.testing.assert_array_equal(whole, one_by_one)
        np.testing.assert_array_equal(np.signbit(whole), np.signbit(one_by_one))


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_narrow_rows_are_worked_out_in_float64(width: int) -> None:
    rows = np.random.default_rng(width).normal(size=(1000, width)).astype(np.float32)
    tensor = LoDTensor(rows)
    found = sequence_rms_norm(tensor, backend="numba").data
    wanted = sequence_rms_norm(tensor, backend="numpy").data
    # Sums of 4 and more are added in another order: rounded to float32, few differ.
    assert np.count_nonzero(found != wanted) <= (2 if width > 2 else 0)


@pytest.mark.parametrize("width", range(1, 9))
def test_nothing_is_written_beside_narrow_rows(width: int) -> None:
    from lodcli.kernels.ops.norms import norms_native as twin

    rows, ones = np.random.default_rng(width).normal(size=(24, width)), np.ones(width)
    for centred in (True, False):
        for count in (0, 7, 8, 9, 24):
            out, sums = np.full((40, width), 7.0), np.zeros((2, width))
            to, pieces, flags = out[8:], min(count, 1), (0.1, centred, count, width, 24)
            twin._forward["d"].call(0, pieces, rows, ones, ones, to, *flags)
            assert (to[:count] != 7).all()
            twin._backward["d"].call(0, pieces, rows, rows, ones, to, *sums, *flags)
            assert (out[:8] == 7).all()
            assert (to[count:] == 7).all()
            np.testing.assert_allclose(sums[1], rows[:count].sum(axis=0), rtol=1e-12)
