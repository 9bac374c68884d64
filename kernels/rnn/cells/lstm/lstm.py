"""The LSTM: torch's, with Paddle's peepholes, coupled gates and selectable activations.

    i = gate(weight_ii x + bias_ii + weight_hi h + bias_hi + peephole_i * c)
    f = gate(weight_if x + bias_if + weight_hf h + bias_hf + peephole_f * c)
    g = candidate(weight_ig x + bias_ig + weight_hg h + bias_hg)
    c' = f * c + i * g
    o = gate(weight_io x + bias_io + weight_ho h + bias_ho + peephole_o * c')
    h' = o * cell(c')        with a projection: h' = weight_hr (o * cell(c'))

Gate order i, f, g, o (input, forget, candidate, output), blocks of H rows one below
the other; P is H without a projection:

    weight_ih (4H, D)    weight_hh (4H, P)    bias_ih, bias_hh (4H,)
    weight_hr (P, H) or None    peepholes (3, H), rows i, f, o, or None

gate (default sigmoid), cell and candidate (default tanh) can each be sigmoid, tanh, relu or
identity. With coupled gates f = 1 - i: the f blocks of all weights exist but are not used, and
their gradients are zero (ONNX's input_forget; Greff et al., 2017).
Hochreiter and Schmidhuber, 1997; peepholes: Gers and Schmidhuber, 2000; projection:
Sak et al., 2014.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import activation_named
from lodcli.kernels.rnn.cells.cell import Cell, CellWeights, State, StepGradients, column_sums
from lodcli.kernels.rnn.cells.weights import Shapes, Sizes


@dataclass(frozen=True, eq=False, kw_only=True)
class LSTMWeights(CellWeights):
    """The weights of an LSTM; shapes and gate order are at the head of this file.

    Attributes:
        weight_hr: the projection, or None.
        peepholes: i and f use the old cell state, o the new one; or None.
        gate_activation: of i, f and o.
        cell_activation: of c' in h'.
        candidate_activation: of g.
        coupled: f = 1 - i instead of a separate gate.
    """

    KIND: ClassVar[str] = "lstm"
    GATES: ClassVar[int] = 4
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"bias", "projection", "peepholes"})
    ELEMENTWISE: ClassVar[frozenset[str]] = frozenset({"peepholes"})
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType({**CellWeights.RANKS, "weight_hr": 2})
    ACTIVATION_FIELDS: ClassVar[tuple[str, ...]] = (
        "gate_activation",
        "cell_activation",
        "candidate_activation",
    )

    weight_hr: Array | None = None
    peepholes: Array | None = None
    gate_activation: str = "sigmoid"
    cell_activation: str = "tanh"
    candidate_activation: str = "tanh"
    coupled: bool = False

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        shapes = super().weight_shapes(sizes)
        if sizes.projection:
            shapes["weight_hr"] = (sizes.projection, sizes.hidden)
        if "peepholes" in sizes.extras:
            shapes["peepholes"] = (3, sizes.hidden)
        return shapes

    def sizes(self) -> Sizes:
        sizes = super().sizes()
        if self.weight_hr is None:
            return sizes
        return dataclasses.replace(sizes, projection=int(self.weight_hr.shape[0]))

    @cached_property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.output_size, self.hidden_size)

    @property
    def is_plain(self) -> bool:
        activations = (self.gate_activation, self.cell_activation, self.candidate_activation)
        extras = self.weight_hr is not None or self.peepholes is not None or self.coupled
        return activations == ("sigmoid", "tanh", "tanh") and not extras


class LSTMCell(Cell[LSTMWeights]):
    """One step of the equations at the head of this file."""

    def __init__(self, weights: LSTMWeights) -> None:
        super().__init__(weights)
        self.gate = activation_named(weights.gate_activation)
        self.cell = activation_named(weights.cell_activation)
        self.candidate = activation_named(weights.candidate_activation)

    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        hidden, cell = state
        peepholes = self.weights.peepholes
        inner = projected + self.recur(hidden)
        inner_i, inner_f, inner_g, inner_o = np.split(inner, 4, axis=1)
        if peepholes is not None:
            inner_i = inner_i + peepholes[0] * cell
            inner_f = inner_f + peepholes[1] * cell
        i = self.gate.value(inner_i)
        f = 1 - i if self.weights.coupled else self.gate.value(inner_f)
        g = self.candidate.value(inner_g)
        new_cell = f * cell + i * g
        if peepholes is not None:
            inner_o = inner_o + peepholes[2] * new_cell
        o = self.gate.value(inner_o)
        shown = self.cell.value(new_cell)
        new_hidden = o * shown
        if self.weights.weight_hr is not None:
            new_hidden = new_hidden @ self.weights.weight_hr.T
        return (new_hidden, new_cell), (hidden, cell, i, f, g, o, new_cell, shown)

    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        grad_hidden, grad_cell = grad
        _, cell, i, f, g, o, _, shown = kept
        weights = self.weights
        unprojected = grad_hidden
        if weights.weight_hr is not None:
            unprojected = grad_hidden @ weights.weight_hr
        grad_o = unprojected * shown * self.gate.slope(o)
        grad_cell = grad_cell + unprojected * o * self.cell.slope(shown)
        if weights.peepholes is not None:
            grad_cell = grad_cell + grad_o * weights.peepholes[2]
        if weights.coupled:
            grad_i = grad_cell * (g - cell) * self.gate.slope(i)
            grad_f = np.zeros_like(grad_i)
        else:
            grad_i = grad_cell * g * self.gate.slope(i)
            grad_f = grad_cell * cell * self.gate.slope(f)
        grad_g = grad_cell * i * self.candidate.slope(g)
        previous_cell = grad_cell * f
        if weights.peepholes is not None:
            previous_cell += grad_i * weights.peepholes[0] + grad_f * weights.peepholes[1]
        inner = np.concatenate([grad_i, grad_f, grad_g, grad_o], axis=1)
        previous = (inner @ weights.weight_hh, previous_cell)
        return StepGradients(inner, previous, (inner, grad_hidden))

    def recurrent_gradients(
        self, kept: tuple[Array, ...], recurrent: tuple[Array, ...]
    ) -> dict[str, Array]:
        _, cell, _, _, _, o, new_cell, shown = kept
        inner, grad_hidden = recurrent
        gradients = super().recurrent_gradients(kept, recurrent)
        if self.weights.peepholes is not None:
            grad_i, grad_f, _, grad_o = np.split(inner, 4, axis=1)
            seen = (grad_i * cell, grad_f * cell, grad_o * new_cell)
            gradients["peepholes"] = np.stack([column_sums(gate) for gate in seen])
        if self.weights.weight_hr is not None:
            gradients["weight_hr"] = grad_hidden.T @ (o * shown)
        return gradients
