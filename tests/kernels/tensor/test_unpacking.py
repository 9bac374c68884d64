"""Cutting sequences into time steps and joining them again, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.immutable import is_immutable
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from lodcli.kernels.tensor.time_steps import IndexMap, index_map_of, to_steps
from tests.oracles import by_length, gathered, lengths_of, rows_of, sequences_of, steps_of, tree_of
from tests.strategies import tensors

ARTICLES = LoDTensor(
    np.arange(15),
    LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"]),
)


def values(array: TensorArray) -> list[Any]:
    return [value.data.tolist() for value in array]


# -- unpack and pack -------------------------------------------------------------------


def test_seed_003_is_cut_into_steps_as_drawn() -> None:
    # xxxx / xx / xxx -> xxxx / xxx / xx -> four steps of 3, 3, 2, 1.
    words = LoDTensor(np.array([10, 11, 12, 13, 20, 21, 30, 31, 32]), [[4, 2, 3]])
    array, index_map = TensorArray.unpack(words)
    assert np.asarray(index_map).tolist() == [0, 2, 1]
    assert index_map.step_sizes.tolist() == [3, 3, 2, 1]
    assert values(array) == [[10, 30, 20], [11, 31, 21], [12, 32], [13]]
    unsorted, index_map = TensorArray.unpack(words, sort_by_length=False)
    assert index_map.order.tolist() == [0, 1, 2]
    assert values(unsorted) == [[10, 20, 30], [11, 21, 31], [12, 32], [13]]


def test_steps_of_an_upper_level_are_whole_sentences() -> None:
    array, index_map = TensorArray.unpack(ARTICLES, "article")
    assert index_map.order.tolist() == [0, 2, 1]
    assert [value.recursive_sequence_lengths() for value in array] == [
        [[3, 2, 1]],
        [[2, 3]],
        [[4]],
    ]
    assert values(array) == [[0, 1, 2, 10, 11, 9], [3, 4, 12, 13, 14], [5, 6, 7, 8]]
    assert array.read(0).lod.names == ("sentence",)
    assert index_map.outer == ARTICLES.lod.above("sentence")


@given(tensors(min_levels=1, any_bits=True), st.booleans(), st.data())
def test_unpack_is_the_loop_and_pack_its_exact_inverse(
    tensor: LoDTensor, sort: bool, data: st.DataObject
) -> None:
    levels = tensor.lod.n_levels
    level = data.draw(st.integers(0, levels - 1))
    sequences = sequences_of(tree_of(tensor.recursive_sequence_lengths(), tensor.rows), level)
    order = by_length(sequences) if sort else list(range(len(sequences)))
    array, index_map = TensorArray.unpack(tensor, level, sort)
    assert index_map.order.tolist() == order
    expected = steps_of(sequences, order)
    assert array.size() == len(expected)
    assert index_map.step_sizes.tolist() == [len(step) for step in expected]
    for value, step in zip(array, expected, strict=True):
        assert value.recursive_sequence_lengths() == lengths_of(step, levels - level - 1)
        assert value.data.tobytes() == gathered(tensor.data, rows_of(step)).tobytes()
        assert value.lod.names == tensor.lod.names[level + 1 :]
    packed = array.pack(level, index_map)
    assert packed.identical(tensor)
    assert array.pack(level - levels, index_map).identical(tensor)
    # The same values, written one by one as a loop would.
    if array.size():
        assert TensorArray(values=list(array)).pack(level, index_map).identical(tensor)
    if level == levels - 1:
        assert packed.lod is tensor.lod


def test_sorted_batches_are_prefixes_of_the_one_before() -> None:
    places = LoDTensor(np.repeat(np.arange(5), [2, 0, 3, 1, 3]), [[2, 0, 3, 1, 3]])
    batches = values(TensorArray.unpack(places)[0])
    assert batches == [[2, 4, 0, 3], [2, 4, 0], [2, 4]]


@pytest.mark.parametrize("sort", [True, False])
@pytest.mark.parametrize("longest", [5, 300, 66_000])
def test_many_ties_keep_their_order_whatever_the_longest_length(longest: int, sort: bool) -> None:
    # Enough equal keys for an unstable sort to show; step numbers of 8, 16 and 32 bits.
    lengths = [*np.random.default_rng(6).integers(0, 5, 60).tolist(), longest, 3]
    words = LoDTensor(np.arange(sum(lengths)), [lengths])
    sequences = tree_of([lengths], words.rows)
    order = by_length(sequences) if sort else list(range(len(lengths)))
    array, index_map = TensorArray.unpack(words, sort_by_length=sort)
    assert array.steps.data.tolist() == rows_of(steps_of(sequences, order))
    assert array.pack(0, index_map).identical(words)


def test_other_values_of_the_same_sizes_are_packed() -> None:
    array, index_map = TensorArray.unpack(ARTICLES, "sentence")
    outputs = TensorArray()
    for step, value in enumerate(array):
        rows = value.data.astype(np.float32)
        outputs.write(step, np.stack([rows, -rows], axis=1))
    packed = outputs.pack("sentence", index_map)
    assert packed.lod is ARTICLES.lod
    assert packed.dtype == np.dtype(np.float32)
    np.testing.assert_array_equal(packed.data, np.stack([np.arange(15), -np.arange(15)], axis=1))


def test_one_state_a_sentence_is_packed_into_articles() -> None:
    array, index_map = TensorArray.unpack(ARTICLES, "article")
    firsts = TensorArray(
        values=[np.array([sentence.data[0] for sentence in value]) for value in array]
    )
    packed = firsts.pack("article", index_map)
    assert packed.lod.names == ("article",)
    assert packed.recursive_sequence_lengths() == [[3, 1, 2]]
    assert packed.data.tolist() == [0, 3, 5, 9, 10, 12]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([3, 3, 2], "expected 4 steps, found 3"),
        ([3, 3, 2, 1, 1], "expected 4 steps, found 5"),
        ([3, 3, 3, 1], "step 2: expected 2 items, found 3"),
        ([0, 3, 2, 1], "step 0: expected 3 items, found 0"),
    ],
)
def test_steps_that_do_not_fit_the_map_are_named(sizes: list[int], message: str) -> None:
    index_map = index_map_of(LoD.from_lengths([[4, 2, 3]]))
    array = TensorArray(values=[np.zeros(size) for size in sizes])
    with pytest.raises(ShapeMismatchError, match=message):
        array.pack(0, index_map)


def test_pack_refuses_another_level_a_gap_and_unequal_values() -> None:
    array, index_map = TensorArray.unpack(ARTICLES, "article")
    with pytest.raises(SelectionError, match="pack at level 1: the index map is of level 0"):
        array.pack(1, index_map)
    with pytest.raises(SelectionError, match="no level named 'sentence'"):
        array.pack("sentence", index_map)
    array.write(1, np.zeros(2))
    with pytest.raises(ShapeMismatchError, match="step 1 cannot be joined with step 0: dtype"):
        array.pack("article", index_map)
    with pytest.raises(SelectionError, match="step 0 was never written"):
        TensorArray(3).pack("article", index_map)


def test_a_plain_tensor_has_nothing_to_unpack() -> None:
    with pytest.raises(SelectionError, match="no level -1: there are 0 levels"):
        TensorArray.unpack(LoDTensor(np.zeros(3)))


# -- the index map ---------------------------------------------------------------------


def test_an_index_map_is_a_value() -> None:
    outer = LoD.from_lengths([[1, 2]])
    mine = np.array([1, 0])
    index_map = IndexMap(mine, outer)
    mine[0] = 0
    assert index_map.order.tolist() == [1, 0]
    assert is_immutable(index_map.order)
    same = IndexMap(np.array([1, 0], np.int32), LoD.from_lengths([[1, 2]]))
    assert index_map == same
    assert hash(index_map) == hash(same)
    assert index_map != IndexMap(np.array([0, 1]), outer)
    assert index_map != IndexMap(np.array([1, 0]), LoD.from_lengths([[2, 1]]))
    assert index_map != "map"
    assert np.asarray(index_map, np.int32).dtype == np.int32
    assert np.array(index_map).flags.writeable


@pytest.mark.parametrize(
    ("order", "outer", "message"),
    [
        ([0, 2], [[1, 2]], "order, position 1: no sequence 2, there are 2"),
        ([-1, 0], [[1, 2]], "order, position 0: no sequence -1"),
        ([0, 0], [[1, 2]], "order: sequence 0 comes 2 times, expected once"),
        ([0], [[1, 2]], "order: expected 2 sequences, found 1"),
        ([0.0, 1.0], [[1, 2]], "whole numbers, found 1 dimensions of float64"),
        ([[0, 1]], [[1, 2]], "found 2 dimensions"),
        ([], [], "at least one level"),
    ],
)
def test_a_map_that_loses_sequences_is_refused(
    order: Any, outer: list[list[int]], message: str
) -> None:
    with pytest.raises(InvalidDataError, match=message):
        IndexMap(np.array(order), LoD.from_lengths(outer))


def test_a_map_of_another_tensor_is_refused() -> None:
    index_map = index_map_of(LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 3, 2]]))
    with pytest.raises(ShapeMismatchError, match="level 1, item 4 has length 3 against 2"):
        to_steps(ARTICLES, index_map)
