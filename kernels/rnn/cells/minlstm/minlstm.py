"""The minLSTM with normalized gates.

    f = sigmoid(weight_f x + bias_f)
    i = sigmoid(weight_i x + bias_i)
    candidate = g(weight_h x + bias_h)
    h' = f / (f + i) * h + i / (f + i) * candidate
    y = to_out h', if there is a to_out, else h'

    to_hidden_and_f_i_gate.weight (3H, D), rows h, f, i    .bias (3H,) or None
    to_out.weight (P, H) or None

The names are those of lucidrains' minGRU-pytorch, which has no bias. i / (f + i) is
computed as (1 / f) / (1 / f + 1 / i), both reciprocals scaled by one factor to avoid 0 / 0.
k of minimal.py is log(i / f). g: minimal.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import sigmoid_pair
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

    def shares(self, gates: Array) -> tuple[Array, Array]:
        forget, enter = np.split(-gates, 2, axis=1)
        most = np.maximum(np.maximum(forget, enter), 0)
        # 1 / f and 1 / i, both multiplied by exp(-most).
        one = np.exp(-most)
        of_f, of_i = one + np.exp(forget - most), one + np.exp(enter - most)
        both = of_f + of_i
        return of_f / both, of_i / both

    def shares_backward(self, gates: Array, grad: Array) -> Array:
        forget, enter = np.split(sigmoid_pair(gates)[1], 2, axis=1)
        return np.concatenate([-grad * forget, grad * enter], axis=1)
