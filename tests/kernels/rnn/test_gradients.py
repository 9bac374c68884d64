"""rnn_backward against differences of rnn_forward, in float64."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.engine import RNNResult, States, rnn_backward, rnn_forward
from lodcli.kernels.runtime.dispatch import Backend
from tests.cells_rnn import VARIANTS, cell_weights, initial_states
from tests.oracles_rnn import Array, close, offsets_of
from tests.slow import slow

OFFSETS = offsets_of([2, 0, 4, 1, 4, 3, 0])  # ties, empty ones inside and last
ROWS, SEQUENCES = 14, 7
# Central differences of step 1e-5: about 1e-10 of truncation and 1e-10 of rounding.
TOLERANCE = 2e-8


def difference(loss: Callable[[], float], array: Array) -> Array:
    """Return the loss's slope along every element of `array`, by moving it in place."""
    slope = np.zeros_like(array)
    for index in np.ndindex(array.shape):
        here = array[index]
        array[index] = here + 1e-5
        above = loss()
        array[index] = here - 1e-5
        slope[index] = (above - loss()) / 2e-5
        array[index] = here
    return slope


class Problem:
    """A run and a loss that weighs every number it gives, each differently."""

    def __init__(self, variant: str, *, reverse: bool, projected: bool = False) -> None:
        rng = np.random.default_rng(11)
        self.reverse = reverse
        self.weights = cell_weights(variant, rng)
        if projected:
            self.weights = dataclasses.replace(self.weights, weight_ih=None)
        self.data = rng.normal(size=(ROWS, self.weights.input_size))
        sizes = self.weights.state_sizes
        self.hidden, *cells = initial_states(self.weights, SEQUENCES, rng)
        self.cell = cells[0] if cells else None
        self.by_row = [rng.normal(size=(ROWS, size)) for size in sizes]
        self.by_sequence = [rng.normal(size=(SEQUENCES, size)) for size in sizes]

    def run(self, *, keep: bool = False) -> RNNResult[CellWeights]:
        states = States(hidden=self.hidden, cell=self.cell)
        return rnn_forward(
            self.data, OFFSETS, self.weights, initial=states, reverse=self.reverse, keep=keep
        )

    def loss(self) -> float:
        result = self.run()
        total = np.sum(result.outputs * self.by_row[0])
        total += np.sum(result.last_hidden * self.by_sequence[0])
        if result.cells is not None and result.last_cell is not None:
            total += np.sum(result.cells * self.by_row[1])
            total += np.sum(result.last_cell * self.by_sequence[1])
        return float(total)

    def check(self) -> None:
        tape = self.run(keep=True).tape
        assert tape is not None
        has_cell = self.cell is not None
        found = rnn_backward(
            tape,
            grad_outputs=self.by_row[0],
            grad_cells=self.by_row[1] if has_cell else None,
            grad_last_hidden=self.by_sequence[0],
            grad_last_cell=self.by_sequence[1] if has_cell else None,
        )
        close(found.input, difference(self.loss, self.data), TOLERANCE, "input")
        close(found.initial_hidden, difference(self.loss, self.hidden), TOLERANCE, "hidden")
        if self.cell is not None:
            close(found.initial_cell, difference(self.loss, self.cell), TOLERANCE, "cell")
        else:
            assert found.initial_cell is None
        gradients = found.weights.arrays()
        assert gradients.keys() == self.weights.arrays().keys()
        for name, array in self.weights.arrays().items():
            close(gradients[name], difference(self.loss, array), TOLERANCE, name)


@pytest.mark.parametrize("reverse", [slow(False), True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_agree_with_differences(variant: str, reverse: bool) -> None:
    Problem(variant, reverse=reverse).check()


@pytest.mark.parametrize("variant", ["elman-tanh", "gru", "paddle-gru", "lstm-everything"])
def test_gradients_of_projected_data_agree_with_differences(variant: str) -> None:
    Problem(variant, reverse=False, projected=True).check()


def test_gradients_worked_by_hand() -> None:
    # h1 = a x1 + b h0, h2 = a x2 + b h1; loss h2: by hand, a = 3, b = 2, x = 5, 7, h0 = 1.
    weights = ElmanWeights(
        weight_ih=np.array([[3.0]]),
        weight_hh=np.array([[2.0]]),
        bias_ih=np.zeros(1),
        nonlinearity="identity",
    )
    states = States(hidden=np.array([[1.0]]))
    data = np.array([[5.0], [7.0]])
    tape = rnn_forward(data, np.array([0, 2]), weights, initial=states, keep=True).tape
    assert tape is not None
    found = rnn_backward(tape, grad_last_hidden=np.array([[1.0]]))
    assert found.input.tolist() == [[6], [3]]  # a b, a
    assert found.initial_hidden.tolist() == [[4]]  # b b
    assert found.weights.weight_hh.tolist() == [[19]]  # h1 + b h0 = 17 + 2
    assert found.weights.arrays()["weight_ih"].tolist() == [[17]]  # x2 + b x1
    assert found.weights.arrays()["bias_ih"].tolist() == [3]  # 1 + b


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sequences", [0, 2])
def test_without_rows_the_last_states_gradient_passes_straight_through(
    variant: str, sequences: int
) -> None:
    weights = cell_weights(variant, np.random.default_rng(0))
    offsets = np.zeros(sequences + 1, np.int64)
    tape = rnn_forward(np.zeros((0, 5)), offsets, weights, keep=True).tape
    assert tape is not None
    shape = (sequences, weights.output_size)
    grad = np.arange(sequences * weights.output_size, dtype=float).reshape(shape)
    found = rnn_backward(tape, grad_last_hidden=grad)
    np.testing.assert_array_equal(found.initial_hidden, grad)
    assert found.input.shape == (0, 5)
    assert all(not array.any() for array in found.weights.arrays().values())


def test_a_gradient_that_is_not_given_is_zero() -> None:
    problem = Problem("lstm", reverse=False)
    tape = problem.run(keep=True).tape
    assert tape is not None
    found = rnn_backward(tape)
    assert not found.input.any()
    assert not found.weights.weight_hh.any()
    assert not found.initial_hidden.any()


@pytest.mark.parametrize(
    ("variant", "backend"),
    [
        *((variant, "numpy") for variant in sorted(VARIANTS)),
        *((variant, "numba") for variant in ("elman-relu", "elman-tanh", "gru", "lstm", "slstm")),
    ],
)
def test_float32_gradients_of_biases_lose_no_digits_to_the_number_of_rows(
    variant: str, backend: Backend
) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    rng = np.random.default_rng(2)
    weights, rows = cell_weights(variant, rng), 20_000
    data, upstream = rng.normal(size=(rows, weights.input_size)), rng.uniform(1, 2, (rows, 1))
    exact = _bias_gradients(weights, data, upstream, "numpy")
    single = (data.astype(np.float32), upstream.astype(np.float32))
    found = _bias_gradients(weights.astype(np.float32), *single, backend)
    for name, wanted in exact.items():
        # Half a digit of float32 is 6e-8; adding the rows one by one is off by 2e-6 and more, and
        # adding sums of 128 rows by 2e-7.
        error = np.abs(found[name] - wanted).max() / (1 + np.abs(wanted).max())
        assert error <= 1.5e-7, name


def _bias_gradients(
    weights: CellWeights, data: Array, upstream: Array, backend: Backend
) -> dict[str, Array]:
    offsets = np.arange(len(data) + 1)  # every row is a sequence: a step has all rows
    result = rnn_forward(data, offsets, weights, keep=True, backend=backend)
    assert result.tape is not None
    flow = np.repeat(upstream, result.outputs.shape[1], axis=1)
    gradients = rnn_backward(result.tape, grad_outputs=flow).weights.arrays()
    return {name: one for name, one in gradients.items() if name.startswith(("bias", "peep"))}
