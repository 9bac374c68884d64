"""S5: a state space model with a complex diagonal, discretized with a learned step (zoh).

    Lambda = Lambda_re + i Lambda_im    step = exp(log_step)
    h' = exp(Lambda step) * h + (exp(Lambda step) - 1) / Lambda * (B x)
    y = 2 Re(C h') + D x        conj_sym=False: Re(C h') + D x

    Lambda_re, Lambda_im (H,)    log_step (H, 1)    B (H, D, 2)    C (P, H, 2)    D: diagonal.py

The last axis of B and C holds real and imaginary part. With conj_sym the state also includes the
conjugate of each value, which is not stored: it doubles the real part. The names are those of
lindermanlab/S5, with its discretization "zoh" and without clip_eigs. Smith et al., Simplified State
Space Layers for Sequence Modeling, 2023 (arXiv 2208.04933).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.diagonal import DiagonalCell, DiagonalWeights, Parts, complex_of
from lodcli.kernels.rnn.cells.linear_cell import contiguous
from lodcli.kernels.rnn.cells.weights import Shapes, Sizes
from lodcli.kernels.runtime.argument_types import types_explained

# Range of the initial steps, uniform in the logarithm.
_LEAST_STEP, _MOST_STEP = 0.001, 0.1


@dataclass(frozen=True, eq=False, kw_only=True)
class S5Weights(DiagonalWeights):
    """The weights of an S5; shapes are at the head of this file.

    Attributes:
        conj_sym: whether every value of the state also represents its conjugate.
    """

    KIND: ClassVar[str] = "s5"
    INPUT_WEIGHT: ClassVar[str] = "b"
    STATE_WEIGHT: ClassVar[str] = "lambda_re"
    RANKS: ClassVar[Mapping[str, int]] = MappingProxyType({"lambda_re": 1, "b": 3, "c": 3})
    NAMES: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"lambda_re": "Lambda_re", "lambda_im": "Lambda_im", "b": "B", "c": "C", "skip": "D"}
    )

    lambda_re: Array
    lambda_im: Array
    b: Array
    c: Array
    log_step: Array
    skip: Array | None = None
    conj_sym: bool = True

    @classmethod
    def weight_shapes(cls, sizes: Sizes) -> Shapes:
        return {
            "lambda_re": (sizes.hidden,),
            "lambda_im": (sizes.hidden,),
            "b": (sizes.hidden, sizes.input, 2),
            "c": (cls.output_width(sizes), sizes.hidden, 2),
            "log_step": (sizes.hidden, 1),
            "skip": cls.skip_shape(sizes),
        }

    def sizes(self) -> Sizes:
        width, hidden = int(self.b.shape[1]), int(self.lambda_re.shape[0])
        return Sizes(width, hidden, int(self.c.shape[0]), self.extras)

    @classmethod
    @types_explained
    def drawn(
        cls, field: str, shape: tuple[int, ...], sizes: Sizes, rng: np.random.Generator
    ) -> Array:
        """Return random values of one array, float64; Lambda is -1/2 + i pi n (S4D-Lin)."""
        if field == "lambda_re":
            return np.full(shape, -0.5)
        if field == "lambda_im":
            return math.pi * np.arange(sizes.hidden)
        if field == "log_step":
            return rng.uniform(math.log(_LEAST_STEP), math.log(_MOST_STEP), shape)
        width = {"b": 2 * sizes.input, "c": 2 * sizes.hidden}.get(field, 1)
        if field == "skip" and len(shape) > 1:
            width = shape[-1]
        return rng.normal(size=shape) / math.sqrt(width)


class S5Cell(DiagonalCell[S5Weights]):
    """The equations at the head of this file."""

    @cached_property
    def _steps(self) -> Array:
        return np.exp(self.weights.log_step[:, 0])

    @cached_property
    def _lambda(self) -> Array:
        return complex_of(self.weights.lambda_re, self.weights.lambda_im)

    @cached_property
    def diagonal(self) -> Array:
        return 1 + self._less_one

    @cached_property
    def gain(self) -> Array:
        return self._less_one / self._lambda

    @cached_property
    def into(self) -> Parts:
        return _parts(self.weights.b)

    @cached_property
    def out_of(self) -> Parts:
        real, imaginary = _parts(self.weights.c)
        return self._share * real, self._share * imaginary

    @property
    def _share(self) -> int:
        return 2 if self.weights.conj_sym else 1

    @cached_property
    def _less_one(self) -> Array:
        """exp(Lambda step) - 1, for steps of any size."""
        # Not expm1 of complex numbers, which cupy does not support.
        x, y = self.weights.lambda_re * self._steps, self.weights.lambda_im * self._steps
        real = np.expm1(x) * np.cos(y) - 2 * np.sin(y / 2) ** 2
        return complex_of(real, np.exp(x) * np.sin(y))

    def recurrence_gradients(self, of_factor: Array, of_gain: Array) -> dict[str, Array]:
        steps, value, factor = self._steps, self._lambda, self.diagonal
        of_exponent = of_factor * np.conj(factor)
        of_lambda = steps * of_exponent + of_gain * np.conj((steps * factor - self.gain) / value)
        of_step = (of_exponent * np.conj(value) + of_gain * np.conj(factor)).real
        return {
            "lambda_re": of_lambda.real,
            "lambda_im": of_lambda.imag,
            "log_step": (steps * of_step)[:, np.newaxis],
        }

    def into_gradients(self, real: Array, imaginary: Array) -> dict[str, Array]:
        return {"b": np.stack([real, imaginary], axis=-1)}

    def out_gradients(self, real: Array, imaginary: Array) -> dict[str, Array]:
        return {"c": self._share * np.stack([real, imaginary], axis=-1)}


def _parts(pairs: Array) -> Parts:
    return contiguous(pairs[..., 0]), contiguous(pairs[..., 1])
