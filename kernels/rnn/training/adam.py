"""The optimizer Adam, as in torch: Kingma and Ba, 2015.

m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g g
w = w - rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import working_dtype
from lodcli.kernels.runtime.argument_types import CheckedFields, types_explained
from lodcli.kernels.runtime.arrays import is_on_device
from lodcli.kernels.runtime.dispatch import on
from lodcli.kernels.runtime.summaries import Summarized

Arrays = Mapping[str, Array]
F = TypeVar("F", bound=Callable[..., Any])


class Factors(NamedTuple):
    """The numbers of a step: 1 - beta^t is `unbias`."""

    beta1: float
    beta2: float
    unbias1: float
    unbias2: float
    epsilon: float
    rate: float


@dataclass(frozen=True, eq=False)
class AdamState(CheckedFields, Summarized):
    """The state of Adam after some steps.

    Attributes:
        steps: the number of steps.
        first: the moving averages m of the gradients, by the names of the weights.
        second: the moving averages v of their squares.
    """

    steps: int
    first: Arrays
    second: Arrays


class Adam:
    """The optimizer: computes new weights from gradients, and holds the moments m and v.

    Args:
        state: the result of `state()` of another Adam, whose steps are continued.

    >>> adam = Adam()
    >>> adam.moved({"w": np.array([1.0])}, {"w": np.array([0.5])}, rate=0.1)["w"].round(6).tolist()
    [0.9]
    """

    @types_explained
    def __init__(
        self,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        *,
        state: AdamState | None = None,
    ) -> None:
        for name, beta in (("beta1", beta1), ("beta2", beta2)):
            if not 0 <= beta < 1:
                raise InvalidDataError(f"{name}: expected 0 or more and less than 1, found {beta}")
        if not epsilon >= 0:
            raise InvalidDataError(f"epsilon: expected 0 or more, found {epsilon}")
        self._betas = beta1, beta2
        self._epsilon = epsilon
        self._steps = 0
        self._moments: dict[str, tuple[Array, ...]] = {}
        if state is not None:
            self._steps = state.steps
            self._moments = {
                name: (first.copy(), state.second[name].copy())
                for name, first in state.first.items()
            }

    def state(self) -> AdamState:
        """Return a copy of the moments, which later steps do not change."""
        first, second = (
            {name: moments[number].copy() for name, moments in self._moments.items()}
            for number in (0, 1)
        )
        return AdamState(self._steps, first, second)

    @types_explained
    def moved(self, weights: Arrays, gradients: Arrays, *, rate: float) -> dict[str, Array]:
        """Return the weights after one more step, by name; new arrays of the same dtype.

        Args:
            weights: floating point; the same names and shapes at every step.
            gradients: in their shapes.
            rate: the learning rate, 0 or more.

        Raises:
            ShapeMismatchError, InvalidDataError: names, shapes or dtypes do not match. This object
                is then unchanged.
        """
        if not rate >= 0:
            raise InvalidDataError(f"rate: expected 0 or more, found {rate}")
        for name, array in weights.items():
            grad = gradients.get(name)
            if grad is None:
                raise InvalidDataError(f"gradients: expected one of {name}, found none")
            _check_float("weights", name, array)
            _check_float("gradients", name, grad)
            shape = array.shape
            for other in (grad, *self._moments.get(name, ())):
                if other.shape != shape:
                    raise ShapeMismatchError(
                        f"{name}: expected a gradient, and weights of earlier steps, of shape "
                        f"{shape}, found {other.shape}"
                    )
        self._steps += 1
        beta1, beta2 = self._betas
        unbias1, unbias2 = 1 - beta1**self._steps, 1 - beta2**self._steps
        factors = Factors(beta1, beta2, unbias1, unbias2, self._epsilon, rate)
        moved = {}
        for name, array in weights.items():
            wide = working_dtype(array.dtype)  # squares of float16 often underflow to 0
            grad = gradients[name].astype(wide, copy=False)
            moments = self._moments.get(name)
            if moments is None:
                moments = tuple(np.zeros_like(array, dtype=wide, order="C") for _ in range(2))
            elif moments[0].dtype != wide or moments[1].dtype != wide:
                moments = tuple(one.astype(wide, order="C") for one in moments)
            self._moments[name] = moments
            moved[name] = _twin(step_of, array)(array, grad, factors, out=moments)
        return moved


def _check_float(what: str, name: str, array: Array) -> None:
    """Raise InvalidDataError unless this is a floating-point array."""
    dtype = getattr(array, "dtype", None)
    if dtype is None or not is_float(dtype):
        found = type(array).__name__ if dtype is None else dtype
        raise InvalidDataError(f"{what}: {name}: expected a floating-point array, found {found}")


def step_of(array: Array, grad: Array, factors: Factors, *, out: tuple[Array, ...]) -> Array:
    """Return an array after a step; a new array of its dtype.

    Args:
        grad: its gradient, float32 or float64.
        out: the moments m and v, of the dtype of the gradient; they become those after the step.
    """
    first, second = out
    # In place: allocating memory for a term takes longer than computing it.
    term = (1 - factors.beta1) * grad
    first *= factors.beta1
    first += term
    np.multiply(1 - factors.beta2, grad, out=term)
    term *= grad
    second *= factors.beta2
    second += term
    divisor = np.divide(second, factors.unbias2, out=term)
    np.sqrt(divisor, out=divisor)
    divisor += factors.epsilon
    step = first / factors.unbias1
    step /= divisor
    step *= factors.rate
    result: Array = np.subtract(array, step, out=step).astype(array.dtype, copy=False)
    return result


def sum_of_squares(array: Array) -> Any:
    """Return the sum of the squares of an array, float64; on a GPU it stays there."""
    return np.square(array, dtype=np.float64).sum()


def _twin(function: F, array: Array) -> F:
    if is_on_device(array):  # there is no twin for a GPU: NumPy calls its functions
        return function
    return on("auto", function, size_bytes=array.nbytes)


@types_explained
def clipped(gradients: Arrays, limit: float) -> dict[str, Array]:
    """Return the gradients, scaled down if their global L2 norm is more than `limit`.

    Gradients that are not scaled are shared, not copied.

    Pascanu et al., On the difficulty of training recurrent neural networks, 2013.

    Raises:
        InvalidDataError: a gradient is not a floating-point array, or `limit` is not above 0.

    >>> clipped({"a": np.array([3.0]), "b": np.array([4.0])}, 1.0)["b"].round(6).tolist()
    [0.8]
    """
    if not limit > 0:
        raise InvalidDataError(f"limit: expected a number above 0, found {limit}")
    for name, grad in gradients.items():
        _check_float("gradients", name, grad)
    squares = [_twin(sum_of_squares, grad)(grad) for grad in gradients.values()]
    total = float(np.sqrt(sum(squares)))
    if not total > limit:
        return dict(gradients)
    scale = limit / total
    return {name: grad * grad.dtype.type(scale) for name, grad in gradients.items()}
