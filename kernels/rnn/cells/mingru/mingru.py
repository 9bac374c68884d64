"""The minGRU.

    z = sigmoid(weight_z x + bias_z)
    candidate = g(weight_h x + bias_h)
    h' = (1 - z) * h + z * candidate
    y = to_out h', if there is a to_out, else h'

    to_hidden_and_gate.weight (2H, D), rows h, z    .bias (2H,) or None
    to_out.weight (P, H) or None

The names are those of lucidrains' minGRU-pytorch, which has no bias. g: minimal.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import sigmoid_pair
from lodcli.kernels.rnn.cells.minimal import MinimalCell, MinimalWeights


@dataclass(frozen=True, eq=False, kw_only=True)
class MinGRUWeights(MinimalWeights):
    """The weights of a minGRU; shapes and order are at the head of this file."""

    KIND: ClassVar[str] = "mingru"
    GATES: ClassVar[int] = 2
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "to_gates": "to_hidden_and_gate.weight",
            "to_gates_bias": "to_hidden_and_gate.bias",
            "to_out": "to_out.weight",
        }
    )


class MinGRUCell(MinimalCell[MinGRUWeights]):
    """The equations at the head of this file."""

    def shares(self, gates: Array) -> tuple[Array, Array]:
        return sigmoid_pair(gates)

    def shares_backward(self, gates: Array, grad: Array) -> Array:
        return grad
