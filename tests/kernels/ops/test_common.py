"""Shared helpers of ops: the common dtype of several arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from lodcli.kernels.ops.common import common_dtype


@pytest.mark.parametrize(
    "names", [["f4"], ["f4", "f4"], ["f4", "f8"], ["i4", "f4", "i8"], ["?", "?"]]
)
@pytest.mark.parametrize("order", ["<", ">", "="])
def test_the_common_dtype_is_numpys_in_the_order_of_the_machine(
    names: list[str], order: Literal["<", ">", "="]
) -> None:
    one = {name: np.dtype(name).newbyteorder(order) for name in names}  # the same object for each
    dtypes = [one[name] for name in names]
    found = common_dtype(*dtypes)
    assert found == np.result_type(*dtypes)
    assert found.isnative
