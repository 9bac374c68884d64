"""What is too large for windows of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.ops.conv import im2sequence
from lodcli.kernels.runtime.dispatch import on

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("kernel", [1, 70000])
def test_more_windows_or_columns_than_32_bits_count_are_an_error(kernel: int) -> None:
    sizes = {"kernels": (kernel, kernel), "strides": (1, 1), "paddings": (0, 0, 70000, 70000)}
    pictures = cupy.asarray(np.ones((1, 1, 1, 1), np.uint8))
    with pytest.raises(UnsupportedError, match=r"less than 4294967296 .* main memory"):
        on("cupy", im2sequence.im2sequence_rows)(pictures, **sizes)
