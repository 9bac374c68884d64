"""Runs in chunks: checkpoints change nothing, truncation does what torch's detach does."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.engine import rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.chunked import Chunking, chunked_forward
from lodcli.kernels.rnn.stack.stack import (
    RNNWeights,
    StackGradients,
    StackResult,
    seeded_weights,
    stack_backward,
    stack_forward,
)
from lodcli.kernels.rnn.stack.state_dict import state_dict
from tests.oracles_rnn import Array, close, cut, offsets_of

LENGTHS = [3, 0, 11, 4, 11, 8, 1, 0]
OFFSETS = offsets_of(LENGTHS)
# float64; matrix products of fewer rows, and sums in another order.
TOLERANCE = 1e-13
# The same against torch, over a dozen steps.
TORCH_TOLERANCE = 1e-10


class Problem:
    """Weights, data, states and the gradient of a loss by all results."""

    def __init__(self, cell: str, **more: Any) -> None:
        rng = np.random.default_rng(8)
        self.weights = seeded_weights(cell, 4, 3, rng=rng, dtype=np.float64, **more)
        first = self.weights.layers[0][0]
        count = len(self.weights.layers) * self.weights.directions
        self.data = rng.normal(size=(int(OFFSETS[-1]), 4))
        shapes = [(count, len(LENGTHS), size) for size in first.state_sizes]
        self.initial = [rng.normal(size=shape) for shape in shapes]
        self.by_last = [rng.normal(size=shape) for shape in shapes]
        self.by_row = rng.normal(size=(len(self.data), self.weights.output_size))

    def run(
        self, chunking: Chunking | None, *, reverse: bool = False
    ) -> tuple[StackResult, StackGradients]:
        names = ("initial_hidden", "initial_cell")
        states: Any = dict(zip(names, self.initial, strict=False))
        result = stack_forward(
            self.data,
            OFFSETS,
            self.weights,
            keep=True,
            chunking=chunking,
            reverse=reverse,
            **states,
        )
        assert result.tape is not None
        last: Any = dict(zip(("grad_last_hidden", "grad_last_cell"), self.by_last, strict=False))
        return result, stack_backward(result.tape, grad_outputs=self.by_row, **last)


def numbers(result: StackResult, gradients: StackGradients) -> Iterator[tuple[str, Array]]:
    yield "outputs", result.outputs
    yield "last hidden", result.last_hidden
    yield "input", gradients.input
    yield "initial hidden", gradients.initial_hidden
    if result.last_cell is not None and gradients.initial_cell is not None:
        yield "last cell", result.last_cell
        yield "initial cell", gradients.initial_cell
    yield from state_dict(gradients.weights).items()


SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("elman", {"layers": 2}),
    ("gru", {"bidirectional": True}),
    ("gru_paddle", {"bias": False}),
    ("lstm", {"layers": 2, "bidirectional": True, "projection_size": 2, "peepholes": True}),
]


@pytest.mark.parametrize("steps", [1, 3, 4, 11, 50])
@pytest.mark.parametrize(("cell", "more"), SHAPES, ids=[cell for cell, _ in SHAPES])
def test_checkpoints_change_nothing(cell: str, more: dict[str, Any], steps: int) -> None:
    problem = Problem(cell, **more)
    whole = numbers(*problem.run(None))
    for (name, wanted), (_, got) in zip(
        whole, numbers(*problem.run(Chunking(checkpoint=steps))), strict=True
    ):
        close(got, wanted, TOLERANCE, name)


def test_checkpoints_work_backwards_through_the_rows_too() -> None:
    problem = Problem("lstm")
    there = dict(numbers(*problem.run(Chunking(checkpoint=4), reverse=True)))
    for name, wanted in numbers(*problem.run(None, reverse=True)):
        close(there[name], wanted, TOLERANCE, name)
    assert not np.allclose(there["input"], problem.run(None)[1].input)


def test_a_checkpoint_where_every_product_is_exact_changes_no_bit() -> None:
    # Small whole numbers, so that no order of summing rounds.
    rng = np.random.default_rng(0)
    problem = Problem("elman", layers=2)
    whole_numbers = problem.weights.with_options(nonlinearity="relu").map(
        lambda one: type(one)(
            nonlinearity="relu",  # type: ignore[call-arg]
            **{n: rng.integers(-1, 2, a.shape).astype(float) for n, a in one.arrays().items()},
        )
    )
    problem.weights = whole_numbers
    problem.data = rng.integers(-2, 3, problem.data.shape).astype(float)
    problem.by_row = rng.integers(-2, 3, problem.by_row.shape).astype(float)
    problem.by_last = [np.ones_like(part) for part in problem.by_last]
    problem.initial = [np.ones_like(part) for part in problem.initial]
    there = dict(numbers(*problem.run(Chunking(checkpoint=4))))
    for name, wanted in numbers(*problem.run(None)):
        assert np.array_equal(there[name], wanted), name


@pytest.mark.parametrize("checkpoint", [None, 2, 3, 7])
@pytest.mark.parametrize(("cell", "layers"), [("elman", 1), ("gru", 2), ("lstm", 2)])
def test_truncation_is_torch_with_a_detached_state(
    cell: str, layers: int, checkpoint: int | None
) -> None:
    torch = pytest.importorskip("torch")
    problem = Problem(cell, layers=layers)
    kind = {"elman": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[cell]
    module = kind(4, 3, num_layers=layers, dtype=torch.float64)
    module.load_state_dict(
        {name: torch.from_numpy(array) for name, array in state_dict(problem.weights).items()}
    )
    data = torch.from_numpy(problem.data).requires_grad_()
    starts = [torch.from_numpy(part).requires_grad_() for part in problem.initial]
    loss = torch.zeros((), dtype=torch.float64)
    grads = cut(problem.by_row, OFFSETS.tolist())
    for number, (rows, by_row) in enumerate(zip(cut(data, OFFSETS.tolist()), grads, strict=True)):
        state = tuple(part[:, number] for part in starts)
        for begin in range(0, len(rows), 3):
            if begin:
                state = tuple(part.detach() for part in state)
            given = state if cell == "lstm" else state[0]
            outputs, after = module(rows[begin : begin + 3], given)
            state = after if cell == "lstm" else (after,)
            loss = loss + (outputs * torch.from_numpy(by_row[begin : begin + 3])).sum()
        for part, by_last in zip(state, problem.by_last, strict=True):
            loss = loss + (part * torch.from_numpy(by_last[:, number])).sum()
    loss.backward()
    chunking = Chunking(truncate=3, checkpoint=checkpoint)
    found = problem.run(chunking)[1]
    close(found.input, data.grad.numpy(), TORCH_TOLERANCE, "input")
    close(found.initial_hidden, starts[0].grad.numpy(), TORCH_TOLERANCE, "initial hidden")
    for name, parameter in module.named_parameters():
        close(state_dict(found.weights)[name], parameter.grad.numpy(), TORCH_TOLERANCE, name)
    assert not np.allclose(found.input, problem.run(None)[1].input)


@pytest.mark.slow
def test_checkpoints_take_a_fraction_of_the_memory() -> None:
    rng = np.random.default_rng(0)
    weights = seeded_weights("lstm", 8, 32, rng=rng)
    lengths = np.array([0, 2000, 4000])
    data = rng.normal(size=(4000, 8)).astype(np.float32)

    def peak(chunking: Chunking | None) -> int:
        tracemalloc.start()
        result = stack_forward(
            data, lengths, weights, keep=True, chunking=chunking, backend="numpy"
        )
        assert result.tape is not None
        stack_backward(result.tape, grad_last_hidden=np.ones((1, 2, 32), np.float32))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    # Without: some 30 arrays as large as the outputs. With: the outputs, and one chunk's.
    assert peak(Chunking(checkpoint=50)) * 4 < peak(None)


@pytest.mark.parametrize("sequences", [0, 3])
def test_without_rows_the_last_states_gradient_passes_through(sequences: int) -> None:
    weights = seeded_weights("lstm", 4, 3, rng=np.random.default_rng(0)).layers[0][0]
    run = chunked_forward(
        np.zeros((0, 4)), np.zeros(sequences + 1, np.int64), weights, chunking=Chunking(2)
    )
    assert run.tape is not None
    found = rnn_backward(run.tape, grad_last_cell=np.ones((sequences, 3)))
    assert found.initial_cell is not None
    assert found.initial_cell.tolist() == [[1.0] * 3] * sequences
    assert found.input.shape == (0, 4)
    assert not found.weights.arrays()["weight_hh"].any()


def test_the_gradient_of_cells_by_row_passes_through_chunks() -> None:
    rng = np.random.default_rng(0)
    weights = seeded_weights("lstm", 4, 3, rng=rng, dtype=np.float64).layers[0][0]
    data, offsets, grad = rng.normal(size=(7, 4)), np.array([0, 5, 7]), rng.normal(size=(7, 3))
    whole = rnn_forward(data, offsets, weights, keep=True).tape
    chunked = chunked_forward(data, offsets, weights, chunking=Chunking(2)).tape
    assert whole is not None
    assert chunked is not None
    wanted, found = (rnn_backward(tape, grad_cells=grad).input for tape in (whole, chunked))
    # The same sums in another order.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-14)


def test_wrong_arguments_are_reported_as_without_chunks() -> None:
    weights = seeded_weights("gru", 4, 3, rng=np.random.default_rng(0)).layers[0][0]
    data = np.zeros((5, 4))
    run = chunked_forward(data, np.array([0, 5]), weights, chunking=Chunking(2))
    assert run.tape is not None
    with pytest.raises(ShapeMismatchError, match="grad hidden: expected shape"):
        rnn_backward(run.tape, grad_outputs=np.zeros((6, 3)))
    for wrong in (np.zeros((5, 3)), np.zeros((5, 4), np.int64)):
        for forward in (rnn_forward, lambda *args: chunked_forward(*args, chunking=Chunking(2))):
            with pytest.raises(InvalidDataError, match="data: expected"):
                forward(wrong, np.array([0, 5]), weights)
    with pytest.raises(InvalidDataError, match="truncate: expected at least 1 step, found 0"):
        Chunking(truncate=0)
    with pytest.raises(InvalidDataError, match="checkpoint: expected an int or None, found float"):
        Chunking(checkpoint=2.5)  # type: ignore[arg-type]


def test_a_run_without_training_needs_no_chunks() -> None:
    problem = Problem("gru")
    result = stack_forward(problem.data, OFFSETS, problem.weights, chunking=Chunking(2))
    assert result.tape is None
    assert isinstance(problem.weights, RNNWeights)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_states_between_chunks_of_halves_are_float32(dtype: Any) -> None:
    """Added up one by one in float16, ones stop at 2,048; in bfloat16 at 256."""
    steps, one = 3000, np.ones((1, 1))
    add_up = ElmanWeights(weight_ih=one, weight_hh=one, nonlinearity="identity")
    rows = np.ones((steps, 1), dtype)
    run = chunked_forward(rows, offsets_of([steps]), add_up, chunking=Chunking(checkpoint=1))
    counts = np.arange(1, steps + 1)[:, np.newaxis]
    np.testing.assert_array_equal(run.outputs, counts.astype(dtype))
    np.testing.assert_array_equal(run.last_hidden, counts[-1:].astype(dtype))
    found = rnn_backward(run.tape, grad_outputs=rows)
    np.testing.assert_array_equal(found.input, counts[::-1].astype(dtype))
    np.testing.assert_array_equal(found.initial_hidden, counts[-1:].astype(dtype))
    for array in (run.outputs, run.last_hidden, found.input, *found.weights.arrays().values()):
        assert array.dtype == dtype


@pytest.mark.parametrize(
    ("dtype", "rounding"), [(np.float16, 2**-10), (ml_dtypes.bfloat16, 2**-7)], ids=str
)
@pytest.mark.parametrize("cell", ["lstm", "slstm", "gru", "lru"])
def test_checkpoints_of_halves_change_nothing(cell: str, dtype: Any, rounding: float) -> None:
    problem = Problem(cell, bidirectional=True)
    problem.data = problem.data.astype(dtype)
    whole, chunked = problem.run(None), problem.run(Chunking(checkpoint=2))
    for (name, wanted), (_, got) in zip(numbers(*whole), numbers(*chunked), strict=True):
        assert got.dtype == wanted.dtype == dtype, name
        close(got.astype(float), wanted.astype(float), rounding, name)
