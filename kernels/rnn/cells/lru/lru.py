"""The LRU: a linear recurrence with a complex diagonal.

    lambda = exp(-exp(nu_log) + i exp(theta_log))
    h' = lambda * h + exp(gamma_log) * (B x)
    y = Re(C h') + D x

    nu_log, theta_log, gamma_log (H,)    B_re, B_im (H, D)    C_re, C_im (P, H)    D: diagonal.py

The names are those of NicolasZucchet/minimal-LRU. Orvieto et al., Resurrecting Recurrent Neural
Networks for Long Sequences, 2023 (arXiv 2303.06349).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar, Self

import numpy as np
from numpy.typing import DTypeLike

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.diagonal import DiagonalCell, DiagonalWeights, Parts, complex_of
from lodcli.kernels.rnn.cells.weights import Shapes, Sizes
from lodcli.kernels.runtime.argument_types import types_explained


@dataclass(frozen=True, eq=False, kw_only=True)
class LRUWeights(DiagonalWeights):
    """The weights of an LRU; shapes are at the head of this file."""

    KIND: ClassVar[str] = "lru"
    INPUT_WEIGHT: ClassVar[str] = "b_re"
    STATE_WEIGHT: ClassVar[str] = "nu_log"
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType({"nu_log": 1, "b_re": 2, "c_re": 2})
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
        shapes: Shapes = dict.fromkeys(("nu_log", "theta_log", "gamma_log"), (sizes.hidden,))
        shapes |= dict.fromkeys(("b_re", "b_im"), (sizes.hidden, sizes.input))
        shapes |= dict.fromkeys(("c_re", "c_im"), (cls.output_width(sizes), sizes.hidden))
        return shapes | {"skip": cls.skip_shape(sizes)}

    def sizes(self) -> Sizes:
        width, hidden = int(self.b_re.shape[1]), int(self.nu_log.shape[0])
        return Sizes(width, hidden, int(self.c_re.shape[0]), self.extras)

    @classmethod
    @types_explained
    def seeded(cls, sizes: Sizes, rng: np.random.Generator, dtype: DTypeLike) -> Self:
        """Return random weights as published: lambda uniform in the unit disk, gamma to match."""
        made = super().seeded(sizes, rng, np.float64)
        # Then the variance of the state is that of B x.
        gamma = 0.5 * np.log(-np.expm1(-2 * np.exp(made.nu_log)))
        return dataclasses.replace(made, gamma_log=gamma).astype(dtype)

    @classmethod
    @types_explained
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


class LRUCell(DiagonalCell[LRUWeights]):
    """The equations at the head of this file."""

    @property
    def diagonal(self) -> Array:
        weights = self.weights
        radius, angle = np.exp(-np.exp(weights.nu_log)), np.exp(weights.theta_log)
        return complex_of(radius * np.cos(angle), radius * np.sin(angle))

    @property
    def gain(self) -> Array:
        return np.exp(self.weights.gamma_log)

    @property
    def into(self) -> Parts:
        return self.weights.b_re, self.weights.b_im

    @property
    def out_of(self) -> Parts:
        return self.weights.c_re, self.weights.c_im

    def recurrence_gradients(self, of_factor: Array, of_gain: Array) -> dict[str, Array]:
        weights = self.weights
        # The derivatives by nu_log and theta_log are real multiples of lambda and i lambda.
        turned = of_factor * np.conj(self.diagonal)
        return {
            "nu_log": -np.exp(weights.nu_log) * turned.real,
            "theta_log": np.exp(weights.theta_log) * turned.imag,
            "gamma_log": self.gain * of_gain.real,
        }

    def into_gradients(self, real: Array, imaginary: Array) -> dict[str, Array]:
        return {"b_re": real, "b_im": imaginary}

    def out_gradients(self, real: Array, imaginary: Array) -> dict[str, Array]:
        return {"c_re": real, "c_im": imaginary}
