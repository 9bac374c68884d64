"""The first row of which something is true; with tests/cuda/host on the path, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.scatter.scatter import segment_first_outside
from lodcli.kernels.ops.sorting.sort import segment_first_fall
from lodcli.kernels.runtime.dispatch import on

cupy: Any = pytest.importorskip("cupy")
from lodcli.kernels.cuda import first_row  # noqa: E402

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("places", [[], [0], [2099], [1500, 701, 700], [255, 256], [1024]])
def test_it_is_the_first_of_all_tiles(places: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_row, "MOST_TILES", 3)
    numbers = np.tile(np.arange(5), 420)
    for wrong in (5, -1):
        numbers[places] = wrong
        found = on("cupy", segment_first_outside)(cupy.asarray(numbers), 5)
        assert found == segment_first_outside(numbers, 5) == min(places, default=-1)
    # Sequences of 100 values that rise: one is less than the one before.
    offsets = LoD.from_lengths([[100] * 21]).levels[-1]
    values = np.arange(2100.0)
    falls = [place for place in places if place % 100]
    values[falls] = -1
    found = on("cupy", segment_first_fall)(cupy.asarray(values), offsets)
    assert found == segment_first_fall(values, offsets) == min(falls, default=-1)


def test_of_no_rows_none_is_found() -> None:
    empty, offsets = np.zeros(0, np.int64), np.zeros(1, np.int64)
    assert on("cupy", segment_first_outside)(cupy.asarray(empty), 5) == -1
    assert on("cupy", segment_first_fall)(cupy.asarray(empty), offsets) == -1
