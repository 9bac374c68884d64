"""Stacks against torch's nn.RNN, nn.GRU and nn.LSTM on packed sequences, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.rnn.stack.stack import stack_backward, stack_forward
from lodcli.kernels.rnn.stack.state_dict import state_dict, weights_from_state_dict
from lodcli.kernels.runtime.dispatch import Backend
from tests.oracles_rnn import Array, close, offsets_of

torch: Any = pytest.importorskip("torch")

LENGTHS = [2, 4, 1, 4, 3]  # ties; torch packs no empty sequences
MODULES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tanh": ("elman", "RNN", {}),
    "relu": ("elman", "RNN", {"nonlinearity": "relu"}),
    "gru": ("gru", "GRU", {}),
    "gru-without-bias": ("gru", "GRU", {"bias": False}),
    "lstm": ("lstm", "LSTM", {}),
    "lstm-projection": ("lstm", "LSTM", {"proj_size": 2}),
}


# The compiled engine has plain cells only.
BACKENDS = [("numpy", name) for name in MODULES]
BACKENDS += [("numba", name) for name in MODULES if name != "lstm-projection"]
# torch's tests use the same tolerance; float32 rounds each of some hundred products.
TOLERANCES = {"float64": 1e-10, "float32": 1e-5}


def numbers(tensor: Any) -> Array:
    array: Array = tensor.detach().numpy()
    return array


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize(("backend", "name"), BACKENDS)
def test_a_torch_model_drops_in(
    backend: Backend, name: str, layers: int, bidirectional: bool
) -> None:
    _compare(backend, name, layers, bidirectional, LENGTHS, (5, 3), "float64")


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(("backend", "name"), BACKENDS)
def test_wide_cells_and_skewed_lengths_agree_with_torch(
    backend: Backend, name: str, dtype: str
) -> None:
    lengths = [1, 40, 3, 3, 17, 1, 90, 5, 3, 8]
    _compare(backend, name, 1, False, lengths, (45, 70), dtype)


def _compare(
    backend: Backend,
    name: str,
    layers: int,
    bidirectional: bool,
    lengths: list[int],
    widths: tuple[int, int],
    dtype: str,
) -> None:
    if backend == "numba":
        pytest.importorskip("numba")
    tolerance = TOLERANCES[dtype]
    cell, module_name, options = MODULES[name]
    torch.manual_seed(0)
    module = getattr(torch.nn, module_name)(
        *widths,
        num_layers=layers,
        bidirectional=bidirectional,
        dtype=getattr(torch, dtype),
        **options,
    )
    entries = {key: numbers(value).copy() for key, value in module.state_dict().items()}
    weights = weights_from_state_dict(entries, cell)
    if "nonlinearity" in options:
        weights = weights.with_options(nonlinearity=options["nonlinearity"])
    rng = np.random.default_rng(1)
    count = layers * (2 if bidirectional else 1)
    data = rng.normal(size=(sum(lengths), widths[0])).astype(dtype)
    sizes = weights.layers[0][0].state_sizes
    states = [rng.normal(size=(count, len(lengths), size)).astype(dtype) for size in sizes]

    # torch
    rows = torch.tensor(data, requires_grad=True)
    initial = [torch.tensor(state, requires_grad=True) for state in states]
    packed = torch.nn.utils.rnn.pack_sequence(rows.split(lengths), enforce_sorted=False)
    output, last = module(packed, tuple(initial) if len(initial) == 2 else initial[0])
    outputs = torch.cat(torch.nn.utils.rnn.unpack_sequence(output))
    results = [outputs, *(last if len(initial) == 2 else [last])]
    grads = [rng.normal(size=tuple(result.shape)).astype(dtype) for result in results]
    sum((r * torch.tensor(g)).sum() for r, g in zip(results, grads, strict=True)).backward()

    # ours
    names = ("hidden", "cell")[: len(sizes)]
    begin: dict[str, Any] = {f"initial_{n}": s for n, s in zip(names, states, strict=True)}
    run = stack_forward(data, offsets_of(lengths), weights, keep=True, backend=backend, **begin)
    close(run.outputs, numbers(outputs), tolerance)
    close(run.last_hidden, numbers(results[1]), tolerance)
    assert run.tape is not None
    end: dict[str, Any] = {f"grad_last_{n}": g for n, g in zip(names, grads[1:], strict=True)}
    found = stack_backward(run.tape, grad_outputs=grads[0], **end)
    close(found.input, numbers(rows.grad), tolerance)
    close(found.initial_hidden, numbers(initial[0].grad), tolerance)
    if cell == "lstm":
        close(run.last_cell, numbers(results[2]), tolerance)
        close(found.initial_cell, numbers(initial[1].grad), tolerance)
    gradients = state_dict(found.weights)
    parameters = dict(module.named_parameters())
    assert gradients.keys() == parameters.keys()
    for key, parameter in parameters.items():
        # A sum over all rows, so relative to the largest.
        grad = numbers(parameter.grad)
        scale = 1 + np.max(np.abs(grad))
        close(gradients[key] / scale, grad / scale, tolerance, key)
