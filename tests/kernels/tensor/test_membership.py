"""`value in tensor`: any value is found or not, without an error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.tensor.lod_tensor import LoDTensor

NESTED = LoDTensor.from_lists([[[0.0, 1.0, 2.0], [3.0]], [[4.0, 5.0]]])
FLAT = LoDTensor.from_lists([[0.0, 1.0], [2.0]])
ROWS = LoDTensor([[1, 2], [3, 4]])
WORDS = LoDTensor.from_lists(["a", "b"]).as_categories()


@pytest.mark.parametrize(
    ("tensor", "value", "found"),
    [
        (NESTED, [np.arange(3.0), np.array([3.0])], True),
        (NESTED, ((0, 1, 2), (3,)), True),
        (NESTED, [np.float64(4), np.float64(5)], False),
        (NESTED, np.zeros(2, np.longdouble), False),
        (NESTED, np.zeros((2, 2)), False),
        (FLAT, [np.float64(0), np.float64(1)], True),
        (FLAT, [np.arange(2.0)], False),
        (FLAT, [[0.0, 1.0]], False),
        pytest.param(FLAT, 10**400, False, id="an int that no float holds"),
        (ROWS, [3, 4], True),
        (ROWS, np.array([1, 2]), True),
        (ROWS, [1, 4], False),
        (ROWS, [1, 2, 3], False),
        (ROWS, [], False),
        (ROWS, 4, True),
        (WORDS, [], False),
        (WORDS, ["a"], False),
        (WORDS, "a", True),
    ],
)
def test_a_value_is_found_or_not(tensor: LoDTensor, value: Any, found: bool) -> None:
    assert (value in tensor) is found
