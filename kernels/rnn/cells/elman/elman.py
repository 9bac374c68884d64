"""The Elman cell, torch's nn.RNN.

    h' = f(weight_ih x + bias_ih + weight_hh h + bias_hh)

    weight_ih (H, D)    weight_hh (H, H)    bias_ih, bias_hh (H,)

One block, so there is no gate order. f is tanh, relu, sigmoid or identity.
Elman, Finding Structure in Time, 1990.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import activation_named
from lodcli.kernels.rnn.cells.cell import Cell, CellWeights, State, StepGradients


@dataclass(frozen=True, eq=False, kw_only=True)
class ElmanWeights(CellWeights):
    """The weights of an Elman cell; shapes and equation are at the head of this file.

    Attributes:
        nonlinearity: f.
    """

    KIND: ClassVar[str] = "elman"
    GATES: ClassVar[int] = 1
    ACTIVATION_FIELDS: ClassVar[tuple[str, ...]] = ("nonlinearity",)

    nonlinearity: str = "tanh"

    @property
    def is_plain(self) -> bool:
        return True


class ElmanCell(Cell[ElmanWeights]):
    """One step of the equation at the head of this file."""

    def __init__(self, weights: ElmanWeights) -> None:
        super().__init__(weights)
        self.activation = activation_named(weights.nonlinearity)

    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        (hidden,) = state
        new = self.activation.value(projected + self.recur(hidden))
        return (new,), (hidden, new)

    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        _, new = kept
        inner = grad[0] * self.activation.slope(new)
        return StepGradients(inner, (inner @ self.weights.weight_hh,), (inner,))
