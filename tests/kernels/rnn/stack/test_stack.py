"""Layers and directions, and the weights that begin them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import (
    InvalidDataError,
    OptionError,
    ShapeMismatchError,
    UnsupportedError,
)
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.rnn.cells.registry import CELLS
from lodcli.kernels.rnn.engine.engine import States, rnn_forward
from lodcli.kernels.rnn.stack.stack import (
    RNNWeights,
    StackResult,
    seeded_weights,
    stack_backward,
    stack_forward,
)
from tests.oracles_rnn import Array, close, offsets_of

OFFSETS = offsets_of([2, 0, 3, 1])
SHAPES: list[dict[str, Any]] = [
    {"cell": "elman"},
    {"cell": "gru", "layers": 3},
    {"cell": "gru_paddle", "layers": 2, "bidirectional": True},
    {"cell": "lstm", "bidirectional": True, "bias": False},
    {"cell": "lstm", "layers": 2, "bidirectional": True, "projection_size": 2, "peepholes": True},
]


def make(seed: int = 0, **shape: Any) -> RNNWeights:
    kind = shape.pop("cell")
    rng = np.random.default_rng(seed)
    return seeded_weights(kind, 5, 3, rng=rng, dtype=np.float64, **shape)


def states_of(weights: RNNWeights, rng: np.random.Generator) -> dict[str, Array]:
    count = len(weights.layers) * weights.directions
    sizes = weights.layers[0][0].state_sizes
    names = ("hidden", "cell")[: len(sizes)]
    return {
        name: rng.normal(size=(count, 4, size)) for name, size in zip(names, sizes, strict=True)
    }


def test_a_bidirectional_layer_is_its_two_directions_side_by_side() -> None:
    rng = np.random.default_rng(1)
    weights = make(cell="lstm", bidirectional=True)
    data, states = rng.normal(size=(6, 5)), states_of(weights, rng)
    hidden, cell = states["hidden"], states["cell"]
    result = stack_forward(data, OFFSETS, weights, initial_hidden=hidden, initial_cell=cell)
    for direction, columns in ((0, slice(0, 3)), (1, slice(3, 6))):
        alone = rnn_forward(
            data,
            OFFSETS,
            weights.layers[0][direction],
            initial=States(hidden=hidden[direction], cell=cell[direction]),
            reverse=bool(direction),
        )
        close(result.outputs[:, columns], alone.outputs, 0)
        close(result.last_hidden[direction], alone.last_hidden, 0)
        assert result.last_cell is not None
        close(result.last_cell[direction], alone.last_cell, 0)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_layer_runs_on_the_outputs_of_the_one_before(reverse: bool) -> None:
    rng = np.random.default_rng(1)
    weights = make(cell="gru", layers=2)
    data, hidden = rng.normal(size=(6, 5)), states_of(weights, rng)["hidden"]
    result = stack_forward(data, OFFSETS, weights, initial_hidden=hidden, reverse=reverse)
    between = data
    for layer in range(2):
        one = RNNWeights((weights.layers[layer],))
        alone = stack_forward(between, OFFSETS, one, initial_hidden=hidden[layer], reverse=reverse)
        close(alone.last_hidden[0], result.last_hidden[layer], 0)
        between = alone.outputs
    close(result.outputs, between, 0)
    assert result.last_cell is None


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients_agree_with_a_step_along_them(shape: dict[str, Any]) -> None:
    # One random direction in all inputs at once: test_gradients.py has every element.
    rng = np.random.default_rng(2)
    weights = make(**shape)
    data, states = rng.normal(size=(6, 5)), states_of(weights, rng)
    plain = _run(data, weights, states)
    assert plain.tape is not None
    loss = {name: rng.normal(size=array.shape) for name, array in _results(plain).items()}
    grads: dict[str, Any] = {f"grad_{name}": array for name, array in loss.items()}
    found = stack_backward(plain.tape, **grads)
    along = {"data": rng.normal(size=data.shape)}
    along |= {name: rng.normal(size=array.shape) for name, array in states.items()}
    steps = weights.map(lambda one: _noise_like(one, rng))
    predicted = np.sum(found.input * along["data"])
    predicted += np.sum(found.initial_hidden * along["hidden"])
    if found.initial_cell is not None:
        predicted += np.sum(found.initial_cell * along["cell"])
    for gradient, step in _pairs(found.weights, steps):
        predicted += np.sum(gradient * step)

    def moved(distance: float) -> float:
        there = {name: states[name] + distance * along[name] for name in states}
        shifted = iter(step for layer in steps.layers for step in layer)
        result = _run(
            data + distance * along["data"],
            weights.map(lambda one: _shifted(one, next(shifted), distance)),
            there,
        )
        return float(sum(np.sum(array * loss[name]) for name, array in _results(result).items()))

    # Truncation and rounding of central differences of step 1e-5: about 1e-9.
    close((moved(1e-5) - moved(-1e-5)) / 2e-5, predicted, 2e-8)


def _run(data: Array, weights: RNNWeights, states: dict[str, Array]) -> StackResult:
    initial: dict[str, Any] = {f"initial_{name}": array for name, array in states.items()}
    return stack_forward(data, OFFSETS, weights, keep=True, **initial)


def _results(result: StackResult) -> dict[str, Array]:
    found = {"outputs": result.outputs, "last_hidden": result.last_hidden}
    if result.last_cell is not None:
        found["last_cell"] = result.last_cell
    return found


def _noise_like(weights: Any, rng: np.random.Generator) -> Any:
    noise = {name: rng.normal(size=array.shape) for name, array in weights.arrays().items()}
    return dataclasses.replace(weights, **noise)


def _shifted(weights: Any, step: Any, distance: float) -> Any:
    steps = step.arrays()
    there = {name: array + distance * steps[name] for name, array in weights.arrays().items()}
    return dataclasses.replace(weights, **there)


def _pairs(a: RNNWeights, b: RNNWeights) -> list[tuple[Array, Array]]:
    return [
        (array, other.arrays()[name])
        for layer, others in zip(a.layers, b.layers, strict=True)
        for one, other in zip(layer, others, strict=True)
        for name, array in one.arrays().items()
    ]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_stack_without_sequences_gives_empty_results(shape: dict[str, Any]) -> None:
    weights = make(**shape)
    result = stack_forward(np.zeros((0, 5)), np.array([0]), weights, keep=True)
    assert result.outputs.shape == (0, weights.output_size)
    assert result.last_hidden.shape[1] == 0
    assert result.tape is not None
    assert stack_backward(result.tape).input.shape == (0, 5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_seeded_weights_are_uniform_below_one_over_the_root_of_the_hidden_size(
    shape: dict[str, Any],
) -> None:
    weights = make(**shape)
    values = np.concatenate([a.ravel() for a, _ in _pairs(weights, weights)])
    bound = 1 / np.sqrt(3)
    assert 0.9 * bound < np.abs(values).max() <= bound
    assert abs(values.mean()) < 0.1
    assert len(np.unique(values)) == len(values)


def test_seeded_weights_repeat_and_do_not_depend_on_the_dtype() -> None:
    once = make(cell="lstm", layers=2)
    rng = np.random.default_rng(0)
    single = seeded_weights("lstm", 5, 3, layers=2, rng=rng)
    for array, other in _pairs(once, single):
        assert other.dtype == np.float32
        np.testing.assert_array_equal(array.astype(np.float32), other)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"cell": "qrnn"}, UnsupportedError, "cell: expected one of elman, gru, gru_paddle, lstm"),
        ({"cell": "gru", "peepholes": True}, UnsupportedError, "cell gru: has no peepholes"),
        ({"cell": "gru", "projection_size": 2}, UnsupportedError, "cell gru: has no projection"),
        ({"cell": "gru", "layers": 0}, InvalidDataError, "layers: expected a size of at least 1"),
    ],
)
def test_weights_that_cannot_be_seeded_are_refused(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(**arguments)


def test_options_reach_every_layer_and_direction() -> None:
    weights = make(cell="elman", layers=2, bidirectional=True)
    relu = weights.with_options(nonlinearity="relu")
    found = [vars(one)["nonlinearity"] for layer in relu.layers for one in layer]
    assert found == ["relu"] * 4
    with pytest.raises(UnsupportedError, match="elman: no option 'origin_mode'; it has nonlin"):
        weights.with_options(origin_mode=True)
    with pytest.raises(UnsupportedError, match="gru: no option 'weight_hh'; it has none"):
        make(cell="gru").with_options(weight_hh=True)
    with pytest.raises(InvalidDataError, match="activation: expected one of"):
        weights.with_options(nonlinearity="softplus")


def test_layers_that_do_not_fit_each_other_are_refused() -> None:
    one = make(cell="lstm", layers=2, bidirectional=True)
    gru = make(cell="gru", bidirectional=True)
    narrow = make(cell="lstm")
    with pytest.raises(ShapeMismatchError, match=r"weight_ih_l1: expected shape \(12, 3\), found"):
        RNNWeights((narrow.layers[0], one.layers[1][:1]))
    with pytest.raises(InvalidDataError, match="weights_l1: expected cells of kind lstm, found gr"):
        RNNWeights((one.layers[0], gru.layers[0]))
    with pytest.raises(InvalidDataError, match=r"the same in every layer, found \[2, 1\]"):
        RNNWeights((one.layers[0], narrow.layers[0]))
    with pytest.raises(InvalidDataError, match=r"1 or 2 directions.* found \[\]"):
        RNNWeights(())
    wide = LSTMWeights(weight_ih=np.ones((16, 5)), weight_hh=np.ones((16, 4)))
    with pytest.raises(ShapeMismatchError, match=r"weight_hh_l0_reverse: expected the state sizes"):
        RNNWeights(((narrow.layers[0][0], wide),))
    first: Any = narrow.layers[0][0]
    projected = dataclasses.replace(first, weight_ih=None)
    with pytest.raises(InvalidDataError, match="expected both or neither, found one"):
        RNNWeights(((narrow.layers[0][0], projected),))
    with pytest.raises(InvalidDataError, match="weight_ih_l1: only layer 0 may omit it"):
        RNNWeights((narrow.layers[0], (projected,)))


def test_runs_that_cannot_be_are_refused() -> None:
    both = make(cell="gru", layers=2, bidirectional=True)
    data = np.zeros((6, 5))
    with pytest.raises(UnsupportedError, match="reverse: these weights are bidirectional"):
        stack_forward(data, OFFSETS, both, reverse=True)
    with pytest.raises(ShapeMismatchError, match=r"initial_hidden: expected \(4, S, H\) for 2 lay"):
        stack_forward(data, OFFSETS, both, initial_hidden=np.zeros((2, 4, 3)))
    with pytest.raises(ShapeMismatchError, match="weight_ih_l0"):
        stack_forward(np.zeros((6, 4)), OFFSETS, both)
    tape = stack_forward(data, OFFSETS, both, keep=True).tape
    assert tape is not None
    with pytest.raises(ShapeMismatchError, match=r"grad outputs: expected shape \(6, 6\), found"):
        stack_backward(tape, grad_outputs=np.zeros((6, 3)))


@pytest.mark.parametrize("cell", CELLS)
def test_random_weights_beyond_memory_are_refused(cell: str) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(OptionError, match=f"cell {cell}: random weights of 10000000000 hidden"):
        seeded_weights(cell, 4, 10**10, rng=rng)


def test_random_weights_of_whole_numbers_are_refused() -> None:
    with pytest.raises(OptionError, match="dtype: expected a floating-point dtype, found int8"):
        seeded_weights("lstm", 4, 3, rng=np.random.default_rng(0), dtype=np.int8)
