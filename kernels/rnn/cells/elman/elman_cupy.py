"""See elman.py."""

from __future__ import annotations

from lodcli.kernels.rnn.cells.elman.elman import ElmanWeights
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.spaces import activation


class ElmanSteps(CellSteps[ElmanWeights]):
    """Steps of an Elman cell; the backward pass needs only the outputs."""

    KEPT, RECURRENT = 0, 1

    def cell(self) -> str:
        return f"Elman<{activation(self.weights.nonlinearity)}>"
