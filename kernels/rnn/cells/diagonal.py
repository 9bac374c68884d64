"""Shared code of LRU and S5: a recurrence with a complex diagonal, and a real output.

    h' = factor * h + gain * (B x)        factor and gain (H,), of the weights alone
    y = Re(C h') + D x

    B (H, width of x), C (P, H), complex    D (P,), where P is the width of x; else (P, width of
    x); or None

h is complex: the cell state stores it as (.., 2H), the real part of each value before its
imaginary part.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np

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
from lodcli.kernels.rnn.cells.weights import Sizes


class DiagonalWeights(LinearWeights):
    """The weights of an LRU or S5; `skip` is D."""

    OPTIONAL: ClassVar[frozenset[str]] = frozenset({"projection"})
    HAS_BIAS: ClassVar[bool] = False

    skip: Array | None

    @classmethod
    def output_width(cls, sizes: Sizes) -> int:
        """Return P, the width of outputs."""
        return sizes.projection or sizes.hidden

    @classmethod
    def skip_shape(cls, sizes: Sizes) -> tuple[int, ...]:
        """Return the shape of D: elementwise as published, where possible."""
        output = cls.output_width(sizes)
        by_element = output == sizes.input and "full" not in sizes.extras
        return (output,) if by_element else (output, sizes.input)

    @property
    def extras(self) -> frozenset[str]:
        """Return the names of the optional arrays that these weights have, for `sizes`."""
        full = self.skip is not None and self.skip.ndim > 1
        return frozenset({"full"} if full else ())

    @cached_property
    def state_sizes(self) -> tuple[int, ...]:
        return (self.output_size, 2 * self.hidden_size)


D = TypeVar("D", bound=DiagonalWeights)
Parts = tuple[Array, Array]


class DiagonalCell(LinearCell[D]):
    """A cell with the equations above."""

    COMPLEX: ClassVar[bool] = True

    @property
    @abstractmethod
    def diagonal(self) -> Array:
        """`factor`, (H,), complex."""

    @property
    @abstractmethod
    def gain(self) -> Array:
        """`gain`, (H,), real or complex."""

    @property
    @abstractmethod
    def into(self) -> Parts:
        """Real and imaginary part of B."""

    @property
    @abstractmethod
    def out_of(self) -> Parts:
        """Real and imaginary part of C."""

    @abstractmethod
    def recurrence_gradients(self, of_factor: Array, of_gain: Array) -> dict[str, Array]:
        """Return the gradients of the parameters of factor and gain, by field.

        Args:
            of_factor, of_gain: (H,), complex: by the real part, and i times by the imaginary one.
        """

    @abstractmethod
    def into_gradients(self, real: Array, imaginary: Array) -> dict[str, Array]:
        """Return the gradients of the weights of `into`, by field."""

    @abstractmethod
    def out_gradients(self, real: Array, imaginary: Array) -> dict[str, Array]:
        """Return the gradients of the weights of `out_of`, by field."""

    @property
    def factor(self) -> Array:
        return self.diagonal[np.newaxis]

    def coefficients(self, x: Array) -> Coefficients:
        entering = complex_of(*(times(x, part.T) for part in self.into))
        return Coefficients(None, self.gain * entering, entering)

    def coefficients_backward(
        self, x: Array, kept: Any, grad_a: Array, grad_b: Array
    ) -> BlockGradients:
        entering = np.conj(self.gain) * grad_b
        grads = contiguous(entering.real), contiguous(entering.imag)
        found = self.recurrence_gradients(_sums(grad_a), _sums(grad_b * np.conj(kept)))
        found |= self.into_gradients(*(times(part.T, x) for part in grads))

        def of_input() -> Array:
            real, imaginary = (times(by, b) for by, b in zip(grads, self.into, strict=True))
            return real + imaginary

        return BlockGradients(of_input, found)

    def output(self, x: Array, h: Array) -> Array:
        real, imaginary = self.out_of
        y = times(contiguous(h.real), real.T) - times(contiguous(h.imag), imaginary.T)
        skip = self.weights.skip
        if skip is not None:
            y += x * skip if skip.ndim == 1 else times(x, skip.T)
        return y

    def output_backward(self, x: Array, h: Array, grad: Array) -> tuple[Array, BlockGradients]:
        real, imaginary = self.out_of
        of_h = complex_of(times(grad, real), -times(grad, imaginary))
        found = self.out_gradients(
            times(grad.T, contiguous(h.real)), -times(grad.T, contiguous(h.imag))
        )
        skip = self.weights.skip
        if skip is None:
            return of_h, BlockGradients(lambda: np.zeros_like(x), found)
        if skip.ndim == 1:
            found["skip"] = column_sums(grad * x)
            return of_h, BlockGradients(lambda: grad * skip, found)
        found["skip"] = times(grad.T, x)
        return of_h, BlockGradients(lambda: times(grad, skip), found)


def complex_of(real: Array, imaginary: Array) -> Array:
    """Return real + i imaginary, of one dtype."""
    pairs = np.stack([real, imaginary], axis=-1)
    return pairs.view(np.result_type(pairs.dtype, np.complex64))[..., 0]


def _sums(rows: Array) -> Array:
    return complex_of(column_sums(rows.real), column_sums(rows.imag))
