"""Arithmetic with one row per sequence, and dot products: by hand, loops, finite differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.dtypes import is_half
from lodcli.kernels.ops.elementwise import elementwise_native
from lodcli.kernels.ops.elementwise.elementwise import (
    Arithmetic,
    segment_binary,
    sequence_add,
    sequence_div,
    sequence_dot,
    sequence_mul,
    sequence_sub,
)
from lodcli.kernels.ops.elementwise.elementwise_grad import (
    segment_binary_grad,
    sequence_add_grad,
    sequence_div_grad,
    sequence_mul_grad,
    sequence_sub_grad,
)
from lodcli.kernels.runtime.dispatch import Backend
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests import oracles_ids
from tests.cases_ops import check_gradient, near, on_every_backend
from tests.strategies import BFLOAT16, FLOATS, tensors

OPS: dict[Arithmetic, Any] = {
    "add": sequence_add,
    "sub": sequence_sub,
    "mul": sequence_mul,
    "div": sequence_div,
}
GRADIENTS: dict[Arithmetic, Any] = {
    "add": sequence_add_grad,
    "sub": sequence_sub_grad,
    "mul": sequence_mul_grad,
    "div": sequence_div_grad,
}
PLAIN: dict[Arithmetic, Any] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
}


@on_every_backend
def test_a_value_a_sequence_goes_to_all_its_rows(backend: Backend) -> None:
    words = LoDTensor(np.array([[1, 2], [3, 4], [5, 6]]), LoD.from_lengths([[1, 1], [2, 1]]))
    per_sentence = LoDTensor(np.array([10, 20]), [[1, 1]])
    assert sequence_sub(words, per_sentence, backend=backend).data.tolist() == [
        [-9, -8],
        [-7, -6],
        [-15, -14],
    ]
    articles = LoDTensor(np.array([[10, 1], [20, 2]]))
    products = sequence_mul(words, articles, level=0, backend=backend)
    assert products.data.tolist() == [[10, 2], [30, 4], [100, 12]]
    assert sequence_div(words, words, backend=backend).data.tolist() == [[1, 1]] * 3
    assert sequence_add(words, words, backend=backend).lod is words.lod
    nothing = LoDTensor(np.array([0, 0]), [[1, 1]])
    assert np.isinf(sequence_div(words, nothing, backend=backend).data).all()


@on_every_backend
def test_bfloat16_and_whole_numbers_of_two_bytes_give_float32(backend: Backend) -> None:
    halves = LoDTensor(np.array([1, 2, 3], BFLOAT16), [[2, 1]])
    whole = halves.with_data(np.array([1000, 1001, 1002], np.uint16))
    found = [op(halves, whole, backend=backend) for op in (sequence_add, sequence_dot)]
    assert [one.dtype for one in found] == [np.float32, np.float32]
    assert [one.data.tolist() for one in found] == [[1001, 1003, 1005], [3002, 3006]]


@on_every_backend
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("shape", ["row", "value", "column"])
@settings(deadline=None, max_examples=40)
@given(tensor=tensors(FLOATS, [(), (3,), (2, 2)], min_levels=1), data=st.data())
def test_arithmetic_is_that_of_the_loops(
    backend: Backend, op: Arithmetic, shape: str, tensor: LoDTensor, data: st.DataObject
) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    count = tensor.lod.count(level)
    sizes = {"row": tensor.row_shape, "value": (), "column": (1,)}[shape]
    values = np.random.default_rng(0).normal(size=(count, *sizes)) + 3
    bare = data.draw(st.booleans())
    other = LoDTensor(values, LoD() if bare else tensor.lod.above(level))
    out = OPS[op](tensor, other, level=level, backend=backend)
    assert out.lod is tensor.lod
    parts = oracles_ids.sequences(tensor.data, tensor.lod.absolute(level))
    for found, part, value in zip(
        oracles_ids.sequences(out.data, tensor.lod.absolute(level)), parts, values, strict=True
    ):
        for row, at in zip(found, part, strict=True):
            value = value.reshape(tensor.row_shape) if shape == "row" else value.reshape(())
            near(row, PLAIN[op](at, value), 1e-12)


def on_a_line(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array that begins where a cache line does."""
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(dtype).reshape(shape)


@on_every_backend
@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("streamed", [False, True])
@settings(deadline=None, max_examples=40)
@given(tensor=tensors(min_levels=1, any_bits=True), seed=st.integers(0, 2**32 - 1))
def test_values_of_one_index_and_shape_are_combined_as_numpy_does(
    backend: Backend, op: Arithmetic, streamed: bool, tensor: LoDTensor, seed: int
) -> None:
    if tensor.dtype == np.bool_ or (op == "div" and tensor.dtype.kind in "iu"):
        return
    order = np.random.default_rng(seed).permutation(tensor.data.size)
    other = tensor.with_data(tensor.data.reshape(-1)[order].reshape(tensor.data.shape))
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        # A few values a piece, and some left over.
        patch.setattr(elementwise_native, "PIECE_BYTES", 128 if streamed else 48)
        if streamed:
            patch.setattr(elementwise_native, "STREAMED_BYTES", 0)
            patch.setattr(elementwise_native, "empty", on_a_line)
        found = OPS[op](tensor, other, backend=backend)
        wanted = PLAIN[op](tensor.data, other.data)
    assert found.lod is tensor.lod
    assert found.dtype == wanted.dtype
    # NumPy detects NaN only in its own dtypes.
    wide = np.float32 if is_half(wanted.dtype) else wanted.dtype
    np.testing.assert_array_equal(found.data.astype(wide), wanted.astype(wide))


@on_every_backend
@settings(deadline=None)
@given(tensors(FLOATS, [(), (3,), (0,), (2, 2)], min_levels=1), st.data())
def test_dot_products_are_those_of_the_loops(
    backend: Backend, tensor: LoDTensor, data: st.DataObject
) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    other = tensor.with_data(np.random.default_rng(1).normal(size=tensor.data.shape))
    out = sequence_dot(tensor, other, level=level, backend=backend)
    cut = tensor.lod.absolute(level)
    pairs = zip(
        oracles_ids.sequences(tensor.data, cut), oracles_ids.sequences(other.data, cut), strict=True
    )
    wanted = [
        sum(float(x) * float(y) for x, y in zip(a.flat, b.flat, strict=True)) for a, b in pairs
    ]
    near(out.data, np.array(wanted, float), 1e-12)
    assert out.lod == tensor.lod.above(level)


@on_every_backend
def test_float16_products_are_summed_in_float32(backend: Backend) -> None:
    a = LoDTensor(np.array([2048, 1, 1], np.float16), [[3, 0]])
    out = sequence_dot(a, a.with_data(np.ones(3, np.float16)), backend=backend)
    assert out.data.tolist() == [2050, 0]
    assert out.dtype == np.float16
    small = LoDTensor(np.array([200, 200], np.uint8), [[2]])
    assert sequence_dot(small, small, backend=backend).data.tolist() == [80_000]


OFFSETS = np.array([0, 2, 2, 5])


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("sizes", [(2,), (1,), ()])
def test_gradients_are_finite_differences(op: Arithmetic, sizes: tuple[int, ...]) -> None:
    generator = np.random.default_rng(3)
    data, upstream = generator.normal(size=(5, 2)), generator.normal(size=(5, 2))
    values = generator.uniform(1, 2, size=(3, *sizes))
    grads = segment_binary_grad(op, data, values, OFFSETS, upstream)
    check_gradient(lambda x: segment_binary(op, x, values, OFFSETS), data, upstream, grads[0])
    check_gradient(lambda v: segment_binary(op, data, v, OFFSETS), values, upstream, grads[1])


@on_every_backend
@pytest.mark.parametrize("op", GRADIENTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("width", [1, 3, 8, 19])
@pytest.mark.parametrize("sizes", ["row", "value"])
@pytest.mark.parametrize("one_index", [True, False])
def test_gradients_are_those_of_numpy(
    backend: Backend, op: Arithmetic, dtype: Any, width: int, sizes: str, one_index: bool
) -> None:
    random = np.random.default_rng(width)
    data, upstream = (random.uniform(1, 2, (29, width)).astype(dtype) for _ in range(2))
    offsets = None if one_index else np.array([0, 2, 2, 3, 29])
    count = 29 if one_index else 4
    values = random.uniform(1, 2, (count, width) if sizes == "row" else (count,)).astype(dtype)
    tensor = LoDTensor(data, LoD([np.array([0, 2, 2, 3, 29])]))
    other = LoDTensor(values, tensor.lod if one_index else LoD())
    found = GRADIENTS[op](upstream, tensor, other, backend=backend)
    x, z, flow = (one.astype(np.float64) for one in (data, values, upstream))
    wanted = segment_binary_grad(op, x, z, offsets, flow)
    for one, expected in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one.data, expected, rtol=10 * np.finfo(dtype).eps)


@on_every_backend
@pytest.mark.parametrize("op", GRADIENTS)
@pytest.mark.parametrize("one_index", [True, False])
def test_gradients_keep_digits_and_range_that_the_upstream_gradient_has_not(
    one_index: bool, op: Arithmetic, backend: Backend
) -> None:
    random = np.random.default_rng(3)
    data, values = random.uniform(1, 2, (5, 3)), random.uniform(1, 2, (5 if one_index else 2, 3))
    data, values = (1e30 * data, values) if op == "mul" else (data, 1e-30 * values)
    upstream = random.uniform(1e10, 2e10, (5, 3)).astype(np.float32)
    tensor = LoDTensor(data, [[2, 3]])
    other = LoDTensor(values, tensor.lod if one_index else LoD())
    found = GRADIENTS[op](upstream, tensor, other, backend=backend)
    wanted = GRADIENTS[op](upstream.astype(np.float64), tensor, other, backend="numpy")
    for one, expected in zip(found, wanted, strict=True):
        near(one.data, expected.data, 1e-14)


@on_every_backend
@pytest.mark.parametrize("one_index", [True, False])
def test_gradients_beyond_their_dtype_are_infinite(one_index: bool, backend: Backend) -> None:
    tensor = LoDTensor(np.full(2, 2, np.float32), [[2]])
    other = tensor if one_index else LoDTensor(np.ones(1, np.float32))
    upstream = np.full(2, 3e38, np.float32)
    _, found = sequence_mul_grad(upstream, tensor, other, backend=backend)
    assert np.isposinf(found.data).all()


def test_invalid_arguments_are_errors() -> None:
    words = LoDTensor(np.zeros((3, 2)), LoD.from_lengths([[1, 1], [2, 1]]))
    with pytest.raises(ShapeMismatchError, match="segmented differently: level 1, item 0"):
        sequence_add(words, LoDTensor(np.zeros((3, 2)), [[1, 1], [1, 2]]))
    with pytest.raises(ShapeMismatchError, match="2 sequences against 3 rows"):
        sequence_add(words, LoDTensor(np.zeros((3, 2))))
    with pytest.raises(ShapeMismatchError, match="level 0, item 0 has length 1 against 2"):
        sequence_add(words, LoDTensor(np.zeros((2, 2)), [[2, 0]]))
    with pytest.raises(ShapeMismatchError, match=r"rows of shape \(3,\) do not fit"):
        sequence_add(words, LoDTensor(np.zeros((2, 3))))
    with pytest.raises(ShapeMismatchError, match="3 rows against 2"):
        sequence_add(LoDTensor(np.zeros(3)), LoDTensor(np.zeros(2)))
    with pytest.raises(InvalidDataError, match=r"found bool; convert them with astype\('int8'\)"):
        sequence_sub(words, LoDTensor(np.zeros(2, bool)))
    with pytest.raises(ShapeMismatchError, match="shape"):
        sequence_dot(words, words.with_data(np.zeros((3, 3))))
    with pytest.raises(ShapeMismatchError, match="2 levels against 0"):
        sequence_dot(words, LoDTensor(np.zeros((3, 2))))
