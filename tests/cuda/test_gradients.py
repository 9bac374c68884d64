"""Gradients that write zeros for rows without a gradient, into memory with other values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.kernels.ops.pooling import pool, pool_grad
from lodcli.kernels.ops.scan import linear_scan
from lodcli.kernels.runtime.dispatch import on

cupy: Any = pytest.importorskip("cupy")
pytestmark = pytest.mark.gpu

LENGTHS = [0, 0, 5, 64, 0, 1, 130, *[0] * 70, 33, 2, 0]
OFFSETS = lengths_to_offsets(np.array(LENGTHS), level=0)
ROWS = int(OFFSETS[-1])


@pytest.fixture(autouse=True)
def used_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill new arrays with garbage."""
    monkeypatch.setattr(cupy, "empty", lambda shape, dtype: cupy.full(shape, 77, dtype))


@pytest.mark.parametrize("width", [1, 3, 8, 16, 130])
@pytest.mark.parametrize("dtype", ["f2", "f4", "c16"])
def test_a_gradient_goes_to_the_rows_taken(width: int, dtype: str) -> None:
    draws = np.random.default_rng(3)
    rows = draws.integers(0, 9, (ROWS, width)).astype("f4")
    index = pool.segment_max_index(rows, OFFSETS)[1]
    flow = draws.integers(1, 99, index.shape).astype(dtype)
    wanted = pool_grad.segment_max_grad(flow, index, ROWS)
    assert np.count_nonzero(wanted) == np.count_nonzero(index >= 0)
    there = cupy.asarray(flow), cupy.asarray(index)
    found = on("cupy", pool_grad.segment_taken_grad)(*there, OFFSETS)
    np.testing.assert_array_equal(cupy.asnumpy(found), wanted, strict=True)


@pytest.mark.parametrize("width", [1, 70])
@pytest.mark.parametrize("reverse", [False, True])
def test_states_before_empty_segments_have_no_gradient(width: int, reverse: bool) -> None:
    draws = np.random.default_rng(4)
    a, h, flow = draws.uniform(-1, 1, (3, ROWS, width))
    initial = draws.uniform(-1, 1, (len(LENGTHS), width))
    there = [cupy.asarray(one) for one in (flow, a, h, initial)]
    options: dict[str, Any] = {"initial": there[3], "reverse": reverse}
    op = on("cupy", linear_scan.segment_linear_scan_grad)
    gradient = cupy.asnumpy(op(there[0], there[1], there[2], OFFSETS, **options)[2])
    assert not gradient[np.equal(LENGTHS, 0)].any()
    assert (gradient[np.not_equal(LENGTHS, 0)] != 0).all()
