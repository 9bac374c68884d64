"""The optimizer: its compiled twin, and arrays of any dtype and order."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.rnn.training import adam, adam_native
from lodcli.kernels.rnn.training.adam import Adam, AdamState, Factors, clipped
from tests.oracles_rnn import close


def ordered(array: Any, order: str) -> Any:
    """Return the same values, read-only, in another order in memory."""
    if order == "strided":
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        array = wide[..., ::2]
    else:
        array = np.asfortranarray(array)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("order", ["strided", "fortran"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ml_dtypes.bfloat16])
def test_the_compiled_step_has_the_bits_of_the_reference(dtype: Any, order: str) -> None:
    rng = np.random.default_rng(0)
    weights = [ordered(rng.normal(size=(7, 19)).astype(dtype), order)] * 2
    wide = np.float64 if dtype == "float64" else np.float32
    moments = [tuple(np.zeros((7, 19), wide) for _ in range(2)) for _ in range(2)]
    for step in range(1, 5):
        grad = ordered(rng.normal(size=(7, 19)).astype(wide), order)
        factors = Factors(0.9, 0.999, 1 - 0.9**step, 1 - 0.999**step, 1e-8, 0.01)
        for number, twin in enumerate((adam, adam_native)):
            weights[number] = twin.step_of(weights[number], grad, factors, out=moments[number])
        assert weights[1].dtype == dtype
        for expected, found in zip(
            (weights[0], *moments[0]), (weights[1], *moments[1]), strict=True
        ):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", ">f4"])
@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (4,), (7, 19)])
def test_sums_of_squares_are_exact_to_float64(dtype: Any, shape: tuple[int, ...]) -> None:
    values = ordered(np.random.default_rng(0).normal(size=shape).astype(dtype), "strided")
    exact = math.fsum(float(value) ** 2 for value in values.ravel())
    for twin in (adam, adam_native):
        assert math.isclose(twin.sum_of_squares(values), exact, rel_tol=1e-14)


def test_sums_of_many_squares_are_exact_to_float64() -> None:
    """One sum of all would be off by a part of 4e-12."""
    count, square = (1 << 20) + 3, float(np.float32(0.1)) ** 2
    for twin in (adam, adam_native):
        found = twin.sum_of_squares(np.full(count, 0.1, np.float32))
        assert math.isclose(found, count * square, rel_tol=1e-14)


def test_squares_that_float32_does_not_hold_are_summed() -> None:
    for twin in (adam, adam_native):
        close(twin.sum_of_squares(np.full(5, 1e30, np.float32)) / 5e60, 1.0, 1e-6)


def test_large_weights_take_the_steps_of_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    array = rng.normal(size=(600, 500)).astype(np.float32)
    leaf = torch.from_numpy(array.copy())
    theirs, ours = torch.optim.Adam([leaf], lr=0.01), Adam()
    for _ in range(3):
        grad = rng.normal(size=array.shape).astype(np.float32)
        leaf.grad = torch.from_numpy(grad)
        theirs.step()
        array = ours.moved({"a": array}, {"a": grad}, rate=0.01)["a"]
    close(array, leaf.numpy(), 1e-5)  # a step is at most the rate; float32 has 7 digits


@pytest.mark.parametrize("twin", [adam, adam_native])
def test_big_endian_arrays_are_computed_as_well(twin: Any) -> None:
    factors = Factors(0.9, 0.999, 0.1, 0.001, 1e-8, 0.1)
    moments = tuple(np.zeros(3, ">f4") for _ in range(2))
    found = twin.step_of(np.ones(3, ">f4"), np.full(3, 2, ">f4"), factors, out=moments)
    close(found.astype("f4"), [0.9] * 3, 1e-6)


def test_moments_of_weights_in_another_order_are_those_of_the_same_values() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(600, 500))
    gradients = [{"a": rng.normal(size=weights.shape)} for _ in range(2)]
    found = []
    for start in (weights, np.asfortranarray(weights)):
        one, arrays = Adam(), {"a": start}
        for grad in gradients:
            arrays = one.moved(arrays, grad, rate=0.1)
        found.append((arrays["a"], one.state().first["a"], one.state().second["a"]))
    for expected, array in zip(*found, strict=True):
        np.testing.assert_array_equal(array, expected)


def test_a_state_of_another_dtype_is_converted_and_one_of_another_shape_refused() -> None:
    weights, grad = {"a": np.ones(300_000, "f4")}, {"a": np.full(300_000, 2, "f4")}
    first = Adam()
    then = first.moved(weights, grad, rate=0.1)
    state = first.state()
    wide = AdamState(1, *({"a": one["a"].astype("f8")} for one in (state.first, state.second)))
    expected = first.moved(then, grad, rate=0.1)["a"]
    np.testing.assert_array_equal(Adam(state=wide).moved(then, grad, rate=0.1)["a"], expected)
    short = Adam(state=AdamState(1, state.first, {"a": np.ones(2, "f4")}))
    with pytest.raises(ShapeMismatchError, match=r"a: .* of shape \(300000,\), found \(2,\)"):
        short.moved(then, grad, rate=0.1)


def test_gradients_within_the_limit_are_not_copied() -> None:
    grad = np.array([3.0, 4.0])
    assert clipped({"a": grad}, 5.0)["a"] is grad
