"""The LRU: a linear recurrence with a complex diagonal.

    lambda = exp(-exp(nu_log) + i exp(theta_log))
    h' = lambda * h + exp(gamma_log) * (B x)
    y = Re(C h') + D x

    nu_log, theta_log, gamma_log (H,)    B_re, B_im (H, D)    C_re, C_im (P, H)
    D (P,), where P is the width of x; or (P, width of x); or None

h is complex: as the cell state its values are (.., 2H), real part beside imaginary part. The names
are those of NicolasZucchet/minimal-LRU. Orvieto et al., Resurrecting Recurrent Neural Networks for
Long Sequences, 2023 (arXiv 2303.06349).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.cell import column_sums
from lodcli.kernels.rnn.cells.linear_cell import (
    BlockGradients,
    Coefficients,
    LinearCell,
    LinearWeights,
    contiguous,
    times,
)
from lodcli.kernels.rnn.cells.weights import Shapes, Sizes, require_rank


@dataclass(frozen=True, eq=False, kw_only=True)
class LRUWeights(LinearWeights):
    """The weights of an LRU; shapes are at the head of this file."""

    KIND: ClassVar[str] = "lru"
    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"projection"})
    HAS_BIAS: ClassVar[bool] = False
    INPUT_WEIGHT: ClassVar[str] = "b_re"
    STATE_WEIGHT: ClassVar[str] = "nu_log"
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"b_re": "B_re", "b_im": "B_im", "c_re": "C_re", "c_im": "C_im", "skip": "D"}
    )

    nu_log: Array
    theta_log: Array
    gamma_log: Array
    b_re: Array
    b_im: Array
    c_re: Array
    c_im: Array
    skip: Array | None = None

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        output = sizes.projection or sizes.hidden
        shapes: Shapes = dict.fromkeys(("nu_log", "theta_log", "gamma_log"), (sizes.hidden,))
        shapes |= dict.fromkeys(("b_re", "b_im"), (sizes.hidden, sizes.input))
        shapes |= dict.fromkeys(("c_re", "c_im"), (output, sizes.hidden))
        # By element, as published, where that is possible.
        by_element = output == sizes.input and "full" not in sizes.extras
        return shapes | {"skip": (output,) if by_element else (output, sizes.input)}

    def sizes(self) -> Sizes:
        full = self.skip is not None and self.skip.ndim > 1
        return Sizes(
            int(self.b_re.shape[1]),
            int(self.nu_log.shape[0]),
            int(self.c_re.shape[0]),
            frozenset({"full"} if full else ()),
        )

    @property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.output_size, 2 * self.hidden_size)

    @classmethod
    def seeded(cls, sizes: Sizes, rng: np.random.Generator, dtype: DTypeLike) -> Self:
        """Return random weights as published: lambda uniform in the disk, gamma to match it."""
        made = super().seeded(sizes, rng, np.float64)
        # The state's variance is then that of B x.
        gamma = 0.5 * np.log(-np.expm1(-2 * np.exp(made.nu_log)))
        return dataclasses.replace(made, gamma_log=gamma).astype(dtype)

    @classmethod
    def drawn(
        cls, field: str, shape: tuple[int, ...], sizes: Sizes, rng: np.random.Generator
    ) -> Array:
        """Return random values of one array, float64."""
        if field == "nu_log":
            return np.log(-0.5 * np.log(rng.uniform(1e-6, 1 - 1e-6, shape)))
        if field == "theta_log":
            return np.log(2 * math.pi * rng.uniform(1e-6, 1, shape))
        scale = {"b_re": 2 * sizes.input, "b_im": 2 * sizes.input, "skip": shape[-1]}
        width = 1 if field == "skip" and len(shape) == 1 else scale.get(field, sizes.hidden)
        return rng.normal(size=shape) / math.sqrt(width)

    def check_ranks(self, suffix: str) -> None:
        for field, rank in {"nu_log": 1, "b_re": 2, "c_re": 2}.items():
            require_rank(self.name_of(field) + suffix, getattr(self, field), rank)


class LRUCell(LinearCell[LRUWeights]):
    """The equations at the head of this file."""

    COMPLEX: ClassVar[bool] = True

    @property
    def factor(self) -> Array:
        weights = self.weights
        radius, angle = np.exp(-np.exp(weights.nu_log)), np.exp(weights.theta_log)
        return _complex(radius * np.cos(angle), radius * np.sin(angle))[np.newaxis]

    def coefficients(self, x: Array) -> Coefficients:
        weights = self.weights
        parts = times(x, weights.b_re.T), times(x, weights.b_im.T)
        gamma = np.exp(weights.gamma_log)
        return Coefficients(None, _complex(*(gamma * part for part in parts)), parts)

    def coefficients_backward(
        self, x: Array, kept: Any, grad_a: Array, grad_b: Array
    ) -> BlockGradients:
        weights = self.weights
        gamma = np.exp(weights.gamma_log)
        grads = gamma * grad_b.real, gamma * grad_b.imag
        # The slopes of lambda by nu_log and theta_log are real multiples of lambda and i lambda.
        turned = grad_a * np.conj(self.factor)
        found = {
            "nu_log": -np.exp(weights.nu_log) * column_sums(turned.real),
            "theta_log": np.exp(weights.theta_log) * column_sums(turned.imag),
            "gamma_log": column_sums(grads[0] * kept[0] + grads[1] * kept[1]),
            "b_re": times(grads[0].T, x),
            "b_im": times(grads[1].T, x),
        }
        return BlockGradients(times(grads[0], weights.b_re) + times(grads[1], weights.b_im), found)

    def output(self, x: Array, h: Array) -> Array:
        weights = self.weights
        y = times(contiguous(h.real), weights.c_re.T) - times(contiguous(h.imag), weights.c_im.T)
        if weights.skip is not None:
            y += x * weights.skip if weights.skip.ndim == 1 else times(x, weights.skip.T)
        return y

    def output_backward(self, x: Array, h: Array, grad: Array) -> tuple[Array, BlockGradients]:
        weights = self.weights
        of_h = _complex(times(grad, weights.c_re), -times(grad, weights.c_im))
        found = {
            "c_re": times(grad.T, contiguous(h.real)),
            "c_im": -times(grad.T, contiguous(h.imag)),
        }
        if weights.skip is None:
            return of_h, BlockGradients(np.zeros_like(x), found)
        if weights.skip.ndim == 1:
            found["skip"] = column_sums(grad * x)
            return of_h, BlockGradients(grad * weights.skip, found)
        found["skip"] = times(grad.T, x)
        return of_h, BlockGradients(times(grad, weights.skip), found)


def _complex(real: Array, imaginary: Array) -> Array:
    pairs = np.stack([real, imaginary], axis=-1)
    result: Array = pairs.view(np.result_type(pairs.dtype, np.complex64))[..., 0]
    return result
