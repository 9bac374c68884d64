"""See lstm.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.lstm.lstm import LSTMWeights
from lodcli.kernels.rnn.engine.cupy.cell_steps import CellSteps
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.product import product
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward, activation, flag
from lodcli.kernels.rnn.engine.cupy.steps import BackwardStep, ForwardStep, column_sums
from lodcli.kernels.rnn.engine.cupy.table import Launch, step_launch


class LSTMSteps(CellSteps[LSTMWeights]):
    """Steps of an LSTM; a projection takes one more product and launch per step."""

    KEPT, RECURRENT = 4, 4

    @property
    def projects(self) -> bool:
        return self.weights.weight_hr is not None

    def cell(self) -> str:
        weights = self.weights
        names = (weights.gate_activation, weights.cell_activation, weights.candidate_activation)
        return f"LSTM<{', '.join((*map(activation, names), flag(weights.coupled)))}>"

    def forward(self, space: Forward) -> ForwardStep:
        whole, weight = super().forward(space), self.weights.weight_hr
        if weight is None:
            return whole
        assert space.opened is not None
        project = product(space.table, space.opened, weight, space.hidden)
        kernel = f"lstm_rows<{self.value}>"
        place, width = space.place, self.weights.output_size

        def step(number: int, alive: int, by_cublas: bool) -> list[Launch]:
            return [
                *whole(number, alive, by_cublas),
                project.launch(alive, by_cublas=by_cublas),
                step_launch("rnn_projection", kernel, place, width, alive, number, alive),
            ]

        return step

    def backward(self, space: Backward) -> BackwardStep:
        whole, weight = super().backward(space), self.weights.weight_hr
        if weight is None:
            return whole
        assert space.total is not None
        assert space.opened is not None
        unproject = product(
            space.table, space.total, cupy.ascontiguousarray(weight.T), space.opened
        )
        kernel = f"lstm_arriving<{self.value}>"
        place, width = space.place, self.weights.output_size

        def step(number: int, alive: int, later: int, by_cublas: bool) -> list[Launch]:
            where = (place, width, alive, number, alive, later)
            return [
                step_launch("rnn_projection", kernel, *where),
                unproject.launch(alive, by_cublas=by_cublas),
                *whole(number, alive, later, by_cublas),
            ]

        return step

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        kept, size = space.kept, self.weights.hidden_size
        gradients = super().recurrent_gradients(space, sums)
        if self.weights.peepholes is not None:
            assert kept.cells is not None
            by_i, by_f, _, by_o = (
                space.gradients[:, gate * size : (gate + 1) * size] for gate in range(4)
            )
            before = space.order.before(kept.cells, kept.begin[1])
            seen = (by_i * before, by_f * before, by_o * kept.cells)
            gradients["peepholes"] = cupy.stack([column_sums(gate) for gate in seen])
        if space.totals is not None:
            assert kept.inner is not None
            gradients["weight_hr"] = dot(space.totals.T, kept.inner)
        return gradients
