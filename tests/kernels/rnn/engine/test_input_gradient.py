"""Backward passes without the gradient of the input."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, get_args

import numpy as np
import pytest

from lodcli.kernels.rnn.cells.linear_cell import times
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.rnn.engine.engine import RNNGradients, rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.chunked import Chunking, chunked_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_backward, stack_forward
from tests.cells_rnn import VARIANTS, cell_weights
from tests.oracles_rnn import Array, offsets_of
from tests.slow import slow_except

W = TypeVar("W", bound=LayerWeights)
LENGTHS = [3, 0, 7, 1, 2]


def check_the_others(
    found: RNNGradients[LayerWeights, None], wanted: RNNGradients[LayerWeights]
) -> None:
    """Compare all gradients but that of the input, bit for bit."""
    assert found.input is None
    assert wanted.input is not None
    for name, array in wanted.weights.arrays().items():
        np.testing.assert_array_equal(getattr(found.weights, name), array, err_msg=name)
    np.testing.assert_array_equal(found.initial_hidden, wanted.initial_hidden)
    np.testing.assert_array_equal(found.initial_cell, wanted.initial_cell)


def test_the_type_of_the_input_gradient_may_be_left_out() -> None:
    given = get_args(RNNGradients[LayerWeights])
    assert given == get_args(RNNGradients[LayerWeights, Array]) == (LayerWeights, Array)
    assert get_args(RNNGradients[LayerWeights, None]) == (LayerWeights, type(None))

    class OfArrays(RNNGradients[W]):
        """A subclass has the parameters that it names."""

    assert get_args(OfArrays[LayerWeights]) == (LayerWeights,)
    generic: Any = RNNGradients
    with pytest.raises(TypeError, match="Too many arguments"):
        generic[LayerWeights, None, None]


def check(weights: Any, dtype: Any, **how: Any) -> None:
    rng = np.random.default_rng(1)
    data = rng.normal(size=(sum(LENGTHS), weights.input_size)).astype(dtype)
    run = rnn_forward(data, offsets_of(LENGTHS), weights, keep=True, **how)
    upstream = rng.normal(size=run.outputs.shape).astype(dtype)
    check_the_others(
        rnn_backward(run.tape, grad_outputs=upstream, input_gradient=False),
        rnn_backward(run.tape, grad_outputs=upstream),
    )


@pytest.mark.parametrize("dtype", ["float64", "float16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_no_other_gradient_changes(variant: str, dtype: str) -> None:
    check(cell_weights(variant, np.random.default_rng(0)), dtype, backend="numpy")


@pytest.mark.parametrize("projected", [False, True])
@pytest.mark.parametrize("variant", slow_except(["lstm"], ["lstm", "gru", "elman-relu", "slstm"]))
def test_no_other_gradient_of_compiled_code_changes(variant: str, projected: bool) -> None:
    pytest.importorskip("numba")
    weights = cell_weights(variant, np.random.default_rng(0), dtype="float32", hidden=19)
    if projected and hasattr(weights, "weight_ih"):
        weights = dataclasses.replace(weights, weight_ih=None)
    check(weights, "float32", backend="numba", threads=2)


def test_a_linear_cell_leaves_out_a_product(monkeypatch: pytest.MonkeyPatch) -> None:
    rng, shapes = np.random.default_rng(0), []

    def noted(left: Array, right: Array) -> Array:
        shapes.append(right.shape)
        return times(left, right)

    monkeypatch.setattr("lodcli.kernels.rnn.cells.minimal.times", noted)
    weights, data = cell_weights("mingru", rng), rng.normal(size=(sum(LENGTHS), 5))
    run = rnn_forward(data, offsets_of(LENGTHS), weights, keep=True)
    rnn_backward(run.tape, grad_outputs=run.outputs, input_gradient=False)
    assert shapes == [data.shape]
    rnn_backward(run.tape, grad_outputs=run.outputs)
    assert shapes == [data.shape] * 2 + [weights.to_gates.shape]


def test_no_other_gradient_of_chunks_changes() -> None:
    rng = np.random.default_rng(0)
    weights, data = cell_weights("gru", rng), rng.normal(size=(sum(LENGTHS), 5))
    run = chunked_forward(data, offsets_of(LENGTHS), weights, chunking=Chunking(checkpoint=2))
    upstream = rng.normal(size=run.outputs.shape)
    check_the_others(
        rnn_backward(run.tape, grad_outputs=upstream, input_gradient=False),
        rnn_backward(run.tape, grad_outputs=upstream),
    )


@pytest.mark.parametrize("shape", [{}, {"layers": 2}, {"layers": 2, "bidirectional": True}])
def test_lower_layers_still_get_the_gradients_of_their_outputs(shape: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    weights = seeded_weights("lstm", 5, 3, rng=rng, **shape)
    data = rng.normal(size=(sum(LENGTHS), 5))
    run = stack_forward(data, offsets_of(LENGTHS), weights, keep=True)
    upstream = rng.normal(size=run.outputs.shape)
    found = stack_backward(run.tape, grad_outputs=upstream, input_gradient=False)
    wanted = stack_backward(run.tape, grad_outputs=upstream)
    assert found.input is None
    for ours, theirs in zip(found.weights.layers, wanted.weights.layers, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            for name, array in other.arrays().items():
                np.testing.assert_array_equal(getattr(one, name), array, err_msg=name)
    np.testing.assert_array_equal(found.initial_hidden, wanted.initial_hidden)
