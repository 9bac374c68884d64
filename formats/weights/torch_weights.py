"""Weights in .pt files of torch, as state dicts."""

from __future__ import annotations

import numpy as np

from lodcli.formats.core.errors import NotThisFormatError
from lodcli.formats.storage.inputs import Input
from lodcli.formats.storage.outputs import Output
from lodcli.formats.torch.archive import load
from lodcli.formats.torch.calls import Refused
from lodcli.formats.torch.pickle import SAVE_MODULE
from lodcli.formats.torch.torch_file import save, torch
from lodcli.formats.torch.values import Room, named
from lodcli.formats.weights.common import with_two_biases
from lodcli.formats.weights.safetensors_weights import exact
from lodcli.kernels.errors import UnsupportedError
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.state_dict import (
    StateDict,
    is_weight_name,
    rnn_prefixes,
    state_dict,
    unusual_options,
)

_SAVE_STATES = "save weights with torch.save(module.state_dict(), 'weights.pt')"


def read(source: Input) -> StateDict:
    """Return the tensors of a state dict, or of the nested dicts of a checkpoint."""
    loaded = load(source.make_seekable())
    if isinstance(loaded.value, Refused):
        raise _unsupported(loaded.value.reason)
    if not isinstance(loaded.value, dict):
        kind = "tensor" if isinstance(loaded.value, np.ndarray) else type(loaded.value).__name__
        raise NotThisFormatError(f"holds a {kind}, expected a state dict; {_SAVE_STATES}")
    found = StateDict()
    refused: list[str] = []
    for name, part in named(loaded.value, Room(0, loaded.pickle_bytes)):
        if isinstance(part, Refused):
            # Checkpoints hold arguments, paths, ..; but a sparse tensor may be a weight.
            refused.append(f"{ascii(name)[1:-1][:100]}: {part.reason}")
            if is_weight_name(name):
                raise UnsupportedError(refused[-1])
        if isinstance(part, np.ndarray):
            if name in found:
                raise NotThisFormatError(f"two tensors are called {ascii(name)[1:-1][:100]}")
            found[name] = exact(part)
    if refused and not rnn_prefixes(found):
        raise _unsupported(f"no RNN weights, and {refused[0]}")
    return found


def _unsupported(reason: str) -> UnsupportedError:
    # Two remedies for a whole module would be the same.
    return UnsupportedError(f"{reason.removesuffix(f'; {SAVE_MODULE}')}; {_SAVE_STATES}")


def write(weights: RNNWeights, output: Output) -> None:
    """Write a state dict that torch's nn.LSTM, nn.GRU or nn.RNN loads."""
    refuse_unheld(weights)
    from lodcli.formats.torch.forms import tensor_of

    entries = state_dict(with_two_biases(weights))
    save({name: tensor_of(array) for name, array in entries.items()}, output)


def refuse_unheld(weights: RNNWeights) -> None:
    """Raise UnsupportedError if no module of torch can use these weights."""
    if weights.cell == "gru_paddle":
        raise UnsupportedError(
            "torch's GRU applies the reset gate after the matmul, gru_paddle before it; "
            "no weights convert one into the other"
        )
    torch()
    options = unusual_options(weights)
    if options.get("nonlinearity") == "relu":  # an argument of the module, not in state dicts
        del options["nonlinearity"]
    if options:
        shown = ", ".join(f"{name}={value}" for name, value in options.items())
        raise UnsupportedError(f"torch has no {weights.cell} with {shown}")
    arrays = weights.layers[0][0].arrays()
    if "peepholes" in arrays:
        raise UnsupportedError("torch's LSTM has no peepholes")
    if "weight_hr" in arrays and arrays["weight_hr"].shape[0] >= weights.hidden_size:
        raise UnsupportedError(
            f"torch's LSTM projects only to less than its hidden size, {weights.hidden_size}"
        )
