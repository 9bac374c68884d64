"""The cells and options that the RNN tests run over."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.cells.linear_cell import LinearWeights
from lodcli.kernels.rnn.cells.registry import weights_class
from lodcli.kernels.rnn.stack.stack import seeded_weights

# name: (kind, arguments of seeded_weights, options)
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "elman-tanh": ("elman", {}, {}),
    "elman-relu": ("elman", {}, {"nonlinearity": "relu"}),
    "elman-sigmoid": ("elman", {"bias": False}, {"nonlinearity": "sigmoid"}),
    "gru": ("gru", {}, {}),
    "gru-without-bias": ("gru", {"bias": False}, {}),
    "paddle-gru": ("gru_paddle", {}, {}),
    "paddle-gru-origin": ("gru_paddle", {"bias": False}, {"origin_mode": True}),
    "paddle-gru-relu": (
        "gru_paddle",
        {},
        {"gate_activation": "tanh", "candidate_activation": "relu", "origin_mode": True},
    ),
    "lstm": ("lstm", {}, {}),
    "lstm-without-bias": ("lstm", {"bias": False}, {}),
    "lstm-peepholes": ("lstm", {"peepholes": True}, {}),
    "lstm-projection": ("lstm", {"projection_size": 2}, {}),
    "lstm-everything": (
        "lstm",
        {"peepholes": True, "projection_size": 2},
        {
            "gate_activation": "tanh",
            "cell_activation": "sigmoid",
            "candidate_activation": "identity",
        },
    ),
    "lstm-coupled": ("lstm", {"peepholes": True}, {"coupled": True}),
    "lstm-relu": ("lstm", {"peepholes": True}, {"cell_activation": "relu"}),
    "slstm": ("slstm", {}, {}),
    "slstm-without-bias": ("slstm", {"bias": False}, {}),
    "slstm-heads": ("slstm", {"heads": 3}, {}),
    "mingru": ("mingru", {}, {}),
    "mingru-identity": ("mingru", {"bias": True}, {"candidate_activation": "identity"}),
    "mingru-projection": ("mingru", {"projection_size": 2}, {}),
    "minlstm": ("minlstm", {"bias": True}, {}),
    "minlstm-identity": ("minlstm", {}, {"candidate_activation": "identity"}),
    "minlstm-projection": ("minlstm", {"projection_size": 2}, {}),
    "rglru": ("rglru", {"heads": 3}, {}),
    "rglru-one-head": ("rglru", {"bias": False}, {}),
    "lru": ("lru", {}, {}),
    "lru-projection": ("lru", {"projection_size": 5}, {}),
    "s5": ("s5", {}, {}),
    "s5-projection": ("s5", {"projection_size": 5}, {"conj_sym": False}),
}
LINEAR = [
    name for name, (kind, *_) in VARIANTS.items() if issubclass(weights_class(kind), LinearWeights)
]
STEPPED = [
    name for name, (kind, *_) in VARIANTS.items() if issubclass(weights_class(kind), CellWeights)
]


def initial_states(
    weights: Any, count: int, rng: np.random.Generator, dtype: npt.DTypeLike = np.float64
) -> list[npt.NDArray[Any]]:
    """Return random states before a first step, (count, ..) each."""
    states = [rng.normal(size=(count, size)).astype(dtype) for size in weights.state_sizes]
    if weights.KIND == "slstm":
        # n is a sum of positive numbers, and a divisor.
        n = states[1][:, weights.hidden_size : 2 * weights.hidden_size]
        n[:] = np.abs(n) + 0.5
    return states


def cell_weights(
    variant: str, rng: np.random.Generator, *, dtype: npt.DTypeLike = np.float64, hidden: int = 3
) -> Any:
    """Return weights of a variant: 5 inputs, 3 hidden, so that no two sizes are equal."""
    kind, arguments, options = VARIANTS[variant]
    weights = seeded_weights(kind, 5, hidden, rng=rng, dtype=dtype, **arguments)
    return weights.with_options(**options).layers[0][0]
