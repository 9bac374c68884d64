"""Stacks against torch's nn.RNN, nn.GRU and nn.LSTM on packed sequences, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lodcli.kernels.rnn.stack import stack_backward, stack_forward
from lodcli.kernels.rnn.state_dict import state_dict, weights_from_state_dict
from tests.oracles_rnn import Array, close, offsets_of

torch: Any = pytest.importorskip("torch", reason="the torch package is not installed")

LENGTHS = [2, 4, 1, 4, 3]  # ties; torch packs no empty sequences
OFFSETS = offsets_of(LENGTHS)
MODULES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "tanh": ("elman", "RNN", {}),
    "relu": ("elman", "RNN", {"nonlinearity": "relu"}),
    "gru": ("gru", "GRU", {}),
    "gru-without-bias": ("gru", "GRU", {"bias": False}),
    "lstm": ("lstm", "LSTM", {}),
    "lstm-projection": ("lstm", "LSTM", {"proj_size": 2}),
}


def numbers(tensor: Any) -> Array:
    array: Array = tensor.detach().numpy()
    return array


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", MODULES)
def test_a_torch_model_drops_in(name: str, layers: int, bidirectional: bool) -> None:
    cell, module_name, options = MODULES[name]
    torch.manual_seed(0)
    module = getattr(torch.nn, module_name)(
        5, 3, num_layers=layers, bidirectional=bidirectional, dtype=torch.float64, **options
    )
    entries = {key: numbers(value).copy() for key, value in module.state_dict().items()}
    weights = weights_from_state_dict(entries, cell)
    if "nonlinearity" in options:
        weights = weights.with_options(nonlinearity=options["nonlinearity"])
    rng = np.random.default_rng(1)
    count = layers * (2 if bidirectional else 1)
    data = rng.normal(size=(sum(LENGTHS), 5))
    sizes = weights.layers[0][0].state_sizes
    states = [rng.normal(size=(count, len(LENGTHS), size)) for size in sizes]

    # torch
    rows = torch.tensor(data, requires_grad=True)
    initial = [torch.tensor(state, requires_grad=True) for state in states]
    packed = torch.nn.utils.rnn.pack_sequence(rows.split(LENGTHS), enforce_sorted=False)
    output, last = module(packed, tuple(initial) if len(initial) == 2 else initial[0])
    outputs = torch.cat(torch.nn.utils.rnn.unpack_sequence(output))
    results = [outputs, *(last if len(initial) == 2 else [last])]
    grads = [rng.normal(size=tuple(result.shape)) for result in results]
    sum((r * torch.tensor(g)).sum() for r, g in zip(results, grads, strict=True)).backward()

    # ours
    names = ("hidden", "cell")[: len(sizes)]
    begin: dict[str, Any] = {f"initial_{n}": s for n, s in zip(names, states, strict=True)}
    run = stack_forward(data, OFFSETS, weights, keep=True, **begin)
    close(run.outputs, numbers(outputs), 1e-10)
    close(run.last_hidden, numbers(results[1]), 1e-10)
    assert run.tape is not None
    end: dict[str, Any] = {f"grad_last_{n}": g for n, g in zip(names, grads[1:], strict=True)}
    found = stack_backward(run.tape, grad_outputs=grads[0], **end)
    close(found.input, numbers(rows.grad), 1e-10)
    close(found.initial_hidden, numbers(initial[0].grad), 1e-10)
    if cell == "lstm":
        close(run.last_cell, numbers(results[2]), 1e-10)
        close(found.initial_cell, numbers(initial[1].grad), 1e-10)
    gradients = state_dict(found.weights)
    parameters = dict(module.named_parameters())
    assert gradients.keys() == parameters.keys()
    for key, parameter in parameters.items():
        close(gradients[key], numbers(parameter.grad), 1e-10, key)
