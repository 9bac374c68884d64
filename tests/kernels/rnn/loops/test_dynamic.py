"""DynamicRNN: a step function over sequences of any length, against plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, SelectionError, ShapeMismatchError
from lodcli.kernels.index.lod import LoD
from lodcli.kernels.ops.pooling.pool import sequence_sum
from lodcli.kernels.rnn.loops.dynamic_rnn import DynamicRNN
from lodcli.kernels.tensor.lod_tensor import LoDTensor

LENGTHS = [2, 0, 5, 1, 5, 3, 0]
# float64; a matmul of another batch size may round differently.
TOLERANCE = 1e-13
RNG = np.random.default_rng(4)
W, U = RNG.normal(size=(3, 4)), RNG.normal(size=(4, 4))
ROWS = RNG.normal(size=(16, 3))
BOOT = RNG.normal(size=(7, 4))


def step(x: Any, state: Any) -> tuple[Any, Any]:
    state = np.tanh(x @ W + (0 if state is None else state @ U))
    return state * 2, state


def by_the_book(initial: Any, *, reverse: bool = False) -> tuple[Any, Any]:
    """Return the outputs and last states, one sequence and row at a time."""
    outputs, last, row = np.zeros((16, 4)), initial.copy(), 0
    for sequence, length in enumerate(LENGTHS):
        rows = range(row, row + length)
        for here in reversed(rows) if reverse else rows:
            last[sequence] = np.tanh(ROWS[here] @ W + last[sequence] @ U)
            outputs[here] = last[sequence] * 2
        row += length
    return outputs, last


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("booted", [False, True])
def test_a_step_runs_as_one_sequence_at_a_time(booted: bool, reverse: bool) -> None:
    tensor = LoDTensor(ROWS, [LENGTHS])
    found = DynamicRNN(step, reverse=reverse)(tensor, BOOT if booted else None)
    outputs, last = by_the_book(BOOT if booted else np.zeros((7, 4)), reverse=reverse)
    assert found.all.lod is tensor.lod or reverse
    np.testing.assert_allclose(found.all.data, outputs, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(np.asarray(found.last), last, rtol=0, atol=TOLERANCE)


def test_each_step_sees_the_sequences_alive_longest_first() -> None:
    seen = []

    def look(x: Any, memory: Any) -> tuple[Any, Any]:
        seen.append((x.ravel().tolist(), memory if memory is None else memory.tolist()))
        return x, x[:, 0]

    rows = np.arange(6.0).reshape(6, 1)
    DynamicRNN(look)(LoDTensor(rows, [[2, 3, 1]]))
    assert seen == [([2, 0, 5], None), ([3, 1], [2, 0]), ([4], [3])]


def test_the_memory_may_have_several_parts() -> None:
    def count(x: Any, memory: Any) -> tuple[Any, Any]:
        total, steps = memory
        return x, (total + x, steps + 1)

    start = np.zeros(3), np.array([10, 20, 30])
    found = DynamicRNN(count)(LoDTensor(np.array([1.0, 2, 4, 8]), [[1, 0, 3]]), start)
    assert isinstance(found.last, tuple)
    assert [part.tolist() for part in found.last] == [[1, 0, 14], [11, 20, 33]]
    assert start[1].tolist() == [10, 20, 30]


def test_a_step_without_memory_gives_none() -> None:
    found = DynamicRNN(lambda x, memory: (x * 2, None))(LoDTensor(np.arange(3.0), [[1, 2]]))
    assert found.all.data.tolist() == [0, 2, 4]
    assert found.last is None


def test_an_upper_level_steps_over_whole_items() -> None:
    lod = LoD.from_lengths([[3, 1, 2], [3, 2, 4, 1, 2, 3]], ["article", "sentence"])

    def longest(sentences: Any, memory: Any) -> tuple[Any, Any]:
        lengths = sentences.lod.lengths(0).astype(float)
        memory = lengths if memory is None else np.maximum(memory, lengths)
        return memory, memory

    found = DynamicRNN(longest, level="article")(LoDTensor(np.arange(15.0), lod))
    assert found.all.data.tolist() == [3, 3, 4, 1, 2, 3]
    assert found.all.lod == lod.above("sentence")
    assert isinstance(found.last, np.ndarray)
    assert found.last.tolist() == [4, 1, 3]
    back = DynamicRNN(longest, level="article", reverse=True)(LoDTensor(np.arange(15.0), lod))
    assert back.all.data.tolist() == [4, 4, 4, 1, 3, 3]

    # The sentences come from the last to the first, their words stay as they are.
    def first_words(sentences: Any, memory: Any) -> tuple[Any, Any]:
        return sentences.data[sentences.lod.levels[0][:-1]], memory

    firsts = DynamicRNN(first_words, level="article", reverse=True)(LoDTensor(np.arange(15), lod))
    assert firsts.all.data.tolist() == [0, 3, 5, 9, 10, 12]


def test_outputs_may_have_levels_of_their_own() -> None:
    lod = LoD.from_lengths([[2, 1], [1, 2, 3]])
    tensor = LoDTensor(np.arange(6), lod)
    found = DynamicRNN(lambda part, memory: (part * 10, memory), level=0)(tensor)
    assert found.all.identical(tensor * 10)
    with pytest.raises(
        InvalidDataError, match="step 0: memory: expected an array, found a LoDTensor with"
    ):
        DynamicRNN(lambda part, memory: (part, part), level=0)(tensor)


def test_a_step_may_use_its_memory_again() -> None:
    room = np.zeros((2, 3))

    def add(x: Any, total: Any) -> tuple[Any, Any]:
        if total is None:
            return x, x.copy()
        total += x
        return total, total

    def double(x: Any, memory: Any) -> tuple[Any, Any]:
        return np.multiply(x, 2, out=room[: len(x)]), memory

    rows = np.arange(15.0).reshape(5, 3)
    tensor = LoDTensor(rows, [[3, 2]])
    found = DynamicRNN(add)(tensor)
    wanted = np.concatenate([rows[:3].cumsum(axis=0), rows[3:].cumsum(axis=0)])
    assert found.all.data.tolist() == wanted.tolist()
    assert np.asarray(found.last).tolist() == wanted[[2, 4]].tolist()
    assert DynamicRNN(double)(tensor).all.data.tolist() == (rows * 2).tolist()


def test_the_memory_may_be_what_an_op_returns() -> None:
    def add_up(part: Any, total: Any) -> tuple[Any, Any]:
        sums = sequence_sum(part)
        total = sums if total is None else total + sums
        return total, total

    lod = LoD.from_lengths([[2, 0, 1], [1, 2, 3]])
    found = DynamicRNN(add_up, level=0)(LoDTensor(np.arange(6.0), lod))
    assert found.all.data.tolist() == [0, 3, 12]
    assert np.asarray(found.last).tolist() == [3, 0, 12]


@pytest.mark.parametrize("lengths", [[], [0, 0]])
def test_without_rows_the_step_tells_the_kind_of_output(lengths: list[int]) -> None:
    found = DynamicRNN(step)(LoDTensor(ROWS[:0], [lengths]))
    assert found.all.data.shape == (0, 4)
    assert isinstance(found.last, np.ndarray)
    assert found.last.tolist() == [[0.0] * 4] * len(lengths)


def test_the_order_of_the_batch_does_not_matter() -> None:
    tensor = LoDTensor(ROWS, [LENGTHS])
    whole = DynamicRNN(step)(tensor, BOOT)
    for sequence in range(len(LENGTHS)):
        alone = DynamicRNN(step)(tensor[sequence : sequence + 1], BOOT[sequence : sequence + 1])
        np.testing.assert_allclose(alone.all.data, whole.all[sequence].data, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("wrong", "kind", "said"),
    [
        (lambda x, m: x, InvalidDataError, r"step 0: expected the pair \(outputs, memory\)"),
        (lambda x, m: (x[:1], m), ShapeMismatchError, "step 0: outputs: expected 5 rows"),
        (lambda x, m: ([[1], [1, 2]], m), InvalidDataError, "step 0: outputs: .*flat rows"),
        (
            lambda x, m: (np.ma.array(x, mask=x > 0), m),
            InvalidDataError,
            "step 0: outputs: .*masked array",
        ),
        (
            lambda x, m: (x, np.ma.array(x, mask=x > 0)),
            InvalidDataError,
            "step 0: memory: .*masked array",
        ),
        (lambda x, m: (1.0, m), ShapeMismatchError, "expected 5 rows.*found a single value"),
        (lambda x, m: (x, x[:2]), ShapeMismatchError, "step 0: memory: expected 5 rows"),
        (lambda x, m: (x, x if m is None else None), InvalidDataError, "expected an array as bef"),
        (
            lambda x, m: (x, x if m is None else x[:, :1]),
            ShapeMismatchError,
            r"step 1: memory: expected rows of shape \(3,\) as before, found \(1,\)",
        ),
    ],
)
def test_the_error_of_a_wrong_step_says_what_is_wrong(wrong: Any, kind: type, said: str) -> None:
    with pytest.raises(kind, match=said):
        DynamicRNN(wrong)(LoDTensor(ROWS, [LENGTHS]))


def test_wrong_tensors_and_memories_are_reported() -> None:
    with pytest.raises(InvalidDataError, match="at least one level"):
        DynamicRNN(step)(LoDTensor(ROWS))
    with pytest.raises(SelectionError):
        DynamicRNN(step, level="word")(LoDTensor(ROWS, [LENGTHS]))
    with pytest.raises(ShapeMismatchError, match="memory: expected 7 rows"):
        DynamicRNN(step)(LoDTensor(ROWS, [LENGTHS]), BOOT[:3])
    with pytest.raises(ShapeMismatchError, match=r"step 0: memory: expected rows of shape \(1,\)"):
        DynamicRNN(lambda x, m: (x, m + x))(LoDTensor(ROWS, [LENGTHS]), np.zeros((7, 1)))


def test_other_objects_than_tensors_and_steps_are_reported() -> None:
    words = LoDTensor(np.ones((3, 2)), [[2, 1]])
    other: Any
    for other in (np.ones((3, 2)), None, "words.lod.h5"):
        with pytest.raises(InvalidDataError, match="DynamicRNN: tensor: expected a LoDTensor, fou"):
            DynamicRNN(step)(other)
        with pytest.raises(InvalidDataError, match=r"step: expected a function of \(inputs, mem"):
            DynamicRNN(other)
    with pytest.raises(ShapeMismatchError, match=r"memory: expected 2 rows, .* a single value"):
        DynamicRNN(step)(words, 3)  # type: ignore[arg-type]


def test_the_memory_of_the_caller_may_be_a_tensor_of_torch() -> None:
    torch = pytest.importorskip("torch")
    words = LoDTensor(np.ones((3, 2)), [[2, 1]])
    initial = np.arange(4.0).reshape(2, 2)
    add = DynamicRNN(lambda x, total: (total + x, total + x))
    found = add(words, torch.from_numpy(initial))
    assert found.all.identical(add(words, initial).all)
    with pytest.raises(InvalidDataError, match=r"tracked by autograd; give tensor.detach\(\)"):
        add(words, torch.ones(2, 2, requires_grad=True))


def test_a_step_may_return_tensors_of_torch_that_autograd_does_not_track() -> None:
    torch = pytest.importorskip("torch")
    words = LoDTensor(np.ones((3, 2)), [[2, 1]])

    def doubled(factor: Any) -> DynamicRNN:
        return DynamicRNN(lambda x, memory: (torch.from_numpy(x) * factor, memory))

    assert doubled(torch.tensor(2.0))(words).all.data.tolist() == [[2, 2]] * 3
    with pytest.raises(
        InvalidDataError, match=r"step 0: outputs: .* no gradients of a step; return"
    ):
        doubled(torch.ones(1, requires_grad=True))(words)
