"""The states of all layers and directions of an RNN, and the outputs of the last layer."""

from __future__ import annotations

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.stack.stack import RNNWeights


def state_count(weights: RNNWeights) -> int:
    """Return the number of hidden states of an RNN: layers times directions."""
    return len(weights.layers) * weights.directions


def last_of(weights: RNNWeights, last_hidden: Array) -> Array:
    """Return the last layer's states, directions side by side: (S, directions*H).

    Args:
        weights: of the RNN.
        last_hidden: (layers*directions, S, H).
    """
    return np.concatenate(list(last_hidden[-weights.directions :]), axis=1)


def last_of_gradient(weights: RNNWeights, grad: Array) -> Array:
    """Return the gradient with respect to all last states, (layers*directions, S, H).

    Args:
        weights: of the RNN.
        grad: (S, directions*H), the gradient with respect to the result of `last_of`.
    """
    size = weights.layers[0][0].output_size
    whole = np.zeros_like(grad, shape=(state_count(weights), len(grad), size))
    # One by one: a list of arrays on a GPU cannot be assigned.
    for direction in range(weights.directions):
        columns = slice(direction * size, (direction + 1) * size)
        whole[direction - weights.directions] = grad[:, columns]
    return whole
