"""Activations and their slopes."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.cells.activations import ACTIVATIONS, activation_named, sigmoid
from tests.oracles_rnn import Array, close


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_slope_is_the_limit_of_differences(name: str) -> None:
    activation = activation_named(name)
    x = np.array([-2.5, -0.3, 0.4, 3.0])
    difference = (activation.value(x + 1e-6) - activation.value(x - 1e-6)) / 2e-6
    close(activation.slope(activation.value(x)), difference, 1e-9)


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_activation_keeps_the_dtype_and_its_argument(name: str, dtype: type) -> None:
    activation = activation_named(name)
    x: Array = np.array([-1.0, 0.0, 2.0]).astype(dtype)
    y = activation.value(x)
    assert y.dtype == activation.slope(y).dtype == dtype
    y[:] = 7
    assert x.tolist() == [-1, 0, 2]


def test_sigmoid_is_exact_far_out() -> None:
    # By hand: exp(-100) in float64; float32 underflows to 0 without a warning.
    close(sigmoid(np.array([-100.0])) / np.exp(-100.0), [1.0], 1e-15)
    assert sigmoid(np.array([-1e4, 1e4], np.float32)).tolist() == [0, 1]


def test_an_unknown_activation_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidDataError, match="sigmoid, tanh, relu, identity, found 'softplus'"):
        activation_named("softplus")
