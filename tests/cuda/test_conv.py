"""Convolutions whose sums several blocks add up, and too large windows of pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.kernels.ops.conv import conv, im2sequence
from lodcli.kernels.runtime.dispatch import on

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

LENGTHS = [0, 3, 1, 30, 5, 0, 0, 17, 12, 1, 9, 2, 0, 25, 4, 0]


# Columns that share a block with others, and more than one block has; contexts of more than 8 rows.
@pytest.mark.parametrize(("width", "dtype"), [(3, "f8"), (64, "f4"), (300, "f8")])
@pytest.mark.parametrize("most", [1, 3, 512])
def test_sums_of_convolutions_are_added_up_by_the_last_block(
    width: int, dtype: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lodcli.kernels.ops.conv.conv_cupy.MOST_PARTS", most)
    draws, length, up = np.random.default_rng(width), 10, 4
    offsets = lengths_to_offsets(np.tile(LENGTHS, 80 if width == 3 else 8), level=0)
    rows, flow = draws.uniform(-1, 1, (2, int(offsets[-1]), width)).astype(dtype)
    weight, padding = (draws.uniform(-1, 1, (length - one, width)).astype(dtype) for one in (0, 1))
    matrix = draws.uniform(-1, 1, (length * width, 2)).astype(dtype)
    some: dict[str, Any] = {"context_start": -up, "stride": 1}
    there = [cupy.asarray(one) for one in (rows, flow, weight, padding, matrix)]
    given = rows, offsets, matrix, flow[:, :2]
    wanted = (
        *conv.segment_row_conv_grad(rows, offsets, weight, flow),
        *conv.segment_conv_grad(*given, padding=padding, **some),
    )
    given = there[0], offsets, there[4], there[1][:, :2]
    found = (
        *on("cupy", conv.segment_row_conv_grad)(there[0], offsets, there[2], there[1]),
        *on("cupy", conv.segment_conv_grad)(*given, padding=there[3], **some),
    )
    for one, expected in zip(found, wanted, strict=True):
        assert expected is not None
        # Sums over up to 8,720 rows.
        limit = 1e-3 if dtype == "f4" else 1e-10
        np.testing.assert_allclose(cupy.asnumpy(one), expected, rtol=limit, atol=limit)


@pytest.mark.parametrize("kernel", [1, 70000])
def test_more_windows_or_columns_than_32_bits_count_are_an_error(kernel: int) -> None:
    sizes = {"kernels": (kernel, kernel), "strides": (1, 1), "paddings": (0, 0, 70000, 70000)}
    pictures = cupy.asarray(np.ones((1, 1, 1, 1), np.uint8))
    with pytest.raises(UnsupportedError, match=r"at most 4294967295 .* main memory"):
        on("cupy", im2sequence.im2sequence_rows)(pictures, **sizes)
