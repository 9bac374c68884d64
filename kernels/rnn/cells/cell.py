"""Interface of a cell: weights, and one step forward and backward.

The engine projects all inputs in one GEMM (x @ weight_ih.T + bias_ih); a cell takes
it from there, one step of the shrinking batch at a time:

    step            projected inputs, state -> new state, what backward will need
    step_backward   gradient of the new state -> gradients of the projection and the state
    recurrent_gradients   once, over all steps: the weights the engine does not own

A state is a tuple: (hidden,), and (hidden, cell) for an LSTM.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.index.immutable import immutable
from lodcli.kernels.rnn.cells.activations import activation_named
from lodcli.kernels.runtime.arrays import is_on_device

State = tuple[Array, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class CellWeights:
    """The weights of one layer in one direction, in torch's layout and names.

    Attributes:
        weight_ih: (GATES*H, D), or None: the data are the projected inputs already,
            (N, GATES*H) in the cell's gate order.
        weight_hh: (GATES*H, H).
        bias_ih: (GATES*H,), or None for none.
        bias_hh: (GATES*H,), or None for none.
    """

    KIND: ClassVar[str]
    GATES: ClassVar[int]
    # The fields that hold the name of an activation.
    ACTIVATION_FIELDS: ClassVar[tuple[str, ...]] = ()

    weight_ih: Array | None
    weight_hh: Array
    bias_ih: Array | None = None
    bias_hh: Array | None = None

    @property
    def hidden_size(self) -> int:
        """H."""
        return int(self.weight_hh.shape[0]) // self.GATES

    @property
    def output_size(self) -> int:
        """The width of a hidden state: H, or P with a projection."""
        return self.hidden_size

    @property
    def input_size(self) -> int:
        """D, the width of a row of data."""
        width = self.GATES * self.hidden_size
        return width if self.weight_ih is None else int(self.weight_ih.shape[1])

    @property
    def state_sizes(self) -> tuple[int, ...]:
        """The width of each part of a state."""
        return (self.output_size,)

    @property
    def is_plain(self) -> bool:
        """Whether this is a plain form of a cell, which compiled backends have."""
        return False

    def arrays(self) -> dict[str, Array]:
        """Return the arrays there are, by field, in the order of the fields."""
        return {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, np.ndarray) or is_on_device(value)
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape every array must have, given the sizes above."""
        gates = self.GATES * self.hidden_size
        return {
            "weight_ih": (gates, self.input_size),
            "weight_hh": (gates, self.output_size),
            "bias_ih": (gates,),
            "bias_hh": (gates,),
        }

    def check(self, suffix: str = "") -> None:
        """Refuse weights that do not fit each other.

        Args:
            suffix: what follows a weight's name in messages: "_l0", "_l1_reverse".

        Raises:
            ShapeMismatchError: a shape; InvalidDataError: a dtype or an activation.
        """
        self._check_ranks(suffix)
        expected = self.shapes()
        for name, array in self.arrays().items():
            if array.shape != expected[name]:
                raise ShapeMismatchError(
                    f"{name}{suffix}: expected shape {expected[name]}, found {array.shape}"
                )
            require_real(name + suffix, array)
        for field in self.ACTIVATION_FIELDS:
            activation_named(getattr(self, field))

    def _check_ranks(self, suffix: str) -> None:
        """Refuse arrays from which no sizes can be read."""
        for name in ("weight_hh", "weight_ih"):
            array = getattr(self, name)
            if array is not None and array.ndim != 2:
                raise ShapeMismatchError(
                    f"{name}{suffix}: expected 2 dimensions, found shape {array.shape}"
                )
        rows = self.weight_hh.shape[0]
        if rows == 0 or rows % self.GATES:
            raise ShapeMismatchError(
                f"weight_hh{suffix}: expected {self.GATES} blocks of rows ({self.KIND}), "
                f"found {rows} rows"
            )

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the weights in `dtype`; arrays of that dtype are shared, not copied."""
        if all(array.dtype == dtype for array in self.arrays().values()):
            return self
        return self.moved(lambda array: array.astype(dtype, copy=False))

    def moved(self, move: Callable[[Array], Array]) -> Self:
        """Return the weights with each array put through `move`: cupy.asarray, for a GPU."""
        there: dict[str, Any] = {name: move(array) for name, array in self.arrays().items()}
        return dataclasses.replace(self, **there)

    def plus(self, other: Self) -> Self:
        """Return the sums of two weights' arrays, as of gradients of two parts of a batch."""
        theirs = other.arrays()
        sums: dict[str, Any] = {name: array + theirs[name] for name, array in self.arrays().items()}
        return dataclasses.replace(self, **sums)

    def frozen(self) -> Self:
        """Return read-only copies of the weights.

        Compiled backends put weights in an order of their own. With frozen ones they do so
        once, and not in every run.
        """

        def frozen(array: Array) -> Array:
            copy = array.copy()
            # Nothing in a GPU's memory can be made read-only.
            return immutable(copy) if isinstance(copy, np.ndarray) else copy

        copies: dict[str, Any] = {name: frozen(array) for name, array in self.arrays().items()}
        return dataclasses.replace(self, **copies)

    def zeros_like(self) -> Self:
        """Return weights of the same shapes, all zero: the gradient when nothing ran."""
        zeros: dict[str, Any] = {
            name: np.zeros_like(array) for name, array in self.arrays().items()
        }
        return dataclasses.replace(self, **zeros)


def require_real(name: str, array: Array) -> None:
    """Refuse an array that is not numbers, or complex.

    Raises:
        InvalidDataError: names the array and its dtype.
    """
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        raise InvalidDataError(f"{name}: expected real numbers, found {array.dtype}")


class StepGradients(NamedTuple):
    """The gradients that one step backward hands on.

    Attributes:
        projected: (n, GATES*H), of the projected inputs.
        previous: of the state before the step.
        recurrent: whatever the cell's recurrent_gradients needs; (n, ..) each.
    """

    projected: Array
    previous: State
    recurrent: tuple[Array, ...]


W = TypeVar("W", bound=CellWeights)


class Cell(ABC, Generic[W]):
    """A recurrent cell and its weights; all arrays of one dtype, checked before."""

    def __init__(self, weights: W) -> None:
        self.weights = weights

    @abstractmethod
    def step(self, projected: Array, state: State) -> tuple[State, tuple[Array, ...]]:
        """Return the new state and what step_backward and recurrent_gradients need.

        Args:
            projected: (n, GATES*H), x @ weight_ih.T + bias_ih.
            state: of the same n sequences. Not changed.
        """

    @abstractmethod
    def step_backward(self, grad: State, kept: tuple[Array, ...]) -> StepGradients:
        """Return the gradients of what one step took.

        Args:
            grad: the gradient of the step's new state. Not changed.
            kept: what the step kept.
        """

    @abstractmethod
    def recurrent_gradients(
        self, kept: tuple[Array, ...], recurrent: tuple[Array, ...]
    ) -> dict[str, Array]:
        """Return the gradients of weight_hh, bias_hh and the cell's own weights, by field.

        Args:
            kept: what all steps kept, one below the other.
            recurrent: StepGradients.recurrent of all steps, in the same order.
        """

    def recur(self, hidden: Array, rows: slice = slice(None)) -> Array:
        """Return hidden @ weight_hh.T + bias_hh, of the given rows of weight_hh."""
        result: Array = hidden @ self.weights.weight_hh[rows].T
        if self.weights.bias_hh is not None:
            result += self.weights.bias_hh[rows]
        return result


def linear_gradients(grad: Array, operand: Array) -> dict[str, Array]:
    """Return weight_hh's and bias_hh's gradients where the whole step was one `recur`."""
    return {"weight_hh": grad.T @ operand, "bias_hh": column_sums(grad)}


def column_sums(rows: Array) -> Array:
    """Return the sum of all rows, (N, D) to (D,), rounded once."""
    # NumPy adds rows one by one: in float32 that loses digits with every one of thousands.
    result: Array = rows.sum(axis=0, dtype=np.float64).astype(rows.dtype)
    return result


def stacked(steps: Sequence[tuple[Array, ...]]) -> tuple[Array, ...]:
    """Return each column of `steps` as one array, step below step."""
    return tuple(np.concatenate(column) for column in zip(*steps, strict=True))
