"""See gru_paddle.py."""

from __future__ import annotations

import cupy

from lodcli.kernels.index.checks import Array
from lodcli.kernels.rnn.cells.gru_paddle.gru_paddle import PaddleGRUWeights
from lodcli.kernels.rnn.engine.cupy.dot import dot
from lodcli.kernels.rnn.engine.cupy.product import product
from lodcli.kernels.rnn.engine.cupy.spaces import Backward, Forward, activation, flag
from lodcli.kernels.rnn.engine.cupy.steps import BackwardStep, ForwardStep, Steps, hidden_before
from lodcli.kernels.rnn.engine.cupy.table import Launch, step_launch


class PaddleGRUSteps(Steps[PaddleGRUWeights]):
    """Two products and two launches per step: the candidate's product needs the reset gate."""

    KEPT, RECURRENT, OPENED, CANDIDATE = 3, 2, True, True

    def options(self) -> tuple[str, ...]:
        weights = self.weights
        activations = (weights.gate_activation, weights.candidate_activation)
        return (*map(activation, activations), flag(weights.origin_mode))

    def forward(self, space: Forward) -> ForwardStep:
        weights, size, place = self.weights, self.weights.hidden_size, space.place
        gate, candidate, origin = self.options()
        assert space.opened is not None
        assert space.candidate is not None
        assert space.recurrent is not None
        by_gate, by_candidate = weights.weight_hh[: 2 * size], weights.weight_hh[2 * size :]
        recur = product(space.table, space.hidden, by_gate, space.recurrent)
        again = product(space.table, space.opened, by_candidate, space.candidate)

        def step(number: int, alive: int, by_cublas: bool) -> list[Launch]:
            where = (place, size, alive, number, alive)
            return [
                recur.launch(alive, by_cublas=by_cublas),
                self._launch("paddle_gates", (gate,), *where),
                again.launch(alive, by_cublas=by_cublas),
                self._launch("paddle_step", (candidate, origin), *where),
            ]

        return step

    def backward(self, space: Backward) -> BackwardStep:
        weights, size, place = self.weights, self.weights.hidden_size, space.place
        gate, _, _ = self.options()
        assert space.opened is not None
        assert space.packed is not None
        assert space.packed_candidate is not None
        turned = cupy.ascontiguousarray(weights.weight_hh[: 2 * size].T)
        last = cupy.ascontiguousarray(weights.weight_hh[2 * size :].T)
        again = product(space.table, space.packed_candidate, last, space.opened)
        flow = product(space.table, space.packed, turned, space.flow)

        def step(number: int, alive: int, later: int, by_cublas: bool) -> list[Launch]:
            where = (place, size, alive, number, alive)
            return [
                self._launch("paddle_candidate_gradient", self.options(), *where, later),
                again.launch(alive, by_cublas=by_cublas),
                self._launch("paddle_reset_gradient", (gate,), *where),
                flow.launch(alive, by_cublas=by_cublas),
            ]

        return step

    def _launch(self, kernel: str, options: tuple[str, ...], *where: int) -> Launch:
        whole = f"{kernel}<{', '.join((self.value, *options))}>"
        return step_launch("rnn_gru_paddle", whole, *where)

    def recurrent_gradients(self, space: Backward, sums: Array | None) -> dict[str, Array]:
        size, before = self.weights.hidden_size, hidden_before(space)
        gates, candidate = space.gradients[:, : 2 * size], space.gradients[:, 2 * size :]
        assert space.kept.gates is not None
        opened = space.kept.gates[:, size : 2 * size] * before
        parts = dot(gates.T, before), dot(candidate.T, opened)
        found = {"weight_hh": cupy.concatenate(parts)}
        return found if sums is None else found | {"bias_hh": sums.copy()}
