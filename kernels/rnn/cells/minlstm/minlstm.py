"""The minLSTM, its gates normalized.

    f = sigmoid(weight_f x + bias_f)
    i = sigmoid(weight_i x + bias_i)
    candidate = g(weight_h x + bias_h)
    h' = f / (f + i) * h + i / (f + i) * candidate
    y = to_out h', if there is a to_out, else h'

    to_hidden_and_f_i_gate.weight (3H, D), rows h, f, i    .bias (3H,) or None
    to_out.weight (P, H) or None

The names are those of lucidrains' minGRU-pytorch, which has no bias. i / (f + i) is
sigmoid(softplus(-kf) - softplus(-ki)), of the arguments kf and ki of the two gates: no quotient
of two zeros. g: minimal.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import sigmoid
from lodcli.kernels.rnn.cells.minimal import MinimalCell, MinimalWeights


@dataclass(frozen=True, eq=False, kw_only=True)
class MinLSTMWeights(MinimalWeights):
    """The weights of a minLSTM; shapes and order are at the head of this file."""

    KIND: ClassVar[str] = "minlstm"
    GATES: ClassVar[int] = 3
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "to_gates": "to_hidden_and_f_i_gate.weight",
            "to_gates_bias": "to_hidden_and_f_i_gate.bias",
            "to_out": "to_out.weight",
        }
    )


class MinLSTMCell(MinimalCell[MinLSTMWeights]):
    """The equations at the head of this file."""

    def score(self, gates: Array) -> Array:
        softplus = np.logaddexp(0, -gates)
        forget, enter = np.split(softplus, 2, axis=1)
        difference: Array = (forget - enter).astype(gates.dtype, copy=False)
        return difference

    def score_backward(self, gates: Array, grad: Array) -> Array:
        forget, enter = np.split(sigmoid(-gates), 2, axis=1)
        return np.concatenate([-grad * forget, grad * enter], axis=1)
