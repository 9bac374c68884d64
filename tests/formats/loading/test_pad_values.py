"""The pad_value of `collate`: for which tensors, of which types, and compared."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import lodcli
from lodcli.errors import OptionError

torch: Any = pytest.importorskip("torch")
ours: Any = lodcli.torch


def test_a_pad_value_of_what_is_not_padded_is_an_error() -> None:
    pairs = [(torch.ones(2), 1), (torch.ones(3), 2)]
    padded, labels = ours.collate("padded", pad_value={"value 0": 7})(pairs)
    assert padded[0].tolist() == [[1, 1, 7], [1, 1, 1]]
    assert labels.tolist() == [1, 2]
    with pytest.raises(OptionError, match="pad_value: 'value 1' has one row per item"):
        ours.collate("padded", pad_value={"value 1": 7})(pairs)
    with pytest.raises(OptionError, match="expected one value, found a dict with 'x': the items"):
        ours.collate("padded", pad_value={"x": 7})([torch.ones(2), torch.ones(3)])


def test_a_pad_value_may_be_a_tensor_of_any_dtype() -> None:
    items = [torch.ones(2, dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16)]
    half = torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True)
    for value in (half, {"x": half}):
        named = [{"x": item} for item in items] if isinstance(value, dict) else items
        found = ours.collate("padded", pad_value=value)(named)
        rows, _ = found["x"] if isinstance(value, dict) else found
        assert rows.dtype is torch.bfloat16
        assert rows.tolist() == [[1, 1], [1, 0.5]]


def test_functions_with_equal_pad_values_are_equal() -> None:
    def made(value: Any) -> Any:
        return ours.collate("padded", pad_value=value)

    values: list[Any] = [0, 7, np.array([1, 2]), np.array([2, 1]), {"x": [1, 2]}, {"": 0}, {}]
    for place, value in enumerate(values):
        equal = pickle.loads(pickle.dumps(made(value)))
        assert made(value) == equal
        assert hash(made(value)) == hash(equal)
        assert all(made(value) != made(other) for other in values[place + 1 :])
    assert made([1, 2]) == made(torch.tensor([1, 2]))
    assert made(0) != 0
