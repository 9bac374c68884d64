"""Interface of a cell on a GPU, as lstm_cupy.py and others implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

import cupy
import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.pooling.pool_cupy import segment_sum
from lodcli.kernels.rnn.cells.cell import CellWeights
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward
from lodcli.kernels.rnn.engine.cupy.table import Launch

W = TypeVar("W", bound=CellWeights)

# The launches of one step: its number, the sequences alive, and whether cuBLAS multiplies.
ForwardStep = Callable[[int, int, bool], list[Launch]]
# Likewise; the second number of sequences is that of the next step, which came before.
BackwardStep = Callable[[int, int, int, bool], list[Launch]]


class Steps(ABC, Generic[W]):
    """One kind of cell, with its options, for one type of values.

    Attributes:
        KEPT: how many activated gates a row keeps for the backward pass, H values each.
        RECURRENT: how many blocks of H columns the product with the hidden state has.
        OPENED, CANDIDATE, INNER: whether it needs these arrays; see rnn.cuh.
    """

    KEPT: ClassVar[int]
    RECURRENT: ClassVar[int]
    OPENED: ClassVar[bool] = False
    CANDIDATE: ClassVar[bool] = False
    INNER: ClassVar[bool] = False

    def __init__(self, weights: W, value: str) -> None:
        self.weights = weights
        self.value = value

    @property
    def projects(self) -> bool:
        """Whether the hidden state is a projection of the result of the gates."""
        return False

    @abstractmethod
    def options(self) -> tuple[str, ...]:
        """Return the options of the weights that determine which kernels run."""

    @abstractmethod
    def forward(self, space: Forward) -> ForwardStep:
        """Return a function for the steps forward; adds its arrays to the table."""

    @abstractmethod
    def backward(self, space: Backward) -> BackwardStep:
        """Return a function for the steps of the backward pass."""

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        """Return the gradients of weight_hh, bias_hh and the cell's own weights, by field.

        Args:
            space: after the backward pass over all steps.
            sums: of its gradients, by column; None if there is no bias to need them.

        This implementation is for steps of one product.
        """
        found = {"weight_hh": dot(space.gradients.T, hidden_before(space))}
        # Copied: a change of one bias's gradient must not change the other's.
        return found if sums is None else found | {"bias_hh": sums.copy()}


def hidden_before(space: Backward) -> Array:
    """Return the hidden state before each row, (N, P)."""
    return space.order.before(space.kept.outputs, space.kept.begin[0])


def column_sums(rows: Array) -> Array:
    """Return the sum of all rows, (N, D) to (D,): the kernel that pools, with one segment."""
    one: Array = segment_sum(cupy.ascontiguousarray(rows), np.array([0, len(rows)]))[0]
    return one
