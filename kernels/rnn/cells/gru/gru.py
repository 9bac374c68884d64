"""The GRU of torch and cuDNN: the reset gate acts after the matmul.

    r = sigmoid(weight_ir x + bias_ir + weight_hr h + bias_hr)
    z = sigmoid(weight_iz x + bias_iz + weight_hz h + bias_hz)
    n = tanh(weight_in x + bias_in + r * (weight_hn h + bias_hn))
    h' = (1 - z) * n + z * h

Gate order r, z, n (reset, update, new), blocks of H rows one below the other:

    weight_ih (3H, D)    weight_hh (3H, H)    bias_ih, bias_hh (3H,)

The two biases of n are not interchangeable: only one is inside r * (..). gru_paddle.py
has the other GRU. Cho et al., 2014, in the form of cuDNN's documentation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import sigmoid
from lodcli.kernels.rnn.cells.cell import Cell, CellWeights, State, StepGradients


@dataclass(frozen=True, eq=False, kw_only=True)
class GRUWeights(CellWeights):
    """The weights of a GRU; shapes and gate order are at the head of this file."""

    KIND: ClassVar[str] = "gru"
    GATES: ClassVar[int] = 3

    @property
    def is_plain(self) -> bool:
        return True


class GRUCell(Cell[GRUWeights]):
    """One step of the equations at the head of this file."""

    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        (hidden,) = state
        size = self.weights.hidden_size
        recurrent = self.recur(hidden)
        gates = sigmoid(projected[:, : 2 * size] + recurrent[:, : 2 * size])
        reset, update = gates[:, :size], gates[:, size:]
        inner = recurrent[:, 2 * size :]
        new = np.tanh(projected[:, 2 * size :] + reset * inner)
        return ((1 - update) * new + update * hidden,), (hidden, reset, update, inner, new)

    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        hidden, reset, update, inner, new = kept
        grad_new = grad[0] * (1 - update) * (1 - new * new)
        grad_update = grad[0] * (hidden - new) * update * (1 - update)
        grad_reset = grad_new * inner * reset * (1 - reset)
        projected = np.concatenate([grad_reset, grad_update, grad_new], axis=1)
        recurrent = np.concatenate([grad_reset, grad_update, grad_new * reset], axis=1)
        previous = grad[0] * update + recurrent @ self.weights.weight_hh
        return StepGradients(projected, (previous,), (recurrent,))
