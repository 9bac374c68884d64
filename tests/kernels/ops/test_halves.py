"""float16 and bfloat16 in compiled code against NumPy's and ml_dtypes' conversions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lodcli.kernels.ops.elementwise.elementwise_grad import sequence_mul_grad
from lodcli.kernels.ops.halves import as_dtype
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from tests.strategies import BFLOAT16

HALVES = [np.dtype(np.float16), BFLOAT16]


def bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bits of values, the same ones for every NaN."""
    found = values.view(f"u{values.itemsize}").copy()
    found[np.isnan(values.astype(np.float32))] = 1
    return found


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_every_half_is_the_same_number(half: np.dtype[Any]) -> None:
    from lodcli.kernels.ops.halves_native import widened

    halves = np.arange(1 << 16, dtype=np.uint16).view(half)
    np.testing.assert_array_equal(bits(widened(halves)), bits(halves.astype(np.float32)))
    swapped = halves.astype(half.newbyteorder(">")) if half.kind == "f" else halves
    np.testing.assert_array_equal(bits(widened(swapped[5:9])), bits(widened(halves)[5:9]))


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_singles_are_rounded_to_the_nearest_half(half: np.dtype[Any]) -> None:
    from lodcli.kernels.ops.halves_native import narrowed

    halves = np.arange(1 << 16, dtype=np.uint16).view(half).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    with np.errstate(over="ignore", invalid="ignore"):
        # Between two neighbours, where the even one is next, and the numbers beside.
        middle = (halves[:-1] + halves[1:]) / 2
        near = [np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf)]
        any_bits = np.random.default_rng(1).integers(0, 1 << 32, 1 << 18, dtype=np.uint32)
        singles = np.concatenate([halves, middle, *near, any_bits.view(np.float32)])
        expected = singles.astype(half)
    np.testing.assert_array_equal(bits(narrowed(singles, half)), bits(expected))
    assert narrowed(singles[:6].reshape(2, 3), half).shape == (2, 3)


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_rows_are_converted_between_all_dtypes(half: np.dtype[Any]) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(half)
    singles = as_dtype(halves, np.dtype(np.float32))
    np.testing.assert_array_equal(bits(singles), bits(halves.astype(np.float32)))
    np.testing.assert_array_equal(bits(as_dtype(singles, half)), bits(halves))
    assert as_dtype(halves, half) is halves
    large = np.array([1e300])
    assert as_dtype(large, half).astype(float).tolist() == [np.inf]
    swapped = np.dtype(">f2")
    assert as_dtype(np.ones(2, np.float32), swapped).dtype == swapped


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_gradients_that_halves_cannot_hold_are_infinite(half: np.dtype[Any]) -> None:
    x = LoDTensor(np.array([6e4, 1.0]).astype(half), [[2]])
    most = np.array([6e4, 1.0]).astype(half)
    rows, other = sequence_mul_grad(most, x, x)
    assert rows.dtype == other.dtype == half
    infinite = np.isinf(rows.data.astype(np.float32)).tolist()
    assert infinite == [half.kind == "f", False]
