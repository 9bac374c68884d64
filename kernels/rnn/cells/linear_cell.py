"""Interface of a cell whose state is a linear function of the state before it.

    h[t] = a[t] * h[t-1] + b[t]        elementwise; a and b are functions of x[t] alone
    y[t] = h[t], or a function of h[t] and x[t]

So all rows of all sequences are computed together, in blocks, except for the recurrence itself,
which is the op linear_scan. A cell computes a and b for a block of rows, and their gradients; if y
differs from h, the state is the pair (y, h), like (hidden, cell) of an LSTM, and only h is used to
continue a sequence.

Arrays are NumPy's or cupy's; NumPy functions accept both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.weights import LayerWeights
from lodcli.kernels.runtime.dispatch import on


class LinearWeights(LayerWeights):
    """The weights of a linear cell."""

    @property
    def is_plain(self) -> bool:
        return True


W = TypeVar("W", bound=LinearWeights)


class Coefficients(NamedTuple):
    """The recurrence of a block of rows.

    Attributes:
        a: (n, H); None for a cell with a `factor`.
        b: (n, H).
        kept: values saved for `coefficients_backward`.
    """

    a: Array | None
    b: Array
    kept: Any


class BlockGradients(NamedTuple):
    """The gradients of a block of rows.

    Attributes:
        input: returns that of the rows, (n, D); called only if it is wanted.
        weights: gradients of the arrays that were used, by field; summed over the rows.
    """

    input: Callable[[], Array]
    weights: dict[str, Array]


class LinearCell(ABC, Generic[W]):
    """A linear cell and its weights, validated and of one dtype.

    Attributes:
        COMPLEX: whether a, b and h are complex; outside of the engine h is then (.., 2H), the real
            part of each value before its imaginary part.
    """

    COMPLEX: ClassVar[bool] = False

    def __init__(self, weights: W) -> None:
        self.weights = weights

    @property
    def factor(self) -> Array | None:
        """a, (1, H), if it is the same for all rows; else None."""
        return None

    @abstractmethod
    def coefficients(self, x: Array) -> Coefficients:
        """Return a and b of a block of rows, (n, D)."""

    @abstractmethod
    def coefficients_backward(
        self, x: Array, kept: Any, grad_a: Array, grad_b: Array
    ) -> BlockGradients:
        """Return the gradients of the arguments of `coefficients`.

        Args:
            x: the block.
            kept: the values saved by `coefficients`.
            grad_a, grad_b: (n, H). May be overwritten.
        """

    def output(self, x: Array, h: Array) -> Array:
        """Return y for a block of rows; only for a cell whose state is a pair."""
        raise NotImplementedError

    def output_backward(self, x: Array, h: Array, grad: Array) -> tuple[Array, BlockGradients]:
        """Return the gradients of h, and of the other arguments of `output`."""
        raise NotImplementedError


def contiguous(array: Array) -> Array:
    """Return a C-contiguous array; the same one if it is contiguous already."""
    # Not np.ascontiguousarray, which does not accept GPU arrays.
    return array if array.flags.c_contiguous else array.copy()


def linear(x: Array, weight: Array, bias: Array | None) -> Array:
    """Return x @ weight.T + bias."""
    result = times(x, weight.T)
    if bias is not None:
        result += bias
    return result


def times(left: Array, right: Array) -> Array:
    """Return left @ right, on a GPU with the precision of float32_products."""
    return on("auto", product)(left, right)


def product(left: Array, right: Array) -> Array:
    """Return left @ right, of two matrices of one dtype."""
    return left @ right
