"""Dtypes of ops: the common dtype of several arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest

from lodcli import LoDTensor, ops
from lodcli.kernels.errors import NotDefinedError, NotFloatingError
from lodcli.kernels.ops.dtypes import common_dtype
from tests.strategies import BFLOAT16


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


@pytest.mark.parametrize("name", ["u1", "i2", "u4", "i8", "f2", "f4", "f8", "c8"])
def test_the_common_dtype_of_bfloat16_is_that_of_numpys_sums(name: str) -> None:
    other = np.dtype(name)
    found = np.add(np.ones(1, BFLOAT16), np.ones(1, other)).dtype
    assert common_dtype(BFLOAT16, other) == common_dtype(other, BFLOAT16) == found


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_bfloat16_goes_beside_float16_and_whole_numbers(backend: ops.Backend) -> None:
    words = LoDTensor(np.arange(3).astype(BFLOAT16), [[2, 1]])
    for name in ("i8", "f2"):
        other = words.with_data(np.arange(3, dtype=name))
        for one, two in ((words, other), (other, words)):
            assert ops.dot(one, two, backend=backend).data.tolist() == [1, 4]
    scanned = ops.linear_scan(words, words.astype("float16"), backend=backend)
    assert scanned.dtype == np.float32
    assert scanned.data.tolist() == [0, 1, 2]
    rows = LoDTensor(words.data[:, None], words.lod)
    assert ops.row_conv(rows, np.ones((1, 1), np.float16), backend=backend).dtype == np.float32


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ops.attention(x, x, x),
        lambda x: ops.conv(x, np.ones((1, 1)), context_length=1, context_start=0),
        lambda x: ops.conv(
            LoDTensor(np.ones((3, 1)), x.lod), x.data[:1], context_length=1, context_start=0
        ),
        lambda x: ops.row_conv(x, np.ones((1, 1))),
        lambda x: ops.topk_avg_pooling(x, x.lod, x.lod, topks=[1], channel_num=1),
    ],
)
def test_ops_of_floating_numbers_name_a_dtype_only_where_no_part_is_lost(
    call: Callable[[LoDTensor], Any],
) -> None:
    whole = LoDTensor(np.arange(3)[:, None], [[2, 1]])
    remedy = r"expected floating numbers, found int64; convert them with astype\('float32'\)"
    with pytest.raises(NotFloatingError, match=remedy):
        call(whole)
    with pytest.raises(NotDefinedError, match=r"found complex128$"):
        call(whole.astype("c16"))
