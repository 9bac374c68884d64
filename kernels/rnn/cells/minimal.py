"""Shared code of minGRU and minLSTM.

    h' = (1 - z) * h + z * candidate,    z = sigmoid(k)        k and candidate depend only on x
    y = to_out h', if there is a to_out, else h'

candidate is g(weight x), g(x) = x + 0.5 for x >= 0, else sigmoid(x): it is positive, and so are the
states if the initial ones are. With candidate_activation="identity" it is weight x itself. Feng et
al., Were RNNs All We Needed?, 2024 (arXiv 2410.01201), appendices B.3 and B.1. The paper computes
with g in log space; here 1 - z is computed as sigmoid(-k), which is as exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import Activation, activation_named
from lodcli.kernels.rnn.cells.cell import column_sums
from lodcli.kernels.rnn.cells.linear_cell import (
    BlockGradients,
    Coefficients,
    LinearCell,
    LinearWeights,
    linear,
    times,
)
from lodcli.kernels.rnn.cells.weights import Shapes, Sizes, require_gates


@dataclass(frozen=True, eq=False, kw_only=True)
class MinimalWeights(LinearWeights):
    """The weights of a minGRU or minLSTM.

    Attributes:
        to_gates: (GATES*H, D), the candidate's rows first.
        to_gates_bias: (GATES*H,), or None for none.
        to_out: (P, H), or None for none.
        candidate_activation: "g" or "identity".
    """

    GATES: ClassVar[int]
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"bias", "projection"})
    HAS_BIAS: ClassVar[bool] = False
    INPUT_WEIGHT: ClassVar[str] = "to_gates"
    STATE_WEIGHT: ClassVar[str] = "to_gates"
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType({"to_gates": 2, "to_out": 2})

    to_gates: Array
    to_gates_bias: Array | None = None
    to_out: Array | None = None
    candidate_activation: str = "g"

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        shapes: Shapes = {"to_gates": (cls.GATES * sizes.hidden, sizes.input)}
        if "bias" in sizes.extras:
            shapes["to_gates_bias"] = (cls.GATES * sizes.hidden,)
        if sizes.projection:
            shapes["to_out"] = (sizes.projection, sizes.hidden)
        return shapes

    def sizes(self) -> Sizes:
        rows, width = self.to_gates.shape
        projection = 0 if self.to_out is None else int(self.to_out.shape[0])
        return Sizes(int(width), int(rows) // self.GATES, projection, self.OPTIONAL)

    @cached_property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.hidden_size,) if self.to_out is None else (self.output_size, self.hidden_size)

    def check_ranks(self, suffix: str) -> None:
        super().check_ranks(suffix)
        name = self.name_of("to_gates") + suffix
        require_gates(name, self.to_gates, self.GATES, self.KIND)
        if self.candidate_activation not in _CANDIDATES:
            raise InvalidDataError(
                f"candidate_activation: expected one of {', '.join(_CANDIDATES)}, "
                f"found {self.candidate_activation!r}"
            )


M = TypeVar("M", bound=MinimalWeights)


def _g(x: Array) -> Array:
    # sigmoid(0) is 0.5.
    small = np.exp(np.minimum(x, 0))
    small /= 1 + small
    small += np.maximum(x, 0)
    return small


def _slope_of_g(y: Array) -> Array:
    result: Array = np.where(y >= 0.5, y.dtype.type(1), y * (1 - y))
    return result


_CANDIDATES = {
    "g": Activation("g", _g, _slope_of_g),
    "identity": activation_named("identity"),
}


class MinimalCell(LinearCell[M]):
    """The equations at the head of this file; each subclass defines k."""

    @abstractmethod
    def shares(self, gates: Array) -> tuple[Array, Array]:
        """Return z and 1 - z from the projected gates without the candidate, (n, (GATES-1)*H)."""

    @abstractmethod
    def shares_backward(self, gates: Array, grad: Array) -> Array:
        """Return the gradient of the argument of `shares` from the gradient of k."""

    def coefficients(self, x: Array) -> Coefficients:
        weights, size = self.weights, self.weights.hidden_size
        projected = linear(x, weights.to_gates, weights.to_gates_bias)
        gates = projected[:, size:]
        z, rest = self.shares(gates)
        candidate = _CANDIDATES[weights.candidate_activation].value(projected[:, :size])
        return Coefficients(rest, z * candidate, (gates, z, rest, candidate))

    def coefficients_backward(
        self, x: Array, kept: Any, grad_a: Array, grad_b: Array
    ) -> BlockGradients:
        gates, z, rest, candidate = kept
        weights = self.weights
        grad_score = (grad_b * candidate - grad_a) * z * rest
        slope = _CANDIDATES[weights.candidate_activation].slope(candidate)
        grad = np.concatenate([grad_b * z * slope, self.shares_backward(gates, grad_score)], axis=1)
        found = {"to_gates": times(grad.T, x)}
        if weights.to_gates_bias is not None:
            found["to_gates_bias"] = column_sums(grad)
        return BlockGradients(lambda: times(grad, weights.to_gates), found)

    def output(self, x: Array, h: Array) -> Array:
        assert self.weights.to_out is not None
        return linear(h, self.weights.to_out, None)

    def output_backward(self, x: Array, h: Array, grad: Array) -> tuple[Array, BlockGradients]:
        assert self.weights.to_out is not None
        found = {"to_out": times(grad.T, h)}
        return times(grad, self.weights.to_out), BlockGradients(lambda: np.zeros_like(x), found)
