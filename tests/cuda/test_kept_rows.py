"""Rows that are kept, in tiles of several heights: the results are those of NumPy."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.checks import lengths_to_offsets
from lodcli.kernels.ops.ids import ids
from lodcli.kernels.ops.sorting import sort
from lodcli.kernels.runtime.dispatch import on

cupy: Any = pytest.importorskip("cupy")
ids_cupy: Any = importlib.import_module("lodcli.kernels.ops.ids.ids_cupy")
pytestmark = pytest.mark.gpu

# Segments that end with a chunk of 1,024 rows, with a tile and between; also many without rows.
LENGTHS = [0, 0, 1000, 24, 0, 1, 1023, *[0] * 700, 2048, 5, 3000, 0, 1, 0]
OFFSETS = lengths_to_offsets(np.array(LENGTHS), level=0)
ROWS = int(OFFSETS[-1])


def same(found: Any, wanted: Any) -> None:
    for there, here in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(cupy.asnumpy(there), here, strict=True)


@pytest.fixture(params=[1, 3, 2048])
def most(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use at most this many tiles."""
    monkeypatch.setattr(ids_cupy, "MOST_TILES", request.param)


@pytest.mark.usefixtures("most")
@pytest.mark.parametrize("share", [0, 0.01, 0.6, 1])
@pytest.mark.parametrize(("width", "dtype"), [(1, "i8"), (3, "i2"), (40, "f8")])
def test_marked_rows_are_kept_in_their_order(share: float, width: int, dtype: str) -> None:
    draws = np.random.default_rng(0)
    rows, mask = draws.integers(0, 99, (ROWS, width)).astype(dtype), draws.random(ROWS) < share
    found = on("cupy", ids.segment_compress)(cupy.asarray(rows), OFFSETS, cupy.asarray(mask))
    same(found, ids.segment_compress(rows, OFFSETS, mask))


@pytest.mark.usefixtures("most")
@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8"])
def test_tokens_are_erased(dtype: str) -> None:
    rows = np.random.default_rng(1).integers(0, 256, ROWS).astype(dtype)
    for tokens in (np.unique(rows)[1::3], rows[:0], np.unique(rows)):
        found = on("cupy", ids.segment_erase)(cupy.asarray(rows), OFFSETS, tokens)
        same(found, ids.segment_erase(rows, OFFSETS, tokens))


@pytest.mark.usefixtures("most")
@pytest.mark.parametrize("most_values", [1, 3, 10000])
def test_runs_of_equal_values_are_as_long_as_they_are(most_values: int) -> None:
    rows = np.random.default_rng(2).integers(0, most_values, ROWS)
    found = on("cupy", sort.segment_unique)(cupy.asarray(rows), OFFSETS)
    same(found, sort.segment_unique(rows, OFFSETS))


def test_few_rows_of_a_large_array_do_not_keep_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, bounds = cupy.asarray(np.arange(64.0)), lengths_to_offsets(np.array([3, 5]), level=0)
    for limit, shares in ((1024, True), (100, False)):
        monkeypatch.setattr(ids_cupy, "SPARE_BYTES", limit)
        found = ids_cupy.trimmed(rows, bounds)
        assert cupy.may_share_memory(found, rows) == shares
        np.testing.assert_array_equal(cupy.asnumpy(found), np.arange(8.0))
