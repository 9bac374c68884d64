"""See rnn/elman.py."""

from __future__ import annotations

from lodcli.kernels.checks import Array
from lodcli.kernels.on_cupy.rnn.cell_steps import CellSteps
from lodcli.kernels.on_cupy.rnn.spaces import Backward, activation
from lodcli.kernels.on_cupy.rnn.steps import linear_gradients
from lodcli.kernels.rnn.elman import ElmanWeights


class ElmanSteps(CellSteps[ElmanWeights]):
    """The outputs are all that the way back needs."""

    KEPT, RECURRENT = 0, 1

    def cell(self) -> str:
        return f"Elman<{activation(self.weights.nonlinearity)}>"

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        return linear_gradients(space, sums)
