"""Initial states of an inner RNN from the state of the outer one; see nested.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.stack.stack import RNNWeights
from lodcli.kernels.rnn.stack.states import state_count
from lodcli.kernels.runtime.argument_types import CheckedFields
from lodcli.kernels.runtime.summaries import Summarized


@dataclass(frozen=True, eq=False)
class Boot(CheckedFields, Summarized):
    """Linear layer from a state of the RNN above to initial hidden states of the one below.

    Attributes:
        weight: (layers*directions*H, O), O the width of the state above, as torch's Linear.
            The result is split into layers and directions, in torch's order. None: every
            layer and direction starts from the state itself, O = H.
        bias: (layers*directions*H,), or None for none.
    """

    weight: Array | None = None
    bias: Array | None = None

    def arrays(self) -> dict[str, Array]:
        """Return the arrays that are not None, by field."""
        fields = {"weight": self.weight, "bias": self.bias}
        return {name: array for name, array in fields.items() if array is not None}

    def moved(self, move: Callable[[Array], Array]) -> Boot:
        """Return a boot with `move` applied to every array."""
        return Boot(**{name: move(array) for name, array in self.arrays().items()})


def boot_shape(outer: RNNWeights, inner: RNNWeights) -> tuple[int, int]:
    """Return the shape of the boot weight between two RNNs."""
    return state_count(inner) * inner.layers[0][0].output_size, outer.output_size


@np.errstate(all="ignore")  # values may be infinite
def booted(boot: Boot, state: Array, weights: RNNWeights) -> Array:
    """Return the initial hidden states of an inner RNN: (layers*directions, n, H)."""
    count, size = state_count(weights), weights.layers[0][0].output_size
    if boot.weight is None:
        start = np.broadcast_to(state[:, np.newaxis], (len(state), count, size))
    else:
        start = (state @ boot.weight.T.astype(state.dtype, copy=False)).reshape(-1, count, size)
    if boot.bias is not None:
        start = start + boot.bias.astype(state.dtype, copy=False).reshape(count, size)
    return start.swapaxes(0, 1).copy()
