"""See gru.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.gru.gru import GRUWeights
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.spaces import Backward
from lodcli.kernels.rnn.engine.cupy.steps import column_sums, hidden_before


class GRUSteps(CellSteps[GRUWeights]):
    """Steps of torch's GRU, whose reset gate multiplies the candidate's recurrent product."""

    KEPT, RECURRENT, INNER = 3, 3, True

    def cell(self) -> str:
        return "GRU"

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        # For n the gradient behind the reset gate; for r and z the gradient of the input gates.
        both, before = 2 * self.weights.hidden_size, hidden_before(space)
        assert space.reset is not None
        parts = (space.gradients[:, :both], space.reset)
        found = {"weight_hh": cupy.concatenate([dot(part.T, before) for part in parts])}
        if sums is not None:
            found["bias_hh"] = cupy.concatenate([sums[:both], column_sums(space.reset)])
        return found
