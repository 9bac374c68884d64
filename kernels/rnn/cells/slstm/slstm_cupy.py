"""See slstm.py."""

from __future__ import annotations

from lodcli.kernels.rnn.cells.slstm.slstm import SLSTMHead
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps


class SLSTMSteps(CellSteps[SLSTMHead]):
    """Steps of one head of an sLSTM."""

    KEPT, RECURRENT = 4, 4

    def cell(self) -> str:
        return "SLSTM"
