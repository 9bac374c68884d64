"""Weights in .pt files: a state dict of torch, read with weights_only=True."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lodcli.formats.errors import NotThisFormatError, naming
from lodcli.formats.inputs import Input
from lodcli.formats.outputs import Output
from lodcli.formats.torch_file import load, save, torch
from lodcli.formats.weights.common import with_two_biases
from lodcli.formats.weights.safetensors_weights import exact
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.rnn.stack import RNNWeights
from lodcli.kernels.rnn.state_dict import StateDict, state_dict, unusual_options

MOST_DEPTH = 8


def read(source: Input) -> StateDict:
    """Return the tensors of a state dict; of a checkpoint, those of the dicts in it."""
    value = load(source.make_seekable()).value
    if not isinstance(value, dict):
        raise NotThisFormatError(f"holds a {type(value).__name__}; expected a state dict")
    from lodcli.formats.torch_values import array_of

    found = StateDict()
    for name, tensor in _tensors(value, "", 0):
        with naming(name):
            found[name] = exact(array_of(tensor))
    return found


def _tensors(value: Mapping[Any, Any], prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    if depth > MOST_DEPTH:
        raise UnsupportedError(f"dicts in dicts, more than {MOST_DEPTH} deep")
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _tensors(part, f"{prefix}{name}.", depth + 1)
        elif isinstance(part, torch().Tensor) and not part.is_nested:
            yield f"{prefix}{name}", part


def write(weights: RNNWeights, output: Output) -> None:
    """Write a state dict that torch's nn.LSTM, nn.GRU or nn.RNN loads."""
    refuse_unheld(weights)
    from lodcli.formats.torch_forms import tensor_of

    entries = state_dict(with_two_biases(weights))
    save({name: tensor_of(array) for name, array in entries.items()}, output)


def refuse_unheld(weights: RNNWeights) -> None:
    """Raise UnsupportedError if no module of torch computes with these weights."""
    if weights.cell == "gru_paddle":
        raise UnsupportedError(
            "torch's GRU applies the reset gate after the matmul, gru_paddle before it; "
            "no weights make one of the other"
        )
    torch()
    options = unusual_options(weights)
    if options.get("nonlinearity") == "relu":  # a module's argument, which no state dict says
        del options["nonlinearity"]
    if options:
        shown = ", ".join(f"{name}={value}" for name, value in options.items())
        raise UnsupportedError(f"torch has no {weights.cell} with {shown}")
    if "peepholes" in weights.layers[0][0].arrays():
        raise UnsupportedError("torch's LSTM has no peepholes")
