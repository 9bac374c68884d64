"""How many floating-point operations an RNN takes, with and without padding."""

from __future__ import annotations

from lodcli.kernels.rnn.stack.stack import RNNWeights


def operations_per_row(weights: RNNWeights) -> int:
    """Return the operations of one step of one sequence: those of its matrix products.

    A product of an (m, k) matrix and a vector is m*k multiplications and as many additions;
    the elementwise rest is left out, as is usual.

    >>> import numpy as np
    >>> from lodcli.kernels.rnn.stack.stack import seeded_weights
    >>> operations_per_row(seeded_weights("lstm", 3, 2, rng=np.random.default_rng(0)))
    80
    """
    return 2 * sum(
        array.size
        for layer in weights.layers
        for direction in layer
        for name, array in direction.arrays().items()
        if name in ("weight_ih", "weight_hh", "weight_hr")
    )
