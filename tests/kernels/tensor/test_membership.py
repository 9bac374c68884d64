"""`value in tensor`: any value is found or not, without an error."""

from __future__ import annotations

from collections import deque
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.nulls import Nulls

NESTED = LoDTensor.from_lists([[[0.0, 1.0, 2.0], [3.0]], [[4.0, 5.0]]])
FLAT = LoDTensor.from_lists([[0.0, 1.0], [2.0]])
ROWS = LoDTensor([[1, 2], [3, 4]])
BOXES = LoDTensor(np.arange(8).reshape(2, 2, 2))
LARGE = LoDTensor([[2**53 + 1, 1]])
NULLS = LoDTensor.from_lists([[1.0, None], None])
NULL_ROWS = LoDTensor([[1, 2], [0, 0]], nulls=Nulls.of([np.array([True, False])]))
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
        (FLAT, range(2), True),
        (FLAT, deque([0.0, 1.0]), True),
        (FLAT, deque([[0.0], [0.0, 1.0]]), False),
        (FLAT, np.void(b"12"), False),
        (FLAT, [Decimal("sNaN"), 1], False),
        (FLAT, Decimal("sNaN"), False),
        (FLAT, [LoDTensor([0.0, 1.0])], False),
        (FLAT, np.ndarray, False),
        (NESTED, list(NESTED[0]), True),
        (NESTED, [NESTED[0]], False),
        (BOXES, [[0, 1], [2, 3]], True),
        (BOXES, ((4, 5), range(6, 8)), True),
        (BOXES, [[0, 1], [2, 4]], False),
        (BOXES, [[0, 1], [2]], False),
        (BOXES, [0, 1], False),
        (LARGE, [2**53 + 1, 1], True),
        (LARGE, [2.0**53, 1], False),
        (NULLS, [1.0, None], True),
        (NULLS, [None, 1.0], False),
        (NULLS, None, True),
        (NULLS, 0.0, False),
        (NULL_ROWS, [1, 2], True),
        (NULL_ROWS, [0, 0], False),
        (ROWS, list(ROWS), False),
        (ROWS, [ROWS, ROWS], False),
        (ROWS, [10**400, 2], False),
        (ROWS, ["a", "b"], False),
        (ROWS, [1, None], False),
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


@pytest.mark.parametrize("library", ["polars", "pandas", "pyarrow", "torch", "awkward"])
def test_arrays_of_other_libraries_are_found_like_lists(library: str) -> None:
    make = {"polars": "Series", "pandas": "Series", "torch": "tensor", "awkward": "Array"}
    array = getattr(pytest.importorskip(library), make.get(library, "array"))
    assert array([0.0, 1.0]) in FLAT
    assert array([1.0, 0.0]) not in FLAT
    assert [array([0.0, 1.0, 2.0]), array([3.0])] in NESTED


def test_na_of_pandas_is_not_found() -> None:
    pandas = pytest.importorskip("pandas")
    assert pandas.NA not in FLAT
    assert [pandas.NA, 1.0] not in FLAT
