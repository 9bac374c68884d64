"""Interface of a cell: weights, and one step forward and backward.

The engine projects all inputs in one GEMM (x @ weight_ih.T + bias_ih); a cell then computes one
step of the shrinking batch at a time:

    step            projected inputs, state -> new state, values saved for backward
    step_backward   gradient of the new state -> gradients of the projection and the state
    recurrent_gradients   once, over all steps: gradients of weights but weight_ih and bias_ih

A state is a tuple: (hidden,), and (hidden, cell) for an LSTM.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.weights import LayerWeights, Shapes, Sizes, require_gates

State = tuple[Array, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class CellWeights(LayerWeights):
    """The weights of a cell with matrices for the input and the state of each gate.

    Layout and names are torch's.

    Attributes:
        weight_ih: (GATES*H, D), or None if the data are already the projected inputs, (N, GATES*H)
            in the cell's gate order.
        weight_hh: (GATES*H, H).
        bias_ih: (GATES*H,), or None for none.
        bias_hh: (GATES*H,), or None for none.
    """

    GATES: ClassVar[int]
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"bias"})
    SUFFIXED: ClassVar[bool] = True
    INPUT_WEIGHT: ClassVar[str] = "weight_ih"
    STATE_WEIGHT: ClassVar[str] = "weight_hh"
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType({"weight_hh": 2, "weight_ih": 2})

    weight_ih: Array | None
    weight_hh: Array
    bias_ih: Array | None = None
    bias_hh: Array | None = None

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        gates = cls.GATES * sizes.hidden
        shapes: Shapes = {
            "weight_ih": (gates, sizes.input),
            "weight_hh": (gates, sizes.projection or sizes.hidden),
        }
        if "bias" in sizes.extras:
            shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
        return shapes

    def sizes(self) -> Sizes:
        gates = int(self.weight_hh.shape[0])
        width = gates if self.weight_ih is None else int(self.weight_ih.shape[1])
        return Sizes(width, gates // self.GATES, extras=self.OPTIONAL)

    @property
    def takes_projected(self) -> bool:
        return self.weight_ih is None

    def check_ranks(self, suffix: str) -> None:
        super().check_ranks(suffix)
        require_gates(f"weight_hh{suffix}", self.weight_hh, self.GATES, self.KIND)


class StepGradients(NamedTuple):
    """The gradients that one backward step returns.

    Attributes:
        projected: (n, GATES*H), of the projected inputs.
        previous: of the state before the step.
        recurrent: arrays for `recurrent_gradients` of the cell; (n, ..) each.
    """

    projected: Array
    previous: State
    recurrent: tuple[Array, ...]


W = TypeVar("W", bound=CellWeights)


class Cell(ABC, Generic[W]):
    """A recurrent cell and its weights, validated and of one dtype."""

    def __init__(self, weights: W) -> None:
        self.weights = weights

    @abstractmethod
    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        """Return the new state, and the values saved for step_backward and recurrent_gradients.

        Args:
            projected: (n, GATES*H), x @ weight_ih.T + bias_ih.
            state: of the same n sequences. Not modified.
        """

    @abstractmethod
    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        """Return the gradients of the arguments of one step.

        Args:
            grad: the gradient of the step's new state. Not modified.
            kept: the values saved by the step.
        """

    def recurrent_gradients(
        self, kept: tuple[Array, ...], recurrent: tuple[Array, ...]
    ) -> dict[str, Array]:
        """Return the gradients of weight_hh, bias_hh and the cell's own weights, by field.

        Args:
            kept: the saved values of all steps, concatenated.
            recurrent: StepGradients.recurrent of all steps, in the same order.

        Here for one `recur` of kept[0], with recurrent[0] the gradient of its result.
        """
        return {"weight_hh": recurrent[0].T @ kept[0], "bias_hh": column_sums(recurrent[0])}

    def recur(self, hidden: Array, rows: slice = slice(None)) -> Array:
        """Return hidden @ weight_hh.T + bias_hh, for the given rows of weight_hh."""
        result: Array = hidden @ self.weights.weight_hh[rows].T
        if self.weights.bias_hh is not None:
            result += self.weights.bias_hh[rows]
        return result


def column_sums(rows: Array) -> Array:
    """Return the sum of all rows, (N, D) to (D,), rounded once."""
    # Not NumPy's sum, which adds float32 rows one by one and loses precision over thousands.
    result: Array = rows.sum(axis=0, dtype=np.float64).astype(rows.dtype)
    return result


def stacked(steps: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Return each column of `steps` as one array, concatenated over steps."""
    return tuple(np.concatenate(column) for column in zip(*steps, strict=True))
