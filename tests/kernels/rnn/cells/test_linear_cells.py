"""Linear cells against torch's autograd over plain loops, and what sets them apart from others."""

from __future__ import annotations

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.rnn.engine.engine import States, rnn_backward, rnn_forward
from lodcli.kernels.rnn.stack.stack import seeded_weights, stack_backward, stack_forward
from tests.cells_rnn import LINEAR, VARIANTS, cell_weights
from tests.oracles_rnn import Array, close, offsets_of
from tests.slow import slow

torch: Any = pytest.importorskip("torch")
from tests.torch_cells import CELLS  # noqa: E402

LENGTHS = [3, 0, 7, 1, 7, 4]
BACKENDS = ("numpy", "numba")
# More rows than a block has, in sequences longer and shorter than one.
BLOCKS = [700, 1, 0, 300]


def linear(data: Array, weights: Any) -> Array:
    bias = 0 if weights.to_gates_bias is None else weights.to_gates_bias
    result: Array = data @ weights.to_gates.T + bias
    return result


def state_of(weights: Any, states: list[Array]) -> States:
    return States(**dict(zip(("hidden", "cell"), states, strict=False)))


def solved_by_torch(
    variant: str, weights: Any, data: Array, lengths: list[int], begin: Array, grads: list[Array]
) -> dict[str, Any]:
    """Return outputs, last states and all gradients; `grads` of the outputs and the last states."""
    kind, _, options = VARIANTS[variant]
    arrays = {
        name: torch.tensor(array, requires_grad=True) for name, array in weights.named().items()
    }
    rows = torch.tensor(data, requires_grad=True)
    first = torch.tensor(begin, requires_grad=True)
    outputs, last = [], []
    start = 0
    for number, length in enumerate(lengths):
        state = first[number]
        if length:
            found, state = CELLS[kind](arrays, options, rows[start : start + length], state)
            outputs.append(found)
        last.append(state)
        start += length
    whole, ends = torch.cat(outputs), torch.stack(last)
    loss = (whole * torch.tensor(grads[0])).sum() + (ends * torch.tensor(grads[1])).sum()
    loss.backward()
    return {
        "outputs": whole.detach().numpy(),
        "last": ends.detach().numpy(),
        "input": rows.grad.numpy(),
        "initial": first.grad.numpy(),
        **{name: array.grad.numpy() for name, array in arrays.items()},
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("lengths", [LENGTHS, slow(BLOCKS)], ids=["short", "blocks"])
@pytest.mark.parametrize("variant", LINEAR)
def test_results_and_gradients_are_those_of_torch(
    variant: str, lengths: list[int], backend: Any
) -> None:
    rng = np.random.default_rng(7)
    weights = cell_weights(variant, rng)
    data = rng.normal(size=(sum(lengths), 5))
    states = [rng.uniform(0, 2, (len(lengths), size)) for size in weights.state_sizes]
    of_outputs = rng.normal(size=(len(data), weights.output_size))
    of_last = rng.normal(size=states[-1].shape)
    wanted = solved_by_torch(variant, weights, data, lengths, states[-1], [of_outputs, of_last])
    run = rnn_forward(
        data, offsets_of(lengths), weights, initial=state_of(weights, states), keep=True,
        backend=backend,
    )  # fmt: skip
    assert run.tape is not None
    pair = len(states) == 2
    last: dict[str, Any] = {"grad_last_cell" if pair else "grad_last_hidden": of_last}
    found = rnn_backward(run.tape, grad_outputs=of_outputs, **last)
    results = {
        "outputs": run.outputs,
        "last": run.last_cell if pair else run.last_hidden,
        "input": found.input,
        "initial": found.initial_cell if pair else found.initial_hidden,
        **found.weights.named(),
    }
    assert results.keys() == wanted.keys()
    for name, array in results.items():
        scale = max(1.0, float(np.abs(wanted[name]).max(initial=0)))
        close(array / scale, wanted[name] / scale, 1e-12, name)


@pytest.mark.parametrize("variant", LINEAR)
def test_gates_far_from_zero_stay_finite(variant: str) -> None:
    weights = cell_weights(variant, np.random.default_rng(1), dtype=np.float32)
    data = np.array([[3e3] * 5, [-3e3] * 5, [0.0] * 5, [3e3] * 5], np.float32)
    run = rnn_forward(data, np.array([0, 4]), weights, keep=True)
    assert run.tape is not None
    found = rnn_backward(run.tape, grad_outputs=np.ones_like(run.outputs))
    arrays = (run.outputs, found.input, *found.weights.arrays().values())
    assert all(np.isfinite(array).all() for array in arrays)


def test_numbers_beyond_all_bounds_pass_without_a_warning() -> None:
    weights = cell_weights("lru", np.random.default_rng(1))
    fast = dataclasses.replace(weights, nu_log=np.full(3, 800.0))  # exp(-exp(800)) is 0
    found = rnn_forward(np.full((2, 5), np.inf), np.array([0, 2]), fast)
    assert not np.isfinite(found.outputs).any()


@pytest.mark.slow
@pytest.mark.parametrize("variant", LINEAR)
def test_a_hundred_thousand_steps_stay_finite_and_exact(variant: str) -> None:
    rng = np.random.default_rng(3)
    weights = cell_weights(variant, rng)
    data = rng.normal(size=(100_000, 5))
    offsets, upstream = np.array([0, len(data)]), rng.normal(size=(100_000, weights.output_size))
    runs = []
    for dtype in (np.float64, np.float32):
        run = rnn_forward(data.astype(dtype), offsets, weights.astype(dtype), keep=True)
        assert run.tape is not None
        found = rnn_backward(run.tape, grad_outputs=upstream.astype(dtype))
        runs.append((run.outputs, found.input, *found.weights.arrays().values()))
    for double, single in zip(*runs, strict=True):
        assert np.isfinite(single).all()
        # Rounding of float32, of a state that is a sum of many; of weights, over all rows.
        assert np.abs(single - double).max() <= 2e-4 * np.abs(double).max()


@pytest.mark.parametrize("variant", ["mingru", "minlstm"])
def test_the_papers_form_in_log_space_agrees(variant: str) -> None:
    functional = torch.nn.functional
    rng = np.random.default_rng(5)
    weights = cell_weights(variant, rng)
    data = rng.normal(size=(300, 5))
    candidate, *gates = torch.tensor(linear(data, weights)).chunk(weights.GATES, dim=1)
    if variant == "mingru":
        log_a, log_z = -functional.softplus(gates[0]), -functional.softplus(-gates[0])
    else:
        difference = functional.softplus(-gates[0]) - functional.softplus(-gates[1])
        log_a, log_z = -functional.softplus(difference), -functional.softplus(-difference)
    log_g = torch.where(
        candidate >= 0, (candidate.relu() + 0.5).log(), -functional.softplus(-candidate)
    )
    passed = log_a.cumsum(0)
    wanted = (passed + (log_z + log_g - passed).logcumsumexp(0)).exp()
    close(rnn_forward(data, np.array([0, 300]), weights).outputs, wanted.numpy(), 1e-12)


@pytest.mark.parametrize("variant", LINEAR)
def test_a_sequence_goes_on_from_its_last_states(variant: str) -> None:
    rng = np.random.default_rng(9)
    weights, data = cell_weights(variant, rng), rng.normal(size=(11, 5))
    whole = rnn_forward(data, np.array([0, 11]), weights)
    head = rnn_forward(data[:4], np.array([0, 4]), weights)
    tail = rnn_forward(
        data[4:], np.array([0, 7]), weights,
        initial=States(hidden=head.last_hidden, cell=head.last_cell),
    )  # fmt: skip
    close(np.concatenate([head.outputs, tail.outputs]), whole.outputs, 1e-14)
    close(tail.last_hidden, whole.last_hidden, 1e-14)


def test_an_output_alone_is_no_state_to_start_from() -> None:
    weights = cell_weights("mingru-projection", np.random.default_rng(0))
    states = States(hidden=np.ones((1, 2)))
    with pytest.raises(InvalidDataError, match="initial hidden: a mingru whose output is not its"):
        rnn_forward(np.ones((3, 5)), np.array([0, 3]), weights, initial=states)


def test_an_lru_may_do_without_its_skip_connection() -> None:
    rng = np.random.default_rng(8)
    weights, data = cell_weights("lru", rng), rng.normal(size=(6, 5))
    with_skip, without = (
        rnn_forward(data, np.array([0, 6]), each, keep=True)
        for each in (weights, dataclasses.replace(weights, skip=None))
    )
    close(with_skip.outputs - without.outputs, data @ weights.skip.T, 1e-14)
    assert without.tape is not None
    found = rnn_backward(without.tape, grad_outputs=np.ones_like(without.outputs))
    assert found.weights.skip is None


@pytest.mark.parametrize("cell", ["lru", "s5"])
def test_a_diagonal_matrix_is_the_same_skip_connection_as_its_diagonal(cell: str) -> None:
    rng = np.random.default_rng(9)
    weights: Any = seeded_weights(cell, 5, 4, projection_size=5, rng=rng, dtype="float64")
    by_element = weights.layers[0][0]
    assert by_element.skip.shape == (5,)
    data, grad = rng.normal(size=(2, 6, 5))
    one, two = (
        rnn_forward(data, np.array([0, 2, 6]), each, keep=True)
        for each in (by_element, dataclasses.replace(by_element, skip=np.diag(by_element.skip)))
    )
    close(two.outputs, one.outputs, 1e-14)
    assert one.tape is not None
    assert two.tape is not None
    first, second = (rnn_backward(each, grad_outputs=grad) for each in (one.tape, two.tape))
    close(second.input, first.input, 1e-14)
    close(np.diag(second.weights.skip), first.weights.skip, 1e-14)


@pytest.mark.parametrize("cell", ["mingru", "minlstm"])
def test_layers_in_both_directions_agree_with_torch(cell: str) -> None:
    rng = np.random.default_rng(2)
    weights = seeded_weights(cell, 5, 4, layers=2, bidirectional=True, rng=rng, dtype="float64")
    data = rng.normal(size=(6, 5))
    found = stack_forward(data, np.array([0, 6]), weights, keep=True)
    rows = torch.tensor(data, requires_grad=True)
    below = rows
    for layer in weights.layers:
        parts = []
        for direction, one in enumerate(layer):
            arrays = {name: torch.tensor(array) for name, array in one.named().items()}
            turned = below.flip(0) if direction else below
            outputs, _ = CELLS[cell](arrays, {}, turned, torch.zeros(4, dtype=torch.float64))
            parts.append(outputs.flip(0) if direction else outputs)
        below = torch.cat(parts, dim=1)
    below.sum().backward()
    close(found.outputs, below.detach().numpy(), 1e-13)
    assert found.tape is not None
    back = stack_backward(found.tape, grad_outputs=np.ones_like(found.outputs))
    close(back.input, rows.grad.numpy(), 1e-13)


def test_training_keeps_twice_the_input() -> None:
    rng = np.random.default_rng(0)
    weights = seeded_weights("mingru", 64, 64, rng=rng).layers[0][0]
    data = rng.normal(size=(40_000, 64)).astype(np.float32)
    offsets = np.arange(0, 40_001, 400)
    tracemalloc.start()
    try:
        run = rnn_forward(data, offsets, weights, keep=True, backend="numpy")
        kept_bytes = tracemalloc.get_traced_memory()[0]
        assert run.tape is not None
        rnn_backward(run.tape, grad_last_hidden=run.last_hidden)
    finally:
        tracemalloc.stop()
    # a and the outputs, and a few arrays of a sequence each.
    assert kept_bytes < 2.2 * data.nbytes


@pytest.mark.parametrize(("module", "cell"), [("minGRU", "mingru"), ("minLSTM", "minlstm")])
@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_it_computes_as_the_published_package(module: str, cell: str, factor: float) -> None:
    package = pytest.importorskip(f"minGRU_pytorch.{module}")
    from lodcli.kernels.rnn.stack.state_dict import weights_from_state_dict

    torch.manual_seed(0)
    theirs = getattr(package, module)(6, expansion_factor=factor).double()
    entries = {name: array.numpy() for name, array in theirs.state_dict().items()}
    weights = weights_from_state_dict(entries)
    assert weights.cell == cell
    rows = torch.randn(1, 9, 6, dtype=torch.float64, requires_grad=True)
    outputs = theirs(rows)
    found = stack_forward(rows[0].detach().numpy(), np.array([0, 9]), weights, keep=True)
    close(found.outputs, outputs[0].detach().numpy(), 1e-12)
    outputs.sum().backward()
    assert found.tape is not None
    back = stack_backward(found.tape, grad_outputs=np.ones_like(found.outputs))
    close(back.input, rows.grad[0].numpy(), 1e-12)
