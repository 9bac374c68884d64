"""The GRU of Paddle: the reset gate acts before the matmul.

    u = gate(weight_iu x + bias_iu + weight_hu h + bias_hu)
    r = gate(weight_ir x + bias_ir + weight_hr h + bias_hr)
    c = candidate(weight_ic x + bias_ic + weight_hc (r * h) + bias_hc)
    h' = (1 - u) * h + u * c        origin_mode: h' = u * h + (1 - u) * c

Gate order u, r, c (update, reset, candidate), blocks of H rows one below the other:

    weight_ih (3H, D)    weight_hh (3H, H)    bias_ih, bias_hh (3H,)

gate (default sigmoid) and candidate (default tanh) can each be sigmoid, tanh, relu or identity.
Only the sum of the two biases is used; Paddle has a single bias. origin_mode is the GRU
of Cho et al., 2014; without it u means the opposite (Chung et al., 2014). gru.py has
torch's GRU, whose gate order differs too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import activation_named
from lodcli.kernels.rnn.cells.cell import Cell, CellWeights, State, StepGradients, column_sums


@dataclass(frozen=True, eq=False, kw_only=True)
class PaddleGRUWeights(CellWeights):
    """The weights of a Paddle GRU; shapes and gate order are at the head of this file.

    Attributes:
        gate_activation: of u and r.
        candidate_activation: of c.
        origin_mode: which of the two forms of h'.
    """

    KIND: ClassVar[str] = "gru_paddle"
    GATES: ClassVar[int] = 3
    ACTIVATION_FIELDS: ClassVar[tuple[str, ...]] = ("gate_activation", "candidate_activation")

    gate_activation: str = "sigmoid"
    candidate_activation: str = "tanh"
    origin_mode: bool = False


class PaddleGRUCell(Cell[PaddleGRUWeights]):
    """One step of the equations at the head of this file."""

    def __init__(self, weights: PaddleGRUWeights) -> None:
        super().__init__(weights)
        self.gate = activation_named(weights.gate_activation)
        self.candidate = activation_named(weights.candidate_activation)
        size = weights.hidden_size
        self.gate_rows = slice(0, 2 * size)
        self.candidate_rows = slice(2 * size, 3 * size)

    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        (hidden,) = state
        size = self.weights.hidden_size
        gates = self.gate.value(projected[:, self.gate_rows] + self.recur(hidden, self.gate_rows))
        update, reset = gates[:, :size], gates[:, size:]
        open_hidden = reset * hidden
        candidate = self.candidate.value(
            projected[:, self.candidate_rows] + self.recur(open_hidden, self.candidate_rows)
        )
        keep = self._share_of_old(update)
        new = keep * hidden + (1 - keep) * candidate
        return (new,), (hidden, update, reset, candidate, open_hidden)

    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        hidden, update, reset, candidate, _ = kept
        weight_hh = self.weights.weight_hh
        keep = self._share_of_old(update)
        grad_keep = grad[0] * (hidden - candidate)
        grad_update = grad_keep if self.weights.origin_mode else -grad_keep
        grad_candidate = grad[0] * (1 - keep) * self.candidate.slope(candidate)
        grad_open = grad_candidate @ weight_hh[self.candidate_rows]
        gates = np.concatenate(
            [
                grad_update * self.gate.slope(update),
                grad_open * hidden * self.gate.slope(reset),
            ],
            axis=1,
        )
        previous = grad[0] * keep + grad_open * reset + gates @ weight_hh[self.gate_rows]
        inner = np.concatenate([gates, grad_candidate], axis=1)
        return StepGradients(inner, (previous,), (inner,))

    def recurrent_gradients(
        self, kept: tuple[Array, ...], recurrent: tuple[Array, ...]
    ) -> dict[str, Array]:
        hidden, _, _, _, open_hidden = kept
        (inner,) = recurrent
        gates = inner[:, self.gate_rows].T @ hidden
        candidate = inner[:, self.candidate_rows].T @ open_hidden
        return {
            "weight_hh": np.concatenate([gates, candidate]),
            "bias_hh": column_sums(inner),
        }

    def _share_of_old(self, update: Array) -> Array:
        """Return the factor of the old hidden state in h'."""
        return update if self.weights.origin_mode else 1 - update
