"""Ranges of rows, gathered by NumPy and by compiled code; keys that pick many sequences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import SelectionError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.slicing import row_ranges, row_ranges_native
from lodcli.kernels.ops.slicing.row_ranges import rows_of_ranges
from lodcli.kernels.simd import row_copies
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.time_steps import longest_first

SEQUENCES = 4_000
LENGTHS = np.random.default_rng(3).integers(0, 40, SEQUENCES)
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
ROWS = int(OFFSETS[-1])


def plainly(data: Any, items: Any) -> Any:
    """Return the rows of these sequences, one sequence at a time."""
    return np.concatenate([data[:0], *[data[OFFSETS[i] : OFFSETS[i + 1]] for i in items]])


@pytest.mark.parametrize("kernel", [row_ranges.segment_rows, row_ranges_native.segment_rows])
@pytest.mark.parametrize(("width", "dtype"), [(1, "u1"), (3, "f4"), (16, "f8"), (300, "i4")])
def test_ranges_in_any_order_are_copied_one_after_another(
    kernel: Any, width: int, dtype: str
) -> None:
    rng = np.random.default_rng(width)
    count = SEQUENCES if width < 100 else SEQUENCES // 10  # a test takes little memory
    data = rng.integers(0, 99, (OFFSETS[count], width), np.uint8).astype(dtype)
    items = rng.integers(0, count, count - count // 4)  # some more than once
    bounds = np.concatenate([[0], np.cumsum(LENGTHS[items])])
    found = kernel(data, OFFSETS[items], bounds)
    assert found.dtype == data.dtype
    np.testing.assert_array_equal(found, plainly(data, items))


@pytest.mark.parametrize("kernel", [row_ranges.numbered_rows, row_ranges_native.numbered_rows])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 12, 16, 31, 32, 63, 64, 65, 200])
def test_rows_are_copied_by_their_numbers(kernel: Any, width: int) -> None:
    rng = np.random.default_rng(width)
    count = row_copies.PIECE_BYTES // width + 9  # two pieces
    data = rng.integers(0, 99, (1_000, width), np.uint8)
    places = rng.integers(0, len(data), count)
    np.testing.assert_array_equal(kernel(data, places), data[places])
    assert kernel(data[:0], places[:0]).shape == (0, width)


@pytest.mark.parametrize("kernel", [row_ranges.segment_rows, row_ranges_native.segment_rows])
def test_no_ranges_and_no_rows_give_none(kernel: Any) -> None:
    none = np.zeros(0, np.int64)
    assert kernel(np.ones((5, 2)), none, np.zeros(1, np.int64)).shape == (0, 2)
    empty = np.zeros(3, np.int64)
    assert kernel(np.ones((0, 2)), empty[:2], empty).shape == (0, 2)


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("width", [1, 16])
def test_keys_of_many_sequences_pick_what_a_loop_picks(width: int, strided: bool) -> None:
    data = np.arange(ROWS * width * 2, dtype=np.float32).reshape(ROWS, 2 * width)
    data = data[:, ::2] if strided else data[:, :width].copy()
    tensor = LoDTensor(data, LoD.from_lengths([LENGTHS]))
    rng = np.random.default_rng(5)
    places, mask = rng.permutation(SEQUENCES)[:2_500], rng.random(SEQUENCES) < 0.5
    keys = [
        *((places, places), (places.astype(np.int32), places), (places.tolist(), places)),
        *((places - SEQUENCES, places), (mask, np.flatnonzero(mask))),
        (slice(None, None, -3), np.arange(SEQUENCES)[::-3]),
        (np.zeros(0, np.int64), []),
    ]
    for key, items in keys:
        found = tensor[key]
        np.testing.assert_array_equal(found.data, plainly(data, items))
        np.testing.assert_array_equal(found.lod.lengths(), LENGTHS[np.asarray(items, np.int64)])


def test_keys_pick_whole_items_of_nested_levels() -> None:
    upper = [10] * (SEQUENCES // 10)
    data = np.arange(ROWS, dtype=np.int64)
    tensor = LoDTensor(data, LoD.from_lengths([upper, LENGTHS]))
    picks = np.array([7, 0, 399, 7])
    found = tensor[picks]
    inner = (picks[:, np.newaxis] * 10 + np.arange(10)).reshape(-1)
    np.testing.assert_array_equal(found.data, plainly(data, inner))
    assert found.recursive_sequence_lengths() == [[10] * 4, LENGTHS[inner].tolist()]


def test_setting_picked_sequences_sets_their_rows() -> None:
    tensor = LoDTensor(np.zeros(ROWS), LoD.from_lengths([LENGTHS]))
    tensor[[3, 1]] = 1
    assert tensor.data.sum() == LENGTHS[1] + LENGTHS[3]


def test_a_key_is_not_changed_and_one_beyond_the_end_is_reported() -> None:
    tensor = LoDTensor(np.zeros(ROWS), LoD.from_lengths([LENGTHS]))
    key = np.array([-1, 2])
    assert len(tensor[key]) == 2
    assert key.tolist() == [-1, 2]
    with pytest.raises(SelectionError, match="no item 4000, there are 4000"):
        tensor[np.array([0, SEQUENCES])]


def test_ranges_of_strided_rows_are_those_of_their_copy() -> None:
    data = np.arange(ROWS * 4.0).reshape(ROWS, 4)[:, ::2]
    bounds = np.array([0, LENGTHS[5], LENGTHS[5] + LENGTHS[2]])
    found = rows_of_ranges(data, OFFSETS[[5, 2]], bounds)
    np.testing.assert_array_equal(found, plainly(data, [5, 2]))


@pytest.mark.parametrize("most", [0, 1, 255, 256, 65_535, 65_536, 1 << 40])
def test_longest_first_is_a_stable_order_of_any_lengths(most: int) -> None:
    lengths = np.random.default_rng(7).integers(0, most + 1, 600)
    lengths[:2] = most, 0
    for count in (0, 20, 600):
        want = sorted(range(count), key=lambda s: -int(lengths[s]))
        assert longest_first(lengths[:count]).tolist() == want
