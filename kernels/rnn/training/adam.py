"""The optimizer Adam, as in torch: Kingma and Ba, 2015.

m = beta1 m + (1 - beta1) g        v = beta2 v + (1 - beta2) g g
w = w - rate m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.dtypes import is_float
from lodcli.kernels.errors import InvalidDataError, ShapeMismatchError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.ops.dtypes import working_dtype
from lodcli.kernels.runtime.argument_types import CheckedFields, types_explained
from lodcli.kernels.runtime.summaries import Summarized

Arrays = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class AdamState(CheckedFields, Summarized):
    """What Adam remembers of earlier steps.

    Attributes:
        steps: their number.
        first: the moving averages m of the gradients, by the names of the weights.
        second: the moving averages v of their squares.
    """

    steps: int
    first: Arrays
    second: Arrays


class Adam:
    """Updates weights by their gradients; keeps the moments m and v of each.

    Args:
        state: continue after the steps of another Adam: what its `state()` returned.

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
            ShapeMismatchError, InvalidDataError: they do not fit; this object stays as it was.
        """
        if not rate >= 0:
            raise InvalidDataError(f"rate: expected 0 or more, found {rate}")
        for name, array in weights.items():
            if name not in gradients:
                raise InvalidDataError(f"gradients: expected one of {name}, found none")
            for what, one in (("weights", array), ("gradients", gradients[name])):
                if not (hasattr(one, "dtype") and is_float(one.dtype)):
                    found = getattr(one, "dtype", type(one).__name__)
                    raise InvalidDataError(
                        f"{what}: {name}: expected a floating-point array, found {found}"
                    )
            for other in (gradients[name], *self._moments.get(name, ())[:1]):
                if other.shape != array.shape:
                    raise ShapeMismatchError(
                        f"{name}: expected a gradient, and weights of earlier steps, of shape "
                        f"{array.shape}, found {other.shape}"
                    )
        self._steps += 1
        beta1, beta2 = self._betas
        unbias1, unbias2 = 1 - beta1**self._steps, 1 - beta2**self._steps
        moved = {}
        for name, array in weights.items():
            grad = gradients[name]
            wide = working_dtype(array.dtype)  # squares of float16 often underflow to 0
            if wide != array.dtype:
                grad = grad.astype(wide)
            if name not in self._moments:
                self._moments[name] = tuple(np.zeros_like(array, dtype=wide) for _ in range(2))
            # In place: allocating memory for a term takes longer than computing it.
            first, second = self._moments[name]
            term = (1 - beta1) * grad
            first *= beta1
            first += term
            np.multiply(1 - beta2, grad, out=term)
            term *= grad
            second *= beta2
            second += term
            divisor = np.divide(second, unbias2, out=term)
            np.sqrt(divisor, out=divisor)
            divisor += self._epsilon
            step = first / unbias1
            step /= divisor
            step *= rate
            moved[name] = np.subtract(array, step, out=step).astype(array.dtype, copy=False)
        return moved


@types_explained
def clipped(gradients: Arrays, limit: float) -> dict[str, Array]:
    """Return the gradients, scaled down if their global L2 norm is more than `limit`.

    Pascanu et al., On the difficulty of training recurrent neural networks, 2013.

    >>> clipped({"a": np.array([3.0]), "b": np.array([4.0])}, 1.0)["b"].round(6).tolist()
    [0.8]
    """
    if not limit > 0:
        raise InvalidDataError(f"limit: expected a number above 0, found {limit}")
    total = float(
        np.sqrt(sum(np.square(grad, dtype=np.float64).sum() for grad in gradients.values()))
    )
    scale = limit / total if total > limit else 1.0
    return {name: grad * grad.dtype.type(scale) for name, grad in gradients.items()}
