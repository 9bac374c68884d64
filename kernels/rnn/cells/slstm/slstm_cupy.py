"""See slstm.py."""

from __future__ import annotations

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.slstm.slstm import SLSTMHead
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.spaces import Backward
from lodcli.kernels.rnn.engine.cupy.steps import linear_gradients


class SLSTMSteps(CellSteps[SLSTMHead]):
    """Steps of one head of an sLSTM."""

    KEPT, RECURRENT = 4, 4

    def cell(self) -> str:
        return "SLSTM"

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        return linear_gradients(space, sums)
