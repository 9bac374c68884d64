"""Activations of the cells, each with its derivative.

A slope (derivative) is computed from the activation's result, not from its argument, so that the
backward pass needs no additional values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.errors import InvalidDataError
from lodcli.kernels.index.checks import Array
from lodcli.kernels.suggestions import or_near


@dataclass(frozen=True)
class Activation:
    """An elementwise function and its slope.

    Attributes:
        name: its name in weights and on the command line.
        value: y = f(x); a new array, the dtype of x.
        slope: f'(x) as a function of y = f(x).
    """

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), without overflow for large |x|.

    >>> sigmoid(np.array([0.0, -1000.0, 1000.0])).tolist()
    [0.5, 0.0, 1.0]
    """
    small = np.exp(-np.abs(x))
    result: Array = np.where(x >= 0, x.dtype.type(1), small) / (1 + small)
    return result


def sigmoid_pair(x: Array) -> tuple[Array, Array]:
    """Return sigmoid(x) and sigmoid(-x), which is 1 - sigmoid(x) without cancellation.

    >>> [each.tolist() for each in sigmoid_pair(np.array([0.0, 1000.0]))]
    [[0.5, 1.0], [0.5, 0.0]]
    """
    # The limit avoids overflow and infinity / infinity: beyond it sigmoid(x) is below 1e-37.
    odds = np.exp(np.minimum(-x, x.dtype.type(87 if x.dtype == np.float32 else 700)))
    found = 1 / (1 + odds)
    odds *= found
    return found, odds


def _tanh(x: Array) -> Array:
    return np.tanh(x)


def _relu(x: Array) -> Array:
    # np.maximum keeps a NaN: a network that has diverged must not look like zeros.
    result: Array = np.maximum(x, x.dtype.type(0))
    return result


def _step(y: Array) -> Array:
    """Return relu's slope; 0 at 0, as in torch and Paddle."""
    return (y > 0).astype(y.dtype)


ACTIVATIONS: dict[str, Activation] = {
    activation.name: activation
    for activation in (
        Activation("sigmoid", sigmoid, lambda y: y * (1 - y)),
        Activation("tanh", _tanh, lambda y: 1 - y * y),
        Activation("relu", _relu, _step),
        Activation("identity", np.copy, np.ones_like),
    )
}


def activation_named(name: str) -> Activation:
    """Return the activation called `name`.

    Raises:
        InvalidDataError: unknown name; the message lists the known ones.

    >>> activation_named("relu").value(np.array([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    try:
        return ACTIVATIONS[name]
    except KeyError:
        known = ", ".join(ACTIVATIONS)
        raise InvalidDataError(
            f"activation: expected one of {known}, found {name!r}{or_near(name, ACTIVATIONS)}"
        ) from None
