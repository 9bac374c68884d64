"""Running sums and products against plain loops, and by hand."""

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
from lodcli.kernels.ops.scan.scan import (
    sequence_cumprod,
    sequence_cumprod_grad,
    sequence_cumsum,
    sequence_cumsum_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.cases_ops import BACKENDS, Array, check_gradient, on_every_backend
from tests.oracles_ops import pieces_of, row_lengths
from tests.oracles_order import running
from tests.strategies import BFLOAT16, tensors

WAYS = [(exclusive, reverse) for exclusive in (False, True) for reverse in (False, True)]
every_way = pytest.mark.parametrize(("exclusive", "reverse"), WAYS)


@on_every_backend
@pytest.mark.parametrize(
    ("exclusive", "reverse", "sums", "products"),
    [
        (False, False, [2, 5, 9, 5, 11], [2, 6, 24, 5, 30]),
        (True, False, [0, 2, 5, 0, 5], [1, 2, 6, 1, 5]),
        (False, True, [9, 7, 4, 11, 6], [24, 12, 4, 30, 6]),
        (True, True, [7, 4, 0, 6, 0], [12, 4, 1, 6, 1]),
    ],
)
def test_by_hand(
    exclusive: bool, reverse: bool, sums: list[int], products: list[int], backend: Backend
) -> None:
    tensor = LoDTensor(np.array([2, 3, 4, 5, 6], np.int8), [[3, 0, 2]])
    found = sequence_cumsum(tensor, exclusive=exclusive, reverse=reverse, backend=backend)
    assert found.data.tolist() == sums
    assert found.dtype == np.int64
    assert found.lod is tensor.lod
    found = sequence_cumprod(tensor, exclusive=exclusive, reverse=reverse, backend=backend)
    assert found.data.tolist() == products
    assert found.dtype == np.int64


def expected_of(
    tensor: LoDTensor, level: int, product: bool, exclusive: bool, reverse: bool
) -> Array:
    kind = tensor.dtype.kind
    wide = object if kind in "iub" else complex if kind == "c" else float
    flat: Any = tensor.data.reshape(tensor.rows, math.prod(tensor.row_shape))
    # Python's whole numbers: they do not overflow, and 0 to 63 bits are then compared.
    flat = flat.astype(np.int64 if kind == "b" else flat.dtype).astype(wide)
    result = np.zeros(flat.shape, wide)
    lengths = row_lengths(tensor.recursive_sequence_lengths(), level)
    for rows in pieces_of(list(range(tensor.rows)), lengths):
        for column in range(flat.shape[1]) if rows else ():
            values = list(flat[rows, column])
            result[rows, column] = running(values, product, exclusive, reverse)
    return result.reshape(tensor.data.shape)


@settings(deadline=None)
@given(tensors(min_levels=1), st.data())
def test_running_totals_are_those_of_plain_loops(tensor: LoDTensor, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    exclusive, reverse = data.draw(st.sampled_from(WAYS))
    limit = 4e-2 if is_half(tensor.dtype) else 1e-4
    backend = data.draw(st.sampled_from(BACKENDS))
    for product, op in ((False, sequence_cumsum), (True, sequence_cumprod)):
        ways: Any = {"exclusive": exclusive, "reverse": reverse, "backend": backend}
        found = op(tensor, level=level, **ways).data
        expected = expected_of(tensor, level, product, exclusive, reverse)
        assert found.shape == expected.shape
        if tensor.dtype.kind in "iub":
            assert found.dtype == (np.uint64 if tensor.dtype.kind == "u" else np.int64)
            difference = found.astype(object) - expected
            assert not np.any(difference % 2**64)  # they wrap around
        else:
            assert found.dtype == tensor.dtype
            wide = found.astype(expected.dtype)
            np.testing.assert_allclose(wide, expected, rtol=limit, atol=limit)


@on_every_backend
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16])
def test_halves_are_summed_in_float32(dtype: np.dtype[Any], backend: Backend) -> None:
    rows = np.full(5000, 1, dtype)
    found = sequence_cumsum(LoDTensor(rows, [[5000]]), backend=backend)
    assert found.dtype == dtype
    # In their own precision the sum would stay at 2048 or 256.
    assert float(found.data[-1]) == float(np.float32(5000).astype(dtype))


@on_every_backend
def test_long_and_short_sequences_together(backend: Backend) -> None:
    lengths = [1, 300, 0, 7, 3, 120, 2, 0, 7]
    generator = np.random.default_rng(3)
    tensor = LoDTensor(generator.integers(-9, 9, (sum(lengths), 2)), [lengths])
    for exclusive, reverse in WAYS:
        found = sequence_cumsum(tensor, exclusive=exclusive, reverse=reverse, backend=backend).data
        expected = expected_of(tensor, 0, False, exclusive, reverse)
        np.testing.assert_array_equal(found, expected.astype(np.int64))


@on_every_backend
def test_a_sequence_is_not_touched_by_another_nor_by_the_order_of_factors(backend: Backend) -> None:
    rows = np.array([math.nan, 1e30, 0.1, 0.2, math.inf])
    found = sequence_cumsum(LoDTensor(rows, [[2, 2, 1]]), backend=backend).data
    np.testing.assert_array_equal(found[2:], [0.1, 0.1 + 0.2, math.inf])
    rows = np.array([1e-200, 1e200, 1e200, 0, 1e200, 1e200])
    found = sequence_cumprod(LoDTensor(rows, [[3, 3]]), backend=backend).data
    np.testing.assert_allclose(found, [1e-200, 1, 1e200, 0, 0, 0], rtol=1e-15)


@on_every_backend
@every_way
@pytest.mark.parametrize("level", [0, 1])
def test_gradients_of_products_with_zeros_are_those_of_finite_differences(
    level: int, exclusive: bool, reverse: bool, backend: Backend
) -> None:
    generator = np.random.default_rng(6)
    x, upstream = generator.normal(size=(2, 8, 3))
    x[[1, 3, 5], [0, 1, 1]] = 0  # one zero, two in a sequence, none
    x[0, 2] = 0
    tensor = LoDTensor(x, LoD.from_lengths([[2, 0, 2], [3, 0, 4, 1]]))
    ways: Any = {"exclusive": exclusive, "reverse": reverse, "level": level}
    gradient = sequence_cumprod_grad(upstream, tensor, backend=backend, **ways).data
    check_gradient(
        lambda at: sequence_cumprod(tensor.with_data(at), **ways).data, x, upstream, gradient
    )


@on_every_backend
@every_way
def test_gradients_of_products_are_those_of_torch(
    exclusive: bool, reverse: bool, backend: Backend
) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    lengths = [3, 0, 150, 70]
    x, upstream = rng.normal(size=(2, sum(lengths), 3))
    x[[1, 60, 130, 160], [0, 1, 1, 2]] = 0  # one in a sequence, two, none
    data = torch.tensor(x, requires_grad=True)
    parts = []
    for part in data.split(lengths):
        rows = part.flip(0) if reverse else part
        if exclusive and len(rows):
            rows = torch.cat([torch.ones_like(rows[:1]), rows[:-1]])
        product = rows.cumprod(0)
        parts.append(product.flip(0) if reverse else product)
    (wanted,) = torch.autograd.grad(torch.cat(parts), data, torch.tensor(upstream))
    ways: Any = {"exclusive": exclusive, "reverse": reverse, "backend": backend}
    found = sequence_cumprod_grad(upstream, LoDTensor(x, [lengths]), **ways).data
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-9, atol=1e-15)


@every_way
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 2, 4, 5, 8, 9, 17])
def test_gradients_of_products_of_rows_of_any_width(
    width: int, dtype: Any, exclusive: bool, reverse: bool
) -> None:
    rng = np.random.default_rng(width)
    lengths = [1, 0, 2, 40, 9, 3]
    x, upstream = rng.normal(1, 0.3, (2, sum(lengths), width)).astype(dtype)
    x[4, 0] = x[7, -1] = x[30, -1] = x[-1, 0] = 0  # of the other sequences and columns none
    x[-5, -1], upstream[-12, 0] = np.inf, np.nan
    tensor = LoDTensor(x, [lengths])
    ways: Any = {"exclusive": exclusive, "reverse": reverse}
    found, wanted = (
        sequence_cumprod_grad(upstream, tensor, backend=backend, **ways).data
        for backend in ("numba", "numpy")
    )
    assert found.dtype == dtype
    near = 1e-13 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(found, wanted, near, near)


@on_every_backend
@pytest.mark.parametrize("width", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_last_factor_has_no_part_in_exclusive_products(
    reverse: bool, first: int, width: int, backend: Backend
) -> None:
    # Results 1, x0 and x0 * 3.
    way = -1 if reverse else 1
    rows = np.array([[first] * width, [3] * width, [math.inf] * width])[::way]
    upstream = np.array([[7] * width, [5] * width, [11] * width])[::way]
    found = sequence_cumprod_grad(
        upstream, LoDTensor(rows, [[3]]), exclusive=True, reverse=reverse, backend=backend
    )
    wanted = [[5 + 11 * 3] * width, [11 * first] * width, [0] * width]
    assert found.data[::way].tolist() == wanted


def test_a_gradient_keeps_the_dtype_of_the_rows() -> None:
    tensor = LoDTensor(np.array([1e-30, 1e-30, 2], np.float32), [[2, 1]])
    found = sequence_cumprod_grad(np.ones(3), tensor).data
    assert found.dtype == np.float32
    # In float32 the product of the first two would be 0, and so the second's gradient.
    np.testing.assert_allclose(found, [1, 1e-30, 1], rtol=1e-6)


def test_no_levels_and_gradients_that_do_not_fit_are_refused() -> None:
    with pytest.raises(SelectionError, match="sequence_cumsum: the tensor has no levels"):
        sequence_cumsum(LoDTensor(np.zeros(3)))
    with pytest.raises(SelectionError, match="no level 1"):
        sequence_cumprod(LoDTensor(np.zeros(3), [[3]]), level=1)
    tensor = LoDTensor(np.zeros(3), [[3]])
    for gradient in (sequence_cumsum_grad, sequence_cumprod_grad):
        with pytest.raises(ShapeMismatchError, match=f"{gradient.__name__}: the upstream gradient"):
            gradient(np.zeros(2), tensor)
    with pytest.raises(InvalidDataError, match="expected floating numbers"):
        sequence_cumprod_grad(np.zeros(3), tensor.with_data(np.arange(3)))


@on_every_backend
@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize(("exclusive", "reverse"), WAYS)
def test_results_begin_with_the_first_row_itself(
    exclusive: bool, reverse: bool, width: int, backend: Backend
) -> None:
    """It is neither multiplied by 1, which makes complex infinities NaN, nor added to 0."""
    infinite = complex(math.inf, 3)
    way, place = -1 if reverse else 1, int(exclusive)
    options: Any = {"exclusive": exclusive, "reverse": reverse, "backend": backend}
    for dtype, length in ((np.complex64, 2), (np.complex128, 2), (np.complex128, 200)):
        rows = np.full((length, width), 7, dtype)[::way]
        rows[::way][0] = infinite
        found = sequence_cumprod(LoDTensor(rows, [[0, length, 0]]), **options)
        assert found.data[::way][place].tolist() == [infinite] * width
    found = sequence_cumsum(LoDTensor(np.full((2, width), -0.0), [[2]]), **options)
    assert np.signbit(found.data[::way][place]).all()


@on_every_backend
def test_large_whole_numbers_stay_exact(backend: Backend) -> None:
    rows = np.array([2**63 + 1, 1, 2**64 - 1], np.uint64)
    found = sequence_cumsum(LoDTensor(rows, [[2, 1]]), backend=backend).data
    assert found.tolist() == [2**63 + 1, 2**63 + 2, 2**64 - 1]
    found = sequence_cumprod(LoDTensor(rows, [[2, 1]]), backend=backend).data
    assert found.tolist() == [2**63 + 1, 2**63 + 1, 2**64 - 1]
