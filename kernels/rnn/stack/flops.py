"""Number of floating-point operations of an RNN."""

from __future__ import annotations

from lodcli.kernels.rnn.stack.stack import RNNWeights


def operations_per_row(weights: RNNWeights) -> int:
    """Return the operations of one step of one sequence: those of its matrix products.

    >>> import numpy as np
    >>> from lodcli.kernels.rnn.stack.stack import seeded_weights
    >>> operations_per_row(seeded_weights("lstm", 3, 2, rng=np.random.default_rng(0)))
    80
    """
    return sum(direction.operations for layer in weights.layers for direction in layer)
