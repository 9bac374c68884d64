"""Rank tables against PaddlePaddle 2.6.2, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.ranking.rank_table import (
    sequence_from_steps,
    sequence_max_sequence_len,
    sequence_rank_table,
    sequence_reorder_by_rank,
    sequence_reorder_by_rank_grad,
    sequence_shrink_memory,
    sequence_shrink_memory_grad,
    sequence_sort_by_length,
    sequence_to_steps,
)
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.cases_ops import golden
from tests.golden_data import GoldenCase, GoldenSlot, tensor_of
from tests.oracles import by_length, gathered, lengths_of, rows_of, sequences_of, tree_of
from tests.strategies import FLOATS, tensors


def same(found: LoDTensor, slot: GoldenSlot) -> None:
    assert found.identical(tensor_of(slot)), (found, slot)


@golden("lod_rank_table")
def test_golden_rank_table(case: GoldenCase) -> None:
    table = sequence_rank_table(LoD(case.inputs["X"].lod), case.attrs["level"])
    assert table.dtype == np.int64
    np.testing.assert_array_equal(table, case.outputs["Items"].data)


@golden("max_sequence_len")
def test_golden_max_sequence_len(case: GoldenCase) -> None:
    assert sequence_max_sequence_len(case.inputs["RankTable"].data) == case.outputs["Out"].data[0]


@golden("lod_tensor_to_array")
def test_golden_steps(case: GoldenCase) -> None:
    table = case.inputs["RankTable"].data
    array = sequence_to_steps(case.tensor("X"), table, case.attrs["level"])
    for found, slot in zip(array, case.outputs["Out"], strict=True):
        same(found, slot)


@golden("array_to_lod_tensor")
def test_golden_steps_undone(case: GoldenCase) -> None:
    array = TensorArray(values=[tensor_of(slot) for slot in case.inputs["X"]])
    table, level, out = case.inputs["RankTable"].data, case.attrs["level"], case.outputs["Out"]
    # Paddle's table includes the levels above; here they are passed. With one level it has all.
    outer = LoD(out.lod[: level + 1]) if level else None
    same(sequence_from_steps(array, table, outer), out)


@golden("reorder_lod_tensor_by_rank")
def test_golden_reorder_and_its_gradient(case: GoldenCase) -> None:
    table = case.inputs["RankTable"].data
    same(sequence_reorder_by_rank(case.tensor("X"), table), case.outputs["Out"])
    upstream = tensor_of(case.upstream["Out"])
    same(sequence_reorder_by_rank_grad(upstream, case.tensor("X"), table), case.grads["X"])


@golden("shrink_rnn_memory")
def test_golden_shrink_and_its_gradient(case: GoldenCase) -> None:
    x = case.tensor("X")
    table, step = case.inputs["RankTable"].data, int(case.inputs["I"].data[0])
    same(sequence_shrink_memory(x, table, step), case.outputs["Out"])
    upstream = tensor_of(case.upstream["Out"])
    same(sequence_shrink_memory_grad(upstream, x, table, step), case.grads["X"])


# -- by hand, and against loops --------------------------------------------------------


def test_ties_keep_their_order_and_the_empty_come_last() -> None:
    table = sequence_rank_table(LoD.from_lengths([[1, 0, 2, 1, 2]]))
    assert table.tolist() == [[2, 2], [4, 2], [0, 1], [3, 1], [1, 0]]
    assert sequence_max_sequence_len(table) == 2


def test_a_batch_of_none_has_a_table_of_none() -> None:
    table = sequence_rank_table(LoD([[0]]))
    assert table.shape == (0, 2)
    assert sequence_max_sequence_len(table) == 0
    words = LoDTensor(np.zeros((0, 3), np.float32), LoD([[0]]))
    array = sequence_to_steps(words, table)
    assert array.size() == 0
    assert sequence_from_steps(array, table).identical(words)


@given(tensors(min_levels=1, any_bits=True), st.data())
def test_steps_are_undone_at_every_level(tensor: LoDTensor, data: st.DataObject) -> None:
    level = data.draw(st.integers(0, tensor.lod.n_levels - 1))
    sequences = sequences_of(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), level)
    table = sequence_rank_table(tensor.lod, level)
    order = by_length(sequences)
    assert table.tolist() == [[number, len(sequences[number])] for number in order]
    assert sequence_max_sequence_len(table) == max((len(items) for items in sequences), default=0)
    array = sequence_to_steps(tensor, table, level)
    unpacked, index_map = TensorArray.unpack(tensor, level)
    assert array.identical(unpacked)
    assert sequence_from_steps(array, table, index_map.outer).identical(tensor)


@given(tensors(min_levels=1, any_bits=True), st.data())
def test_sequences_are_sorted_and_reordered_whole(tensor: LoDTensor, data: st.DataObject) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, levels - 1))
    sequences = sequences_of(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), level)
    part = [sequences[number] for number in by_length(sequences)]
    found = sequence_sort_by_length(tensor, level)
    assert found.recursive_sequence_lengths() == lengths_of(part, levels - level)
    assert found.data.tobytes() == gathered(tensor.data, rows_of(part)).tobytes()
    if level == 0:
        # Empty sequences too, which Paddle refuses to reorder.
        table = sequence_rank_table(tensor.lod)
        assert sequence_reorder_by_rank(tensor, table).identical(found)
        assert sequence_reorder_by_rank_grad(found, tensor, table).identical(tensor)


@given(
    tensors(FLOATS, [(2,)], max_levels=1), tensors(min_levels=1, max_levels=1), st.integers(0, 4)
)
def test_a_shrunk_memory_is_the_living_and_its_gradient_their_own(
    x: LoDTensor, batch: LoDTensor, step: int
) -> None:
    table = sequence_rank_table(batch.lod)
    alive = sum(length > step for length in batch.recursive_sequence_lengths()[0])
    if len(x) < alive:
        with pytest.raises(ShapeMismatchError, match=f"step {step}: expected at least {alive}"):
            sequence_shrink_memory(x, table, step)
        return
    shrunk = sequence_shrink_memory(x, table, step)
    assert len(shrunk) == alive
    assert not shrunk.data.size or np.shares_memory(shrunk.data, x.data)
    gradient = sequence_shrink_memory_grad(shrunk * 3, x, table, step)
    assert gradient.lod is x.lod
    # The gradient is linear: both directional derivatives agree in any direction.
    np.testing.assert_array_equal(gradient.data[: shrunk.rows], 3 * shrunk.data)
    assert not gradient.data[shrunk.rows :].any()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([0, 1], r"\(S, 2\) whole numbers, found int64 of shape \(2,\)"),
        ([[0.0, 1.0]], "found float64"),
        ([[0, 1], [0, 1]], "each sequence 0 to 1 once"),
        ([[1, 1], [2, 1]], "each sequence 0 to 1 once"),
        ([[0, 1], [1, 3]], "row 1: longest first .expected at most 1, found 3"),
        ([[0, -1]], "negative|0 or more"),
    ],
)
def test_an_invalid_rank_table_is_an_error(table: Any, message: str) -> None:
    array = TensorArray(values=[np.zeros(2)])
    with pytest.raises(InvalidDataError, match=message):
        sequence_from_steps(array, table)


def test_a_table_of_more_steps_than_memory_holds_is_refused() -> None:
    array = TensorArray(values=[np.zeros(1)])
    with pytest.raises(ShapeMismatchError, match=f"expected {2**62} steps, found 1"):
        sequence_from_steps(array, [[0, 2**62]])


def test_tables_of_other_lengths_are_refused() -> None:
    words = LoDTensor(np.arange(6), [[1, 3, 2]])
    table = sequence_rank_table(LoD.from_lengths([[2, 3, 1]]))
    with pytest.raises(ShapeMismatchError, match=r"does not fit level 0: .*item 0"):
        sequence_to_steps(words, table)
    with pytest.raises(InvalidDataError, match="outer: expected an index of at least one level"):
        sequence_from_steps(TensorArray(values=[np.zeros(1)]), [[0, 1]], LoD())
    with pytest.raises(ShapeMismatchError, match="has 3 sequences, the tensor 2 items"):
        sequence_reorder_by_rank(words[:2], table)
    with pytest.raises(ShapeMismatchError, match=r"result's shape \(1,\), found \(3,\)"):
        sequence_shrink_memory_grad(np.zeros(3), LoDTensor(np.zeros(3)), table, 2)
    with pytest.raises(SelectionError, match="no step -1"):
        sequence_shrink_memory(words, table, -1)
    with pytest.raises(SelectionError, match="no level 1"):
        sequence_rank_table(words.lod, 1)
