"""Lengths as skewed as they come: no thread of a GPU's kernels has much more to do than another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.lod import LoD
from lodcli.kernels.ops.table import OPS
from lodcli.kernels.tensor import LoDTensor

cupy: Any = pytest.importorskip("cupy", reason="the cupy package is not installed")
pytestmark = pytest.mark.gpu

# One long sequence, empty ones on both sides of it, and a short one at the end.
LENGTHS = [0] * 298 + [1435] + [0] * 298 + [3]
OF_EACH_ROW = ("softmax", "log_softmax", "reverse", "cumsum")
OF_EACH_SEQUENCE = ("sum", "mean", "max", "min", "max_index", "min_index", "first", "last")
# Sums of 1,435 float32 in another order.
TOLERANCE = 2e-5


def compared(name: str, tensor: LoDTensor) -> None:
    function = OPS[name].load()
    wanted, found = function(tensor, backend="numpy"), function(tensor.to_device("cuda"))
    parts = zip(_parts(wanted), _parts(found), strict=True)
    for here, there in parts:
        assert here.lod == there.lod
        np.testing.assert_allclose(
            cupy.asnumpy(there.data), here.data, rtol=TOLERANCE, atol=TOLERANCE
        )


def _parts(value: Any) -> tuple[LoDTensor, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("name", [*OF_EACH_ROW, *OF_EACH_SEQUENCE])
def test_a_long_sequence_among_empty_ones(name: str, width: int) -> None:
    rows = np.random.default_rng(1).normal(size=(sum(LENGTHS), width)).astype(np.float32)
    compared(name, LoDTensor(rows, LoD.from_lengths([LENGTHS])))


@pytest.mark.parametrize("name", ["softmax", "max_index", "reverse", "cumsum"])
def test_sequences_that_end_where_a_tile_does(name: str) -> None:
    lengths = [64, 0, 1, 63, 128, 0, 0, 65, 191, 5]
    rows = np.random.default_rng(2).normal(size=(sum(lengths), 2)).astype(np.float32)
    compared(name, LoDTensor(rows, LoD.from_lengths([lengths])))
