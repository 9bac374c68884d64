"""See elman.py."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, activation
from lodcli.kernels.rnn.engine.cupy.steps import linear_gradients


class ElmanSteps(CellSteps[ElmanWeights]):
    """Steps of an Elman cell; the backward pass needs only the outputs."""

    KEPT, RECURRENT = 0, 1

    def cell(self) -> str:
        return f"Elman<{activation(self.weights.nonlinearity)}>"

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        return linear_gradients(space, sums)
