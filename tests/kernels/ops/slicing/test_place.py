"""Rows put back in ranges: the compiled twin against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from lodcli.kernels.ops.slicing.slice import segment_place
from lodcli.kernels.runtime.dispatch import Backend, on
from tests.cases_ops import on_every_backend

# Bytes of a row: of one word, of none, and around the width of a vector.
WIDTHS = (0, 1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 48, 63, 64, 65, 200)


@on_every_backend
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("gaps", [False, True], ids=["all rows", "gaps"])
def test_ranges_are_put_in_their_places_and_zeros_elsewhere(
    width: int, gaps: bool, backend: Backend
) -> None:
    rng = np.random.default_rng(width)
    lengths = rng.integers(0, 6, 300)
    rooms = lengths + gaps * rng.integers(0, 3, lengths.size)
    order = rng.permutation(lengths.size)
    starts = np.empty(lengths.size, np.int64)
    starts[order] = np.cumsum(rooms[order]) - rooms[order]
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    rows = rng.integers(1, 255, (int(lengths.sum()), width)).astype(np.uint8)
    expected = [[0] * width for _ in range(int(rooms.sum()))]
    for start, first, length in zip(starts, offsets[:-1], lengths, strict=True):
        for row in range(length):
            expected[start + row] = rows[first + row].tolist()
    found = on(backend, segment_place)(rows, starts, offsets, len(expected))
    assert found.tolist() == expected
    assert found.dtype == np.uint8


@on_every_backend
def test_many_pieces_and_strided_rows_are_put_in_their_places(backend: Backend) -> None:
    rows = np.arange(1 << 18, dtype=np.float64).reshape(-1, 4)[:, ::2]  # 1 MiB, in 4 pieces
    offsets = np.array([0, 1, 60_000, len(rows)])
    found = on(backend, segment_place)(rows, np.array([65_535, 5536, 0]), offsets, len(rows))
    back = np.concatenate((rows[60_000:], rows[1:60_000], rows[:1]))
    np.testing.assert_array_equal(found, back)


@on_every_backend
def test_no_ranges_and_no_rows_leave_zeros(backend: Backend) -> None:
    none = np.zeros(0, np.int64)
    found = on(backend, segment_place)(np.ones((0, 2)), none, np.array([0]), 3)
    np.testing.assert_array_equal(found, np.zeros((3, 2)))
    empty = on(backend, segment_place)(np.ones((0, 2)), np.array([1, 0]), np.array([0, 0, 0]), 0)
    assert empty.shape == (0, 2)
