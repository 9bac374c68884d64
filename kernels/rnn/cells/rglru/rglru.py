"""The RG-LRU of Griffin and RecurrentGemma.

    u = linear_x x + bias, if there is a linear_x, else x
    r = sigmoid(a_gate u)    i = sigmoid(input_gate u)    in heads of K = H / heads values
    a = exp(-8 r softplus(a_param))
    h' = a * h + sqrt(1 - a^2) * i * u

    linear_x.weight (H, D), .bias (H,), or None: then D = H
    input_gate.w, a_gate.w (heads, K, K), u of a head on the left    .b (heads, K)    a_param (H,)

The names are those of google-deepmind/recurrentgemma: of its RGLRU, and of the linear layer before
it. Recurrentgemma does not multiply the first row of a document by sqrt(1 - a^2); here, as in the
paper, it is multiplied. The derivative of the square root is limited to 1,000, as in
recurrentgemma. De et al., Griffin, 2024 (arXiv 2402.19427).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from lodcli.kernels.errors import ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.activations import sigmoid
from lodcli.kernels.rnn.cells.cell import column_sums
from lodcli.kernels.rnn.cells.linear_cell import (
    BlockGradients,
    Coefficients,
    LinearCell,
    LinearWeights,
    linear,
    times,
)
from lodcli.kernels.rnn.cells.weights import Shapes, Sizes
from lodcli.kernels.runtime.argument_types import types_explained

_POWER = 8
_STEEPEST = 1000
# Range of the initial exp(-softplus(a_param)), whose square is uniform; a is its power 8 for r = 1.
_LEAST_RADIUS, _MOST_RADIUS = 0.9, 0.999


@dataclass(frozen=True, eq=False, kw_only=True)
class RGLRUWeights(LinearWeights):
    """The weights of an RG-LRU; shapes are at the head of this file."""

    KIND: ClassVar[str] = "rglru"
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"bias", "heads"})
    INPUT_WEIGHT: ClassVar[str] = "linear_x"
    STATE_WEIGHT: ClassVar[str] = "a_param"
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType(
        {"a_param": 1, "a_gate_w": 3, "linear_x": 2}
    )
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "linear_x": "linear_x.weight",
            "linear_x_bias": "linear_x.bias",
            "input_gate_w": "input_gate.w",
            "input_gate_b": "input_gate.b",
            "a_gate_w": "a_gate.w",
            "a_gate_b": "a_gate.b",
        }
    )
    # In Hugging Face's transformers.
    ALIASES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "recurrent_param": "a_param",
            "input_gate_weight": "input_gate.w",
            "input_gate_bias": "input_gate.b",
            "recurrent_gate_weight": "a_gate.w",
            "recurrent_gate_bias": "a_gate.b",
        }
    )

    input_gate_w: Array
    input_gate_b: Array
    a_gate_w: Array
    a_gate_b: Array
    a_param: Array
    linear_x: Array | None = None
    linear_x_bias: Array | None = None

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        heads, width = sizes.heads, sizes.hidden // sizes.heads
        gates: Shapes = {
            "input_gate_w": (heads, width, width),
            "input_gate_b": (heads, width),
            "a_gate_w": (heads, width, width),
            "a_gate_b": (heads, width),
            "a_param": (sizes.hidden,),
            "linear_x": (sizes.hidden, sizes.input),
        }
        return gates | ({"linear_x_bias": (sizes.hidden,)} if "bias" in sizes.extras else {})

    def sizes(self) -> Sizes:
        hidden, heads = int(self.a_param.shape[0]), int(self.a_gate_w.shape[0])
        width = hidden if self.linear_x is None else int(self.linear_x.shape[1])
        return Sizes(width, hidden, extras=self.OPTIONAL, heads=heads)

    @classmethod
    @types_explained
    def drawn(
        cls, field: str, shape: tuple[int, ...], sizes: Sizes, rng: np.random.Generator
    ) -> Array:
        """Return random initial values, as in RecurrentGemma."""
        if field == "a_param":
            radius = np.sqrt(rng.uniform(_LEAST_RADIUS**2, _MOST_RADIUS**2, shape))
            return np.log(1 / radius - 1)  # the inverse of exp(-softplus(x))
        if field in ("linear_x_bias", "input_gate_b", "a_gate_b"):
            return np.zeros(shape)
        return rng.normal(size=shape) / math.sqrt(shape[-1])

    def check_ranks(self, suffix: str) -> None:
        super().check_ranks(suffix)
        heads, hidden = len(self.a_gate_w), len(self.a_param)
        if not heads or hidden % heads:
            raise ShapeMismatchError(
                f"{self.name_of('a_gate_w')}{suffix}: expected a number of heads that divides "
                f"{hidden} values, found {heads}"
            )


class RGLRUCell(LinearCell[RGLRUWeights]):
    """The equations at the head of this file."""

    def coefficients(self, x: Array) -> Coefficients:
        weights = self.weights
        u = x if weights.linear_x is None else linear(x, weights.linear_x, weights.linear_x_bias)
        r = sigmoid(_by_head(u, weights.a_gate_w) + weights.a_gate_b.ravel())
        i = sigmoid(_by_head(u, weights.input_gate_w) + weights.input_gate_b.ravel())
        log_a = r * self._rate
        a = np.exp(log_a)
        m = np.sqrt(-np.expm1(2 * log_a))
        return Coefficients(a, m * i * u, (u, r, i, a, m))

    def coefficients_backward(
        self, x: Array, kept: Any, grad_a: Array, grad_b: Array
    ) -> BlockGradients:
        u, r, i, a, m = kept
        weights = self.weights
        slope = 2 * a * a / np.maximum(2 * m, m.dtype.type(1 / _STEEPEST))
        grad_log_a = grad_a * a - grad_b * i * u * slope
        grad_r = grad_log_a * self._rate * r * (1 - r)
        grad_i = grad_b * m * u * i * (1 - i)
        grad_u = grad_b * m * i
        grad_u += _by_head(grad_r, weights.a_gate_w.swapaxes(1, 2))
        grad_u += _by_head(grad_i, weights.input_gate_w.swapaxes(1, 2))
        of_rate = column_sums(grad_log_a * r)
        found = {
            "a_param": -_POWER * of_rate * sigmoid(weights.a_param),
            "a_gate_w": _of_blocks(u, grad_r, weights.a_gate_w),
            "a_gate_b": column_sums(grad_r).reshape(weights.a_gate_b.shape),
            "input_gate_w": _of_blocks(u, grad_i, weights.input_gate_w),
            "input_gate_b": column_sums(grad_i).reshape(weights.input_gate_b.shape),
        }
        linear_x = weights.linear_x
        if linear_x is None:
            return BlockGradients(lambda: grad_u, found)
        found["linear_x"] = times(grad_u.T, x)
        if weights.linear_x_bias is not None:
            found["linear_x_bias"] = column_sums(grad_u)
        return BlockGradients(lambda: times(grad_u, linear_x), found)

    @property
    def _rate(self) -> Array:
        """The logarithm of a for r = 1, (H,)."""
        parameter = self.weights.a_param
        rate: Array = -_POWER * np.logaddexp(parameter.dtype.type(0), parameter)
        return rate


def _by_head(rows: Array, blocks: Array) -> Array:
    """Return the columns of each head, (n, K), times its block, (K, K), concatenated."""
    heads, width, _ = blocks.shape
    parts = rows.reshape(len(rows), heads, width).swapaxes(0, 1) @ blocks
    return parts.swapaxes(0, 1).reshape(rows.shape)


def _of_blocks(rows: Array, grad: Array, blocks: Array) -> Array:
    """Return the gradient of `_by_head` for the blocks, (heads, K, K)."""
    heads, width, _ = blocks.shape
    left, right = (each.reshape(len(rows), heads, width) for each in (rows, grad))
    return left.transpose(1, 2, 0) @ right.swapaxes(0, 1)
