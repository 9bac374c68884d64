"""TensorArray: reading and writing, stack and unstack, seed 004's RNNs."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.tensor.lod_tensor import LoDTensor
from lodcli.kernels.tensor.tensor_array import TensorArray
from tests.oracles import elman
from tests.strategies import tensors

ARTICLES = LoDTensor(
    np.arange(15),
    LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"]),
)


def values(array: TensorArray) -> list[Any]:
    return [value.data.tolist() for value in array]


# -- read and write --------------------------------------------------------------------


def test_an_array_grows_as_it_is_written() -> None:
    array = TensorArray()
    assert array.size() == len(array) == 0
    array.write(0, np.array([1, 2]))
    array.write(np.int64(1), LoDTensor(np.array([3, 4]), [[1, 1]]))
    assert array.size() == 2
    assert values(array) == [[1, 2], [3, 4]]
    assert array.read(1).recursive_sequence_lengths() == [[1, 1]]
    array.write(0, np.array([9.5]))
    assert values(array) == [[9.5], [3, 4]]


def test_values_given_at_the_start_are_there() -> None:
    array = TensorArray(size=3, values=[np.array([1]), np.array([2])])
    assert array.size() == 3
    assert array.read(1).data.tolist() == [2]
    assert TensorArray(values=[np.array([1])]).size() == 1


def test_a_gap_is_refused_by_name_wherever_it_is_read() -> None:
    array = TensorArray(values=[np.array([1])])
    array.write(3, np.array([4]))
    assert array.size() == 4
    assert repr(array) == "TensorArray(4 steps, 2 not written)"
    with pytest.raises(SelectionError, match="step 1 was never written"):
        array.read(1)
    for read in (array.stack, lambda: array.steps, lambda: list(array)):
        with pytest.raises(SelectionError, match="step 1 was never written"):
            read()


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (2, r"no step 2: there are 2 \(use 0 to 1\)"),
        (-1, "no step -1: there are 2"),
        (0.5, "a step is a whole number, not 0.5"),
        ("a", "a step is a whole number, not 'a'"),
    ],
)
def test_places_that_are_none_are_refused(index: Any, message: str) -> None:
    array = TensorArray(values=[np.array([1]), np.array([2])])
    with pytest.raises(SelectionError, match=message):
        array.read(index)
    with pytest.raises(SelectionError, match=r"no step 0: there are 0 \(none is valid"):
        TensorArray().read(0)


def test_nothing_is_written_before_the_start_or_made_of_a_negative_size() -> None:
    with pytest.raises(SelectionError, match="no step -1: steps start at 0"):
        TensorArray().write(-1, np.zeros(1))
    with pytest.raises(InvalidDataError, match="size: expected 0 or more, found -2"):
        TensorArray(-2)


def test_the_default_stands_in_for_what_was_never_written() -> None:
    states, boot = TensorArray(size=2), np.array([7.0])
    states.write(1, np.array([1.0]))
    assert [states.read(step, boot).data.tolist() for step in (-1, 0, 1, 2)] == [
        *([7.0], [7.0]),
        *([1.0], [7.0]),
    ]


def test_before_the_start_is_never_the_last_step() -> None:
    array, boot = TensorArray.from_steps(LoDTensor(np.arange(5), [[3, 2]])), np.array([7])
    assert array.read(-1, boot).data.tolist() == [7]
    with pytest.raises(SelectionError, match="no step -1: there are 2"):
        array.read(-1)


def test_written_data_is_shared_or_copied_as_asked() -> None:
    mine = np.array([1, 2])
    array = TensorArray()
    array.write(0, mine)
    array.write(1, mine, data_shared=False)
    mine[0] = 50
    assert values(array) == [[50, 2], [1, 2]]
    array.read(1).data[0] = 60
    assert mine[0] == 50


def test_setting_the_index_of_a_value_outside_does_not_reach_the_array() -> None:
    mine = LoDTensor(np.arange(3), [[1, 2]])
    array = TensorArray(values=[mine])
    mine.set_recursive_sequence_lengths([[3]])
    array.read(0).set_recursive_sequence_lengths([[2, 1]])
    assert array.read(0).recursive_sequence_lengths() == [[1, 2]]


# -- all values as one -----------------------------------------------------------------


@given(tensors(row_shapes=[(1,), (2, 3), (0, 2)], max_levels=0, any_bits=True))
def test_unstacked_rows_share_memory_and_stack_again(tensor: LoDTensor) -> None:
    array = TensorArray.unstack(tensor)
    assert array.size() == tensor.rows
    for index, value in enumerate(array):
        assert value.data.tobytes() == tensor.data[index].tobytes()
        assert value.data.ndim == tensor.data.ndim - 1
        assert not value.data.size or np.shares_memory(value.data, tensor.data)
    if tensor.rows:
        assert array.stack().identical(tensor)
    else:
        assert (array.steps.dtype, array.steps.row_shape) == (tensor.dtype, tensor.row_shape[1:])


def test_stacking_copies() -> None:
    mine = np.zeros((2, 3))
    stacked = TensorArray(values=[mine]).stack()
    assert stacked.data.shape == (1, 2, 3)
    assert not np.shares_memory(stacked.data, mine)


def test_a_tensor_array_is_made_by_unstacking_a_tensor() -> None:
    """As the seed says it: TensorArray step_inputs(unstack_from=input)."""
    box = np.arange(24).reshape(3, 4, 2)
    array = TensorArray(unstack_from=box)
    assert array.identical(TensorArray.unstack(box))
    assert np.shares_memory(array.read(1).data, box)
    assert len(TensorArray(unstack_from=np.zeros((0, 4, 2)))) == 0
    for other in ({"size": 3}, {"values": [box[0]]}):
        arguments: dict[str, Any] = {"unstack_from": box, **other}
        with pytest.raises(InvalidDataError, match="takes unstack_from alone"):
            TensorArray(**arguments)


def test_tensors_with_levels_and_single_numbers_are_not_unstacked() -> None:
    with pytest.raises(InvalidDataError, match="this one has 2 levels; use unpack"):
        TensorArray.unstack(ARTICLES)
    with pytest.raises(InvalidDataError, match=r"reshape to \(N, 1\)"):
        TensorArray.unstack(np.arange(3))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (np.zeros((3, 2)), "step 1 has 3 rows, step 0 has 2: unequal .*; use pack"),
        (np.zeros((2, 3)), r"step 1 .*row shape \(3,\) against \(2,\)"),
        (np.zeros((2, 2), np.float32), "step 1 .*dtype float32 against float64"),
        (LoDTensor(np.zeros((2, 2)), [[2]]), "step 1 .*number of levels 1 against 0"),
    ],
)
def test_unequal_values_do_not_stack(other: Any, message: str) -> None:
    with pytest.raises(ShapeMismatchError, match=message):
        TensorArray(values=[np.zeros((2, 2)), other]).stack()


def test_values_with_levels_do_not_stack() -> None:
    with pytest.raises(ShapeMismatchError, match="step 0 has levels and cannot be stacked; use"):
        TensorArray(values=[LoDTensor(np.zeros(2), [[2]])]).stack()


def test_no_values_have_no_shape() -> None:
    for read in (TensorArray().stack, lambda: TensorArray().steps):
        with pytest.raises(InvalidDataError, match="empty TensorArray cannot be"):
            read()


def test_steps_join_values_under_a_new_level() -> None:
    first = LoDTensor(np.arange(3), LoD.from_lengths([[1, 2]], ["word"]))
    array = TensorArray(values=[first, LoDTensor(np.arange(3, 5), [[2]])])
    assert array.steps.recursive_sequence_lengths() == [[2, 1], [1, 2, 2]]
    assert array.steps.lod.names == ("step", "word")
    assert array.steps.data.tolist() == [0, 1, 2, 3, 4]


@given(tensors(min_levels=1, any_bits=True))
def test_an_array_of_steps_is_views_and_gives_the_steps_back(steps: LoDTensor) -> None:
    array = TensorArray.from_steps(steps)
    assert array.size() == len(steps)
    assert array.steps.identical(steps)
    assert not steps.data.size or np.shares_memory(array.steps.data, steps.data)
    for value, item in zip(array, steps, strict=True):
        assert value.identical(item)
        assert not value.data.size or np.shares_memory(value.data, steps.data)


def test_values_written_over_steps_show_in_the_steps() -> None:
    array = TensorArray.from_steps(LoDTensor(np.arange(5), [[3, 2]]))
    array.write(0, np.array([7]))
    array.write(2, np.array([8, 9]))
    assert array.steps.recursive_sequence_lengths() == [[1, 2, 2]]
    assert array.steps.data.tolist() == [7, 3, 4, 8, 9]


def test_identical_compares_places_and_bits() -> None:
    array = TensorArray(size=3, values=[np.array([1]), np.array([2])])
    assert array.identical(TensorArray(size=3, values=[np.array([1]), np.array([2])]))
    for other in (
        TensorArray(size=2, values=[np.array([1]), np.array([2])]),
        TensorArray(size=3, values=[np.array([1])]),
        TensorArray(size=3, values=[np.array([1]), np.array([3])]),
        TensorArray(values=[np.array([1]), np.array([2]), np.array([3])]),
    ):
        assert not array.identical(other)


def test_places_that_were_never_written_take_no_time() -> None:
    array = TensorArray(size=10**18, values=[np.array([1])])
    array.write(10**17, np.array([2]))
    assert repr(array) == f"TensorArray({10**18} steps, {10**18 - 2} not written)"
    assert array.identical(array)
    assert not array.identical(TensorArray(size=10**18, values=[np.array([1])]))


# -- seed 004's RNNs -------------------------------------------------------------------


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def test_the_dynamic_rnn_of_seed_004() -> None:
    generator = np.random.default_rng(4)
    num_steps, batch = 12, 2
    inputs = generator.normal(size=(num_steps, 3, batch))
    w, u = generator.normal(size=(5, 3)), generator.normal(size=(5, 5))
    default_state = generator.normal(size=(5, batch))

    states = TensorArray(size=num_steps)
    step_inputs = TensorArray.unstack(inputs)
    step_outputs = TensorArray(size=num_steps)
    step = 0
    while True:
        if step == num_steps:
            break
        pre_state = states.read(step - 1, default_state)
        step_input = step_inputs.read(step)
        state = sigmoid(np.matmul(u, pre_state) + np.matmul(w, step_input))
        states.write(step, state)
        step_outputs.write(step, state)
        step += 1
    output = step_outputs.stack()

    assert output.data.shape == (num_steps, 5, batch)
    for member in range(batch):
        expected = elman(inputs[:, :, member], default_state[:, member], w.T, u.T)
        # float64 sums of a few products, in another order.
        np.testing.assert_allclose(output.data[:, :, member], expected, rtol=1e-12)


@pytest.mark.parametrize("sort_by_length", [True, False])
def test_the_rnn_over_sequences_of_unequal_length_of_seed_004(sort_by_length: bool) -> None:
    generator = np.random.default_rng(5)
    lod = LoD.from_lengths([[2, 0, 3], [3, 1, 4, 0, 2]])
    sentence_input = LoDTensor(generator.normal(size=(10, 3)), lod)
    w, u = generator.normal(size=(3, 4)), generator.normal(size=(4, 4))
    boot_state = generator.normal(size=(5, 4))

    ta, indice_map = TensorArray.unpack(sentence_input, level=1, sort_by_length=sort_by_length)
    alive = indice_map.order
    states, step_outputs = TensorArray(), TensorArray()
    for step in range(ta.size()):
        longer = lod.lengths(1)[alive] > step
        state = states.read(step - 1, boot_state[indice_map.order]).data[longer]
        alive = alive[longer]
        step_output = sigmoid(ta.read(step).data @ w + state @ u)
        states.write(step, step_output)
        step_outputs.write(step, step_output, data_shared=True)
    rnn_output = step_outputs.pack(1, indice_map)

    assert rnn_output.lod is lod
    start = 0
    for sentence, length in enumerate([3, 1, 4, 0, 2]):
        rows = sentence_input.data[start : start + length]
        expected = elman(rows, boot_state[sentence], w, u)
        # float64 sums of a few products, in another order.
        np.testing.assert_allclose(rnn_output.data[start : start + length], expected, rtol=1e-12)
        start += length


def gaps() -> TensorArray:
    """Return three places, of which the second is written."""
    array = TensorArray(3)
    array.write(1, np.ones((2, 2)))
    return array


def rewritten() -> TensorArray:
    """Return two steps of a tensor, of which the second is another now."""
    array = TensorArray.from_steps(LoDTensor(np.arange(5.0), [[3, 2]]))
    array.write(1, np.zeros(2))
    return array


@pytest.mark.parametrize("made", [TensorArray, gaps, rewritten])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_of_pickle_keeps_all_places(
    protocol: int, made: Callable[[], TensorArray]
) -> None:
    array = made()
    assert pickle.loads(pickle.dumps(array, protocol)).identical(array)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_grows_by_itself(copied: Callable[[TensorArray], TensorArray]) -> None:
    array = gaps()
    other = copied(array)
    assert other.identical(array)
    other.write(0, np.zeros((1, 2)))
    assert repr(array) == "TensorArray(3 steps, 2 not written)"
    assert repr(other) == "TensorArray(3 steps, 1 not written)"
