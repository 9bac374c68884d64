"""Rows of every width, dtype and alignment: whoever reads them, the results are the same."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.backends import on
from lodcli.kernels.checks import lengths_to_offsets
from lodcli.kernels.ops import pool

cupy: Any = pytest.importorskip("cupy", reason="the cupy package is not installed")
at_once: Any = importlib.import_module("lodcli.kernels.on_cupy.launch").at_once
pytestmark = pytest.mark.gpu

# Narrow ones; such as are read a value, two or four at a time; more than a block has threads.
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 16, 31, 64, 65, 130, 1028)
# Ends of tiles, lengths that leave a remainder of rows read together, and a long sequence.
LENGTHS = [0, 3, 1, 61, 5, 0, 0, 64, 17, 65, 1, 190, 2, 0, 258, 4, 700, 9, 0]
OFFSETS = lengths_to_offsets(np.array(LENGTHS), level=0)
# What sums of that many values between -1 and 1 lose to rounding, in units of the last place.
ROUNDINGS = 64

Op = Callable[..., Any]
OPS: tuple[Op, ...] = (pool.segment_sum, pool.segment_max_index)


def rows_of(width: int, dtype: Any, offsets: Any = OFFSETS) -> Any:
    rows = np.random.default_rng(width).uniform(-1, 1, size=(int(offsets[-1]), width))
    return rows.astype(dtype)


def compared(op: Op, rows: Any, offsets: Any = OFFSETS) -> None:
    """Compare an op on the device with NumPy's, which is given the same values in float64."""
    found = _parts(on("cupy", op)(cupy.asarray(rows), offsets))
    wanted = _parts(op(rows.astype(np.float64), offsets))
    limit = ROUNDINGS * 2.0 ** {2: -10, 4: -23, 8: -52}[rows.itemsize]
    for there, here in zip(found, wanted, strict=True):
        values = cupy.asnumpy(there).astype(here.dtype)
        np.testing.assert_allclose(values, here, rtol=limit, atol=limit)


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


@pytest.mark.parametrize("op", OPS)
def test_every_width(op: Op) -> None:
    for width in WIDTHS:
        compared(op, rows_of(width, np.float32))


# Eight and two values at a time.
@pytest.mark.parametrize(("op", "dtype"), [(pool.segment_sum, "f2"), (pool.segment_sum, "f8")])
def test_every_precision(op: Op, dtype: Any) -> None:
    compared(op, rows_of(16, dtype))


# A view that begins so many values into an array that is aligned.
@pytest.mark.parametrize("skipped", [1, 2])
@pytest.mark.parametrize("width", [1, 16])
@pytest.mark.parametrize("op", OPS)
def test_rows_that_lie_anywhere_give_the_same_bits(op: Op, width: int, skipped: int) -> None:
    rows = cupy.asarray(rows_of(width, np.float32))
    larger = cupy.empty(rows.size + 4, np.float32)
    larger[skipped : skipped + rows.size] = rows.reshape(rows.size)
    view = larger[skipped : skipped + rows.size].reshape(rows.shape)
    assert at_once(16, rows) == 4
    assert at_once(16, view) == skipped
    for there, here in zip(
        *(_parts(on("cupy", op)(one, OFFSETS)) for one in (view, rows)), strict=True
    ):
        assert cupy.asnumpy(there).tobytes() == cupy.asnumpy(here).tobytes()


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("op", OPS)
def test_one_sequence_beside_empty_ones(op: Op, width: int) -> None:
    offsets = lengths_to_offsets(np.array([0] * 300 + [70_001] + [0] * 300 + [3]), level=0)
    compared(op, rows_of(width, np.float32, offsets), offsets)


def test_results_that_lie_anywhere_are_written_all_the_same() -> None:
    rows = cupy.asarray(rows_of(16, np.float32))
    wanted = on("cupy", pool.segment_sum)(rows, OFFSETS)
    larger = cupy.empty(wanted.size + 1, np.float32)
    out = larger[1:].reshape(wanted.shape)
    on("cupy", pool.segment_sum)(rows, OFFSETS, out=out)
    assert cupy.asnumpy(out).tobytes() == cupy.asnumpy(wanted).tobytes()
