"""The sLSTM against torch's autograd over a plain loop, and against its authors' own."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError, OptionError, ShapeMismatchError
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_forward
from lodcli.kernels.rnn.stack.state_dict import weights_from_state_dict
from tests.cells_rnn import initial_states
from tests.oracles_rnn import Array, close, offsets_of
from tests.slow import compiled_for

torch: Any = pytest.importorskip("torch")
from tests.torch_cells import slstm  # noqa: E402

LENGTHS = [3, 0, 7, 1, 7, 4]
OFFSETS = offsets_of(LENGTHS)
ROWS = sum(LENGTHS)
BACKENDS = ("numpy", "numba")


def weights_of(inputs: int, hidden: int, heads: int, *, projected: bool = False) -> Any:
    rng = np.random.default_rng(7)
    weights: Any = seeded_weights(
        "slstm", inputs, hidden, heads=heads, rng=rng, dtype=np.float64
    ).layers[0][0]
    # As large as each other: either may lead.
    biased = dataclasses.replace(weights, bias=rng.normal(size=4 * hidden))
    none: dict[str, Any] = {f"weight_{gate}": None for gate in "ifzo"}
    return dataclasses.replace(biased, **none) if projected else biased


def solved_by_torch(weights: Any, data: Array, states: list[Array], grads: list[Array]) -> Any:
    """Return results and gradients; `grads` of the outputs, and of the last h and c, n, m."""
    arrays = {
        name: torch.tensor(array, requires_grad=True) for name, array in weights.named().items()
    }
    rows = torch.tensor(data, requires_grad=True)
    first = [torch.tensor(state, requires_grad=True) for state in states]
    outputs, last, start = [], [], 0
    for number, length in enumerate(LENGTHS):
        state = tuple(part[number] for part in first)
        found, state = slstm(arrays, rows[start : start + length], state)
        outputs += found
        last.append(state)
        start += length
    ends = [torch.stack(parts) for parts in zip(*last, strict=True)]
    results = [torch.stack(outputs), *ends]
    sum((one * torch.tensor(by)).sum() for one, by in zip(results, grads, strict=True)).backward()
    names = ("outputs", "last_hidden", "last_cell")
    return {
        **{name: one.detach().numpy() for name, one in zip(names, results, strict=True)},
        "input": rows.grad.numpy(),
        "initial_hidden": first[0].grad.numpy(),
        "initial_cell": first[1].grad.numpy(),
        **{name: array.grad.numpy() for name, array in arrays.items()},
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("begin", ["zeros", "given"])
@pytest.mark.parametrize(
    ("inputs", "heads", "projected"),
    [(5, 1, False), (6, 3, False), (5, 2, False), (24, 3, True)],
    ids=["one head", "inputs divided", "inputs whole", "projected"],
)
def test_results_and_gradients_are_those_of_torch(
    inputs: int, heads: int, projected: bool, begin: str, backend: Any
) -> None:
    hidden = 6
    weights = weights_of(inputs, hidden, heads, projected=projected)
    rng = np.random.default_rng(3)
    data = 2 * rng.normal(size=(ROWS, inputs))
    states = initial_states(weights, len(LENGTHS), rng)
    if begin == "zeros":
        states = [np.zeros_like(state) for state in states]
    shapes = [(ROWS, hidden), *(state.shape for state in states)]
    grads = [rng.normal(size=shape) for shape in shapes]
    wanted = solved_by_torch(weights, data, states, grads)
    given = States(hidden=states[0], cell=states[1])
    run = rnn_forward(data, OFFSETS, weights, initial=given, keep=True, backend=backend)
    assert run.tape is not None
    found = rnn_backward(
        run.tape, grad_outputs=grads[0], grad_last_hidden=grads[1], grad_last_cell=grads[2]
    )
    results = {
        "outputs": run.outputs,
        "last_hidden": run.last_hidden,
        "last_cell": run.last_cell,
        "input": found.input,
        "initial_hidden": found.initial_hidden,
        "initial_cell": found.initial_cell,
        **found.weights.named(),
    }
    assert results.keys() == wanted.keys()
    for name, array in results.items():
        scale = max(1.0, float(np.abs(wanted[name]).max(initial=0)))
        close(array / scale, wanted[name] / scale, 1e-12, name)


@pytest.mark.parametrize("heads", [1, 3])
def test_a_layer_of_its_authors_gives_the_same(heads: int) -> None:
    layers = pytest.importorskip("xlstm.blocks.slstm.layer")
    torch.manual_seed(0)
    published = layers.sLSTMLayer(
        layers.sLSTMLayerConfig(
            embedding_dim=12, num_heads=heads, conv1d_kernel_size=0, backend="vanilla",
            recurrent_weight_init="standard", dtype="float32",
            enable_automatic_mixed_precision=False,
        )
    ).double()  # fmt: skip
    cells = []
    published.slstm_cell.register_forward_hook(lambda *call: cells.append(call[2][0]))
    data = np.random.default_rng(0).normal(size=(2, 9, 12))
    rows = torch.tensor(data, requires_grad=True)
    published(rows)
    (outputs,) = cells  # (batch, heads, steps, K)
    arrays = {name: array.numpy() for name, array in published.state_dict().items()}
    weights = weights_from_state_dict(arrays, prefix="")
    assert (weights.cell, weights.hidden_size) == ("slstm", 12)
    found = stack_forward(data.reshape(18, 12), np.array([0, 9, 18]), weights, keep=True)
    wanted = outputs.transpose(1, 2).reshape(18, 12)
    close(found.outputs, wanted.detach().numpy(), 1e-12)


@pytest.mark.parametrize(
    ("dtype", "backend"), compiled_for(["float64"], ["float32", "float64"], BACKENDS)
)
def test_gates_far_from_zero_stay_finite(dtype: str, backend: Any) -> None:
    weights = weights_of(5, 6, 2).astype(dtype)
    data = np.array([[3e3] * 5, [-3e3] * 5, [0.0] * 5, [1e4] * 5], dtype)
    run = rnn_forward(data, np.array([0, 4]), weights, keep=True, backend=backend)
    assert run.tape is not None
    found = rnn_backward(run.tape, grad_outputs=np.ones_like(run.outputs))
    arrays = (run.outputs, found.input, *found.weights.arrays().values())
    assert all(np.isfinite(array).all() for array in arrays)
    assert np.abs(run.outputs).max() <= 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_propagates_to_all_later_steps(backend: Any) -> None:
    data = np.ones((4, 5))
    data[1, 2] = np.nan
    run = rnn_forward(data, np.array([0, 4]), weights_of(5, 6, 1), backend=backend)
    assert np.isnan(run.outputs).all(axis=1).tolist() == [False, True, True, True]


def test_where_its_memory_is_empty_only_the_input_counts() -> None:
    weights = weights_of(5, 6, 2)
    data = np.random.default_rng(0).normal(size=(1, 5))
    c = np.concatenate([np.ones((1, 6)), np.zeros((1, 6)), np.full((1, 6), 50.0)], axis=1)
    found = rnn_forward(data, np.array([0, 1]), weights, initial=States(cell=c))
    fresh = rnn_forward(data, np.array([0, 1]), weights)
    np.testing.assert_array_equal(found.outputs, fresh.outputs)


def test_weights_that_do_not_fit_are_refused() -> None:
    weights = weights_of(5, 6, 2)
    data, offsets = np.ones((1, 5)), np.array([0, 1])
    with pytest.raises(InvalidDataError, match=r"^igate\.weight_l0: missing; expected the weights"):
        rnn_forward(data, offsets, dataclasses.replace(weights, weight_f=None), suffix="_l0")
    kernel = weights.recurrent_kernel.swapaxes(1, 2)
    with pytest.raises(ShapeMismatchError, match=r"_recurrent_kernel_: expected shape \(2, 48, 12"):
        rnn_forward(data, offsets, dataclasses.replace(weights, recurrent_kernel=kernel))
    with pytest.raises(ShapeMismatchError, match=r"_recurrent_kernel_: expected 3 dimensions"):
        rnn_forward(data, offsets, dataclasses.replace(weights, recurrent_kernel=np.ones((8, 2))))
    with pytest.raises(OptionError, match="heads: expected a divisor of 6 values, found 4"):
        seeded_weights("slstm", 5, 6, heads=4, rng=np.random.default_rng(0))
